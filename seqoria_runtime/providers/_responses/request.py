"""Encodes a `ModelRequest` for Responses."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from seqoria_runtime.providers._answers.answer import NewId, new_id
from seqoria_runtime.providers._answers.encoded_request import EncodedRequest, write_body
from seqoria_runtime.providers._protocol import ModelRequest, ToolDefinition
from seqoria_runtime.providers._requests.schemas import fits_strict, wire_schema
from seqoria_runtime.providers._requests.wire_names import WireNames, chosen_tool, wire_name

from .answer import ResponsesAnswer
from .messages import wire_input

_ONLY_WITH_TOOLS = ("max_tool_calls", "parallel_tool_calls")
_CHOICES = frozenset({"auto", "none", "required"})
# The beginnings of names of models that refuse a temperature, whatever its value.
_WITHOUT_TEMPERATURE = ("gpt-5",)


def encode_responses(
    request: ModelRequest,
    *,
    model: str,
    options: Mapping[str, Any],
    stream: bool,
    ids: NewId = new_id,
) -> EncodedRequest:
    """Encode a request for one model.

    Raises `InvalidRequestError` for what Responses cannot express.
    """
    chosen = dict(options)
    instructions, items = wire_input(request.messages, stored=chosen.get("store") is not False)
    body: dict[str, Any] = {"model": model, "input": items}
    if instructions:
        body["instructions"] = instructions
    strict = bool(chosen.pop("strict_tools", False))
    body |= _tools(request, at_server=chosen.pop("tools", ()), strict=strict)
    body |= chosen.pop("extra_body", {})
    body |= _generation(chosen, model=model, with_tools="tools" in body, stream=stream)
    if stream:
        body["stream"] = True
    names = WireNames(tool.name for tool in request.tools)
    return EncodedRequest(
        path="/responses",
        body=write_body(body),
        model=model,
        answer=partial(ResponsesAnswer, model=model, real_name=names.real, new_id=ids),
        stream=stream,
    )


def _generation(options: Mapping[str, Any], *, model: str, with_tools: bool, stream: bool) -> dict[str, Any]:
    left_out = set() if with_tools else set(_ONLY_WITH_TOOLS)
    if not stream:
        left_out.add("stream_options")
    if model.startswith(_WITHOUT_TEMPERATURE):
        left_out.add("temperature")
    return {name: value for name, value in options.items() if name not in left_out}


def _tools(request: ModelRequest, *, at_server: Sequence[Mapping[str, Any]], strict: bool) -> dict[str, Any]:
    tools = [*(_definition(tool, strict=strict) for tool in request.tools), *map(dict, at_server)]
    choice = request.tool_choice if request.tools else None
    if not choice:
        return {"tools": tools} if tools else {}
    return {"tools": tools, "tool_choice": _choice(choice, request.tools)}


def _choice(choice: str, tools: Sequence[ToolDefinition]) -> str | dict[str, Any]:
    if choice in _CHOICES:
        return choice
    return {"type": "function", "name": wire_name(chosen_tool(tools, choice).name)}


def _definition(tool: ToolDefinition, *, strict: bool) -> dict[str, Any]:
    parameters = wire_schema(tool.parameters)
    definition: dict[str, Any] = {
        "type": "function",
        "name": wire_name(tool.name),
        "parameters": parameters,
        # Without this field the server decides, and changes a schema that it finds strict enough.
        "strict": strict and fits_strict(parameters),
    }
    return definition | ({"description": tool.description} if tool.description.strip() else {})
