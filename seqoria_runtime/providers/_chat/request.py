"""The codec of Chat Completions: a `ModelRequest` in, the request's body and a reading of its answer out.

Does no I/O. What sets servers apart is in the profile.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from seqoria_runtime.models.errors import InvalidRequestError
from seqoria_runtime.providers._answers.decoding import EventStreamDecoder, WholeDecoder
from seqoria_runtime.providers._answers.wire import Decoder
from seqoria_runtime.providers._json import dump
from seqoria_runtime.providers._protocol import ModelRequest, ToolDefinition
from seqoria_runtime.providers._requests.schemas import wire_schema
from seqoria_runtime.providers._requests.wire_names import WireNames, wire_name

from .answer import ChatAnswer
from .messages import wire_messages
from .profiles import Profile

_ONLY_WITH_TOOLS = ("parallel_tool_calls",)


def _new_id() -> str:
    return uuid4().hex


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatExchange:
    """One question in Chat Completions; an `Exchange` as the driver wants it."""

    body: bytes
    model: str
    profile: Profile
    names: WireNames
    new_id: Callable[[], str] = _new_id
    path: str = "/chat/completions"

    def decoder(self, content_type: str) -> Decoder:
        answer = ChatAnswer(model=self.model, names=self.names, profile=self.profile, new_id=self.new_id)
        if content_type.partition(";")[0].strip().lower() == "application/json":
            return WholeDecoder(answer)
        return EventStreamDecoder(answer)


def chat_exchange(
    request: ModelRequest, *, model: str, options: Mapping[str, Any], profile: Profile, stream: bool
) -> ChatExchange:
    """Encode a request for one model.

    Raises `InvalidRequestError` for what Chat Completions has no form for.
    """
    body: dict[str, Any] = {"model": model, "messages": wire_messages(request.messages, profile)}
    body |= _tools(request, profile)
    body |= _generation(options, with_tools="tools" in body, stream=stream, profile=profile)
    if stream:
        body["stream"] = True
    try:
        encoded = dump(body)
    except (TypeError, ValueError) as error:
        raise InvalidRequestError(f"the request cannot be written as JSON: {error}") from error
    names = WireNames(tool.name for tool in request.tools)
    return ChatExchange(body=encoded, model=model, profile=profile, names=names)


def _generation(
    options: Mapping[str, Any], *, with_tools: bool, stream: bool, profile: Profile
) -> dict[str, Any]:
    chosen = {name: value for name, value in options.items() if with_tools or name not in _ONLY_WITH_TOOLS}
    if not stream:
        chosen.pop("stream_options", None)
    elif profile.usage_in_streams:
        chosen.setdefault("stream_options", {"include_usage": True})
    return {**chosen.pop("extra_body", {}), **chosen}


def _tools(request: ModelRequest, profile: Profile) -> dict[str, Any]:
    tools, choice = request.tools, request.tool_choice
    if not tools:
        return {}
    if choice in {None, "auto", "none"}:
        return {"tools": _definitions(tools)} | ({"tool_choice": choice} if choice else {})
    if choice == "required":
        return {"tools": _definitions(tools), "tool_choice": profile.required_tool_choice}
    named = [tool for tool in tools if tool.name == choice]
    if not named:
        raise InvalidRequestError(f"tool_choice names {choice!r}, which is none of the request's tools")
    if profile.named_tool_choice == "alone":
        return {"tools": _definitions(named), "tool_choice": profile.required_tool_choice}
    forced = {"type": "function", "function": {"name": wire_name(named[0].name)}}
    return {"tools": _definitions(tools), "tool_choice": forced}


def _definitions(tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
    return [{"type": "function", "function": _function(tool)} for tool in tools]


def _function(tool: ToolDefinition) -> dict[str, Any]:
    function: dict[str, Any] = {"name": wire_name(tool.name), "parameters": wire_schema(tool.parameters)}
    if tool.description.strip():
        function["description"] = tool.description
    return function
