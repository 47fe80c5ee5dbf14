"""Encodes a `ModelRequest` for Ollama's chat, and the request to pull a model."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from seqoria_runtime.providers._answers.answer import NewId, new_id
from seqoria_runtime.providers._answers.encoded_request import EncodedRequest, write_body
from seqoria_runtime.providers._answers.lines import LineFraming
from seqoria_runtime.providers._protocol import ModelRequest, ToolDefinition
from seqoria_runtime.providers._requests.options import OLLAMA_MODEL_OPTIONS
from seqoria_runtime.providers._requests.schemas import inlined_schema, with_type_lists
from seqoria_runtime.providers._requests.wire_names import WireNames, chosen_tool, wire_name

from .answer import OllamaAnswer, PullAnswer
from .messages import wire_messages


def encode_ollama(
    request: ModelRequest,
    *,
    model: str,
    options: Mapping[str, Any],
    stream: bool,
    ids: NewId = new_id,
) -> EncodedRequest:
    """Encode a request for one model.

    Raises `InvalidRequestError` for what Ollama's chat cannot express.
    """
    body: dict[str, Any] = {"model": model, "messages": wire_messages(request.messages)}
    tools = _offered(request)
    if tools:
        body["tools"] = [_definition(tool) for tool in tools]
    body |= _generation(options)
    # The server streams unless it is asked not to.
    body["stream"] = stream
    names = WireNames(tool.name for tool in request.tools)
    return EncodedRequest(
        path="/api/chat",
        body=write_body(body),
        model=model,
        answer=partial(OllamaAnswer, model=model, real_name=names.real, new_id=ids),
        framing=LineFraming,
        stream=stream,
    )


def encode_pull(model: str) -> EncodedRequest:
    """Encode the request that makes a server pull a model."""
    return EncodedRequest(
        path="/api/pull",
        body=write_body({"model": model, "stream": True}),
        model=model,
        answer=partial(PullAnswer, model),
        framing=LineFraming,
        stream=True,
    )


def _generation(options: Mapping[str, Any]) -> dict[str, Any]:
    at_top = {name: value for name, value in options.items() if name not in OLLAMA_MODEL_OPTIONS}
    more = at_top.pop("extra_body", {})
    of_model = {name: value for name, value in options.items() if name in OLLAMA_MODEL_OPTIONS}
    of_model = {**(more.get("options") or {}), **of_model}
    return {**more, **at_top} | ({"options": of_model} if of_model else {})


def _offered(request: ModelRequest) -> Sequence[ToolDefinition]:
    """Return the tools to offer: without a choice of tools, Ollama gets only those that may be called."""
    choice = request.tool_choice
    if not request.tools or choice == "none":
        return ()
    if choice in {None, "auto", "required"}:
        return request.tools
    return [chosen_tool(request.tools, choice)]


def _definition(tool: ToolDefinition) -> dict[str, Any]:
    # Ollama reads no references in schemas, and no unions before version 0.12.
    parameters = with_type_lists(inlined_schema(tool.parameters))
    function = {"name": wire_name(tool.name), "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}
