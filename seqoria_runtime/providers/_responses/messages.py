"""Writes a history as the input items of Responses, and its system texts as the instructions."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from seqoria_runtime.models import ChatMessage, UserMessage
from seqoria_runtime.providers._requests.content import content_or_text, image_of
from seqoria_runtime.providers._requests.replay import Part, PastResponse, PlacedCall, entries, ordered_parts
from seqoria_runtime.providers._requests.wire_names import CallIdRule, CallIds, wire_name

from .answer import WIRE_FORMAT

Item: TypeAlias = dict[str, Any]

_CALL_IDS = CallIdRule(at_most=64, plain=True)


def wire_input(messages: Sequence[ChatMessage], *, stored: bool) -> tuple[str, list[Item]]:
    """Return the instructions and the items: nothing blank, each call answered, results in call order.

    Unless the server keeps responses (`stored`), reasoning that it would have to look up is left out.
    Raises `InvalidRequestError` for a content block that Responses does not take.
    """
    ids = CallIds(_CALL_IDS)
    instructions: list[str] = []
    items: list[Item] = []
    for entry in entries(messages):
        if isinstance(entry, PastResponse):
            items += _response(entry, ids, stored=stored)
        elif isinstance(entry, UserMessage):
            content = content_or_text(entry.content, _part)
            items += [{"type": "message", "role": "user", "content": content}] if content else []
        elif entry.content.strip():
            instructions.append(entry.content)
    return "\n".join(instructions), items


def _response(response: PastResponse, ids: CallIds, *, stored: bool) -> list[Item]:
    call_ids = [ids.unique(call.id) for call in response.calls]
    parts = list(ordered_parts(response, WIRE_FORMAT))
    kept = [part for part in parts if _is_kept(part, stored)]
    # The API refuses reasoning without the item that followed it,
    while kept and _is_reasoning(kept[-1]):
        kept.pop()
    # and an item with its id without the reasoning that it followed.
    complete = sum(map(_is_reasoning, kept)) == sum(map(_is_reasoning, parts))
    items = [_item(part, call_ids, with_id=complete) for part in kept]
    return items + [
        {"type": "function_call_output", "call_id": call_id, "output": call.text}
        for call, call_id in zip(response.calls, call_ids, strict=True)
    ]


def _is_reasoning(part: Part) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "reasoning"


def _is_kept(part: Part, stored: bool) -> bool:
    if not isinstance(part, Mapping):
        return True
    if part.get("type") == "reasoning":
        return stored or bool(part.get("encrypted_content") or part.get("content"))
    return part.get("type") != "message" or bool(_text(part).strip())


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    parts = [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    return "".join(str(part.get("text") or part.get("refusal") or "") for part in parts)


def _item(part: Part, call_ids: Sequence[str], *, with_id: bool) -> Item:
    if isinstance(part, str):
        return {"type": "message", "role": "assistant", "content": part}
    if not isinstance(part, PlacedCall):
        left_out = set() if with_id or part.get("type") != "message" else {"id"}
        return {key: value for key, value in part.items() if value is not None and key not in left_out}
    item_id = str(part.extras.get("id") or "")
    own = {key: value for key, value in part.extras.items() if key != "id"}
    return {
        **own,
        **({"id": item_id} if with_id and item_id.startswith("fc_") else {}),
        "type": "function_call",
        "call_id": call_ids[part.index],
        "name": wire_name(part.call.request.name),
        "arguments": json.dumps(part.arguments, ensure_ascii=False),
    }


def _part(block: Mapping[str, Any]) -> Item | None:
    image = image_of(block)
    if image is not None:
        return {"type": "input_image", "image_url": image.url, "detail": image.detail or "auto"}
    text = block.get("text")
    if not isinstance(text, str):
        return dict(block)
    if not text.strip():
        return None
    return dict(block) if block.get("type") == "input_text" else {"type": "input_text", "text": text}
