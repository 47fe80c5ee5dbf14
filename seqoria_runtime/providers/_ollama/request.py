"""The codec of Ollama's chat: a `ModelRequest` in, the request's body and a reading of its answer out.

Does no I/O.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from seqoria_runtime.models.errors import InvalidRequestError
from seqoria_runtime.providers._answers.exchange import JSONExchange, NewId, encoded, new_id
from seqoria_runtime.providers._answers.lines import LineFraming
from seqoria_runtime.providers._protocol import ModelRequest, ToolDefinition
from seqoria_runtime.providers._requests.options import OLLAMA_MODEL_OPTIONS
from seqoria_runtime.providers._requests.schemas import inlined_schema, with_type_lists
from seqoria_runtime.providers._requests.wire_names import WireNames, wire_name

from .answer import OllamaAnswer
from .messages import wire_messages


def ollama_exchange(
    request: ModelRequest,
    *,
    model: str,
    options: Mapping[str, Any],
    stream: bool,
    ids: NewId = new_id,
) -> JSONExchange:
    """Encode a request for one model.

    Raises `InvalidRequestError` for what Ollama's chat has no form for.
    """
    body: dict[str, Any] = {"model": model, "messages": wire_messages(request.messages)}
    tools = _offered(request)
    if tools:
        body["tools"] = [_definition(tool) for tool in tools]
    body |= _generation(options)
    # Without it, the server would stream.
    body["stream"] = stream
    names = WireNames(tool.name for tool in request.tools)
    return JSONExchange(
        path="/api/chat",
        body=encoded(body),
        model=model,
        answer=partial(OllamaAnswer, model=model, names=names, new_id=ids),
        framing=LineFraming,
        stream=stream,
    )


def _generation(options: Mapping[str, Any]) -> dict[str, Any]:
    at_top = {name: value for name, value in options.items() if name not in OLLAMA_MODEL_OPTIONS}
    more = at_top.pop("extra_body", {})
    of_model = {name: value for name, value in options.items() if name in OLLAMA_MODEL_OPTIONS}
    of_model = {**(more.get("options") or {}), **of_model}
    return {**more, **at_top} | ({"options": of_model} if of_model else {})


def _offered(request: ModelRequest) -> Sequence[ToolDefinition]:
    """Give the tools to offer: Ollama has no choice of tools, so what may not be called is left out."""
    choice = request.tool_choice
    if not request.tools or choice == "none":
        return ()
    if choice in {None, "auto", "required"}:
        return request.tools
    named = [tool for tool in request.tools if tool.name == choice]
    if not named:
        raise InvalidRequestError(f"tool_choice names {choice!r}, which is none of the request's tools")
    return named


def _definition(tool: ToolDefinition) -> dict[str, Any]:
    # Its reader of schemas knows neither references nor, before version 0.12, unions.
    parameters = with_type_lists(inlined_schema(tool.parameters))
    function = {"name": wire_name(tool.name), "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}
