"""Encodes a `ModelRequest` for Messages."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from seqoria_runtime.providers._answers.answer import NewId, new_id
from seqoria_runtime.providers._answers.encoded_request import EncodedRequest, write_body
from seqoria_runtime.providers._protocol import ModelRequest, ToolDefinition
from seqoria_runtime.providers._requests.schemas import fits_strict, wire_schema
from seqoria_runtime.providers._requests.wire_names import WireNames, chosen_tool, wire_name

from .answer import MessagesAnswer
from .messages import wire_messages

DEFAULT_MAX_TOKENS = 4096
"""Sent if the application sets no limit, since the API requires one; every model allows this."""

_CHOICES = {"auto": "auto", "required": "any", "none": "none"}


def encode_messages(
    request: ModelRequest,
    *,
    model: str,
    options: Mapping[str, Any],
    stream: bool,
    signed_only: bool = True,
    ids: NewId = new_id,
) -> EncodedRequest:
    """Encode a request for one model.

    Raises `InvalidRequestError` for what Messages cannot express.
    """
    system, messages = wire_messages(request.messages, signed_only=signed_only)
    body: dict[str, Any] = {"model": model, "messages": messages}
    if system:
        body["system"] = system
    chosen = dict(options)
    strict = bool(chosen.pop("strict_tools", False))
    one_at_a_time = chosen.pop("disable_parallel_tool_use", None)
    body |= _tools(request, one_at_a_time=one_at_a_time, strict=strict)
    body |= chosen.pop("extra_body", {})
    body |= chosen
    body.setdefault("max_tokens", _default_limit(chosen.get("thinking")))
    if stream:
        body["stream"] = True
    names = WireNames(tool.name for tool in request.tools)
    return EncodedRequest(
        path="/v1/messages",
        body=write_body(body),
        model=model,
        answer=partial(MessagesAnswer, model=model, real_name=names.real, new_id=ids),
        stream=stream,
    )


def _default_limit(thinking: Any) -> int:
    budget = thinking.get("budget_tokens") if isinstance(thinking, Mapping) else None
    # The limit covers the reasoning too, and has to exceed its budget.
    return DEFAULT_MAX_TOKENS + (budget if isinstance(budget, int) else 0)


def _tools(request: ModelRequest, *, one_at_a_time: bool | None, strict: bool) -> dict[str, Any]:
    if not request.tools:
        return {}
    tools: dict[str, Any] = {"tools": [_definition(tool, strict=strict) for tool in request.tools]}
    choice = _choice(request.tool_choice, request.tools)
    if one_at_a_time is not None and (choice is None or choice["type"] != "none"):
        choice = (choice or {"type": "auto"}) | {"disable_parallel_tool_use": one_at_a_time}
    return tools | ({"tool_choice": choice} if choice else {})


def _choice(choice: str | None, tools: Sequence[ToolDefinition]) -> dict[str, Any] | None:
    if choice is None:
        return None
    if choice in _CHOICES:
        return {"type": _CHOICES[choice]}
    return {"type": "tool", "name": wire_name(chosen_tool(tools, choice).name)}


def _definition(tool: ToolDefinition, *, strict: bool) -> dict[str, Any]:
    schema = wire_schema(tool.parameters)
    definition: dict[str, Any] = {"name": wire_name(tool.name), "input_schema": schema}
    if tool.description.strip():
        definition["description"] = tool.description
    return definition | ({"strict": True} if strict and fits_strict(schema) else {})
