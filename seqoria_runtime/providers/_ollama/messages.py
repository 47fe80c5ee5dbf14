"""Writes a history as the messages of Ollama's chat."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from seqoria_runtime.models import ChatMessage, UserMessage
from seqoria_runtime.models.errors import InvalidRequestError
from seqoria_runtime.providers._requests.content import image_of
from seqoria_runtime.providers._requests.replay import AnsweredCall, PastResponse, PlacedCall, entries
from seqoria_runtime.providers._requests.wire_names import CallIdRule, CallIds, wire_name

from .answer import WIRE_FORMAT

Message: TypeAlias = dict[str, Any]

_CALL_IDS = CallIdRule(at_most=64)


def wire_messages(messages: Sequence[ChatMessage]) -> list[Message]:
    """Write the history: nothing in it blank, each call answered, results in the order of the calls.

    Raises `InvalidRequestError` for a content block that Ollama does not take.
    """
    ids = CallIds(_CALL_IDS)
    wire: list[Message] = []
    for entry in entries(messages):
        if isinstance(entry, PastResponse):
            wire += _response(entry, ids)
        elif isinstance(entry, UserMessage):
            content = _content(entry.content)
            wire += [{"role": "user", **content}] if content["content"].strip() or "images" in content else []
        elif entry.content.strip():
            wire.append({"role": "system", "content": entry.content})
    return wire


def _response(response: PastResponse, ids: CallIds) -> list[Message]:
    if not response.text and not response.calls:
        return []
    message: Message = {"role": "assistant", "content": response.text}
    if not response.calls:
        return [message]
    call_ids = [ids.unique(call.id) for call in response.calls]
    # The model goes on from the reasoning before its calls, but not from another format's.
    if response.thinking and response.blocks(WIRE_FORMAT):
        message["thinking"] = response.thinking
    message["tool_calls"] = [
        _call(PlacedCall(index, call), call_id)
        for index, (call, call_id) in enumerate(zip(response.calls, call_ids, strict=True))
    ]
    results = [_result(call, call_id) for call, call_id in zip(response.calls, call_ids, strict=True)]
    return [message, *results]


def _call(placed: PlacedCall, call_id: str) -> Message:
    function = {"name": wire_name(placed.call.request.name), "arguments": placed.arguments}
    return {"id": call_id, "function": function}


def _result(call: AnsweredCall, call_id: str) -> Message:
    name = wire_name(call.request.name)
    return {"role": "tool", "content": call.text, "tool_name": name, "tool_call_id": call_id}


def _content(content: str | Sequence[Mapping[str, Any]] | None) -> Message:
    if content is None or isinstance(content, str):
        return {"content": content or ""}
    texts: list[str] = []
    images: list[str] = []
    for block in content:
        image = image_of(block)
        if image is None:
            texts.append(_text(block))
        elif image.inline is None:
            texts.append(f"[Image URL: {image.url}]")
        else:
            images.append(image.inline[1])
    text = "\n".join(text for text in texts if text.strip())
    return {"content": text} | ({"images": images} if images else {})


def _text(block: Mapping[str, Any]) -> str:
    text = block.get("text")
    if not isinstance(text, str):
        raise InvalidRequestError(f"Ollama takes text and images, not a block of type {block.get('type')!r}")
    return text
