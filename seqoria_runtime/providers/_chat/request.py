"""Encodes a `ModelRequest` for Chat Completions; what sets servers apart is in the profile."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from seqoria_runtime.providers._answers.answer import NewId, new_id
from seqoria_runtime.providers._answers.encoded_request import EncodedRequest, write_body
from seqoria_runtime.providers._protocol import ModelRequest, ToolDefinition
from seqoria_runtime.providers._requests.schemas import wire_schema
from seqoria_runtime.providers._requests.wire_names import WireNames, chosen_tool, wire_name

from .answer import ChatAnswer
from .messages import wire_messages
from .profiles import Profile

_ONLY_WITH_TOOLS = ("parallel_tool_calls",)


def encode_chat(
    request: ModelRequest,
    *,
    model: str,
    options: Mapping[str, Any],
    profile: Profile,
    stream: bool,
    ids: NewId = new_id,
) -> EncodedRequest:
    """Encode a request for one model.

    Raises `InvalidRequestError` for what Chat Completions cannot express.
    """
    body: dict[str, Any] = {"model": model, "messages": wire_messages(request.messages, profile)}
    body |= _tools(request, profile)
    body |= _generation(options, with_tools="tools" in body, stream=stream, profile=profile)
    if stream:
        body["stream"] = True
    names = WireNames(tool.name for tool in request.tools)
    return EncodedRequest(
        path="/chat/completions",
        body=write_body(body),
        model=model,
        answer=partial(ChatAnswer, model=model, real_name=names.real, profile=profile, new_id=ids),
        trailer=True,
        stream=stream,
    )


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
    named = chosen_tool(tools, choice)
    if profile.named_tool_choice == "alone":
        return {"tools": _definitions([named]), "tool_choice": profile.required_tool_choice}
    forced = {"type": "function", "function": {"name": wire_name(named.name)}}
    return {"tools": _definitions(tools), "tool_choice": forced}


def _definitions(tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
    return [{"type": "function", "function": _function(tool)} for tool in tools]


def _function(tool: ToolDefinition) -> dict[str, Any]:
    function: dict[str, Any] = {"name": wire_name(tool.name), "parameters": wire_schema(tool.parameters)}
    if tool.description.strip():
        function["description"] = tool.description
    return function
