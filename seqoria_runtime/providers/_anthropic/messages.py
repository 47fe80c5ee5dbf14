"""Writes a history for Messages: its messages and, separately, its system texts."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from seqoria_runtime.models import ChatMessage, UserMessage
from seqoria_runtime.models.errors import InvalidRequestError
from seqoria_runtime.providers._requests.content import content_or_text, image_of
from seqoria_runtime.providers._requests.option_values import CACHE_CONTROL, has_type
from seqoria_runtime.providers._requests.replay import (
    AnsweredCall,
    Part,
    PastResponse,
    PlacedCall,
    entries,
    ordered_parts,
)
from seqoria_runtime.providers._requests.wire_names import CallIdRule, CallIds, wire_name

from .answer import WIRE_FORMAT

Block: TypeAlias = dict[str, Any]

_CALL_IDS = CallIdRule(at_most=64, plain=True)
_REASONING = frozenset({"thinking", "redacted_thinking"})


def wire_messages(messages: Sequence[ChatMessage], *, signed_only: bool) -> tuple[list[Block], list[Block]]:
    """Return the system blocks and the messages: nothing blank, each call answered right after it.

    With `signed_only`, reasoning without a signature is left out, since Anthropic refuses it.
    Raises `InvalidRequestError` for a content block that Messages does not take.
    """
    ids = CallIds(_CALL_IDS)
    system: list[Block] = []
    wire: list[Block] = []
    for entry in entries(messages):
        if isinstance(entry, PastResponse):
            wire += _response(entry, ids, signed_only=signed_only)
        elif isinstance(entry, UserMessage):
            content = content_or_text(entry.content, _part)
            wire += [{"role": "user", "content": content}] if content else []
        elif entry.content.strip():
            system.append({"type": "text", "text": entry.content})
    return system, wire


def _response(response: PastResponse, ids: CallIds, *, signed_only: bool) -> list[Block]:
    call_ids = [ids.unique(call.id) for call in response.calls]
    parts = ordered_parts(response, WIRE_FORMAT)
    blocks = [block for part in parts if (block := _block(part, call_ids, signed_only)) is not None]
    # The API refuses a message that ends in reasoning, as that of an answer cut while it reasoned.
    while blocks and blocks[-1].get("type") in _REASONING:
        blocks.pop()
    wire: list[Block] = [{"role": "assistant", "content": blocks}] if blocks else []
    if response.calls:
        results = [_result(call, call_id) for call, call_id in zip(response.calls, call_ids, strict=True)]
        wire.append({"role": "user", "content": results})
    return wire


def _block(part: Part, call_ids: Sequence[str], signed_only: bool) -> Block | None:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if isinstance(part, PlacedCall):
        name = wire_name(part.call.request.name)
        return {
            **part.extras,
            "type": "tool_use",
            "id": call_ids[part.index],
            "name": name,
            "input": part.arguments,
        }
    match part.get("type"):
        case "text":
            kept = bool(str(part.get("text") or "").strip())
        case "thinking":
            kept = bool(part.get("signature") or (part.get("thinking") and not signed_only))
        case _:
            kept = True
    return dict(part) if kept else None


def _result(call: AnsweredCall, call_id: str) -> Block:
    result: Block = {"type": "tool_result", "tool_use_id": call_id, "content": call.text}
    return result | ({"is_error": True} if call.failed else {})


def _part(block: Mapping[str, Any]) -> Block | None:
    mark = block.get("cache_control")
    if mark is not None and not has_type(mark):
        raise InvalidRequestError(f"a block's 'cache_control' must be {CACHE_CONTROL}, not {mark!r}")
    if isinstance(block.get("source"), Mapping):
        return dict(block)
    image = image_of(block)
    if image is None:
        text = block.get("text")
        return dict(block) if not isinstance(text, str) or text.strip() else None
    part: Block = {"type": "image", "source": _source(image.url, image.inline)}
    return part | ({"cache_control": block["cache_control"]} if "cache_control" in block else {})


def _source(url: str, inline: tuple[str, str] | None) -> Block:
    if inline is None:
        return {"type": "url", "url": url}
    media_type, data = inline
    return {"type": "base64", "media_type": media_type, "data": data}
