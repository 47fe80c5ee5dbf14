"""Writes a history as Chat Completions messages, for one server's profile."""

import json
from collections.abc import Sequence
from typing import Any

from seqoria_runtime.models import ChatMessage, ToolCallRequest, UserMessage
from seqoria_runtime.providers._requests.content import wire_content
from seqoria_runtime.providers._requests.replay import AnsweredCall, PastResponse, entries
from seqoria_runtime.providers._requests.wire_names import CallIds, wire_name

from .answer import WIRE_FORMAT
from .profiles import Profile

_BRIDGE = "(This answer was interrupted.)"

Message = dict[str, Any]


def wire_messages(messages: Sequence[ChatMessage], profile: Profile) -> list[Message]:
    """Write the history: nothing in it blank, each call answered, results in the order of the calls."""
    ids = CallIds(profile.call_ids)
    wire: list[Message] = []
    for entry in entries(messages):
        if isinstance(entry, PastResponse):
            wire += _response(entry, profile, ids)
        elif isinstance(entry, UserMessage):
            if wire and wire[-1]["role"] == "tool" and not profile.user_after_tool:
                wire.append({"role": "assistant", "content": _BRIDGE})
            wire.append({"role": "user", "content": wire_content(entry.content, profile.part_extras)})
        elif entry.content.strip():
            wire.append({"role": "system", "content": entry.content})
    return wire


def _response(response: PastResponse, profile: Profile, ids: CallIds) -> list[Message]:
    if not response.text and not response.calls:
        return []
    message: Message = {"role": "assistant", "content": response.text or None}
    message |= _reasoning(response, profile)
    if not response.calls:
        return [message]
    extras = _call_extras(response, profile)
    message["tool_calls"] = [
        _call(call, ids) | extras.get(index, {}) for index, call in enumerate(response.calls)
    ]
    return [message, *(_result(call, profile, ids) for call in response.calls)]


def _call(call: AnsweredCall, ids: CallIds) -> Message:
    function = {"name": wire_name(call.request.name), "arguments": _arguments(call.request)}
    return {"id": ids.wire(call.id), "type": "function", "function": function}


def _arguments(request: ToolCallRequest) -> str:
    try:
        return json.dumps(request.arguments, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return "{}"


def _result(call: AnsweredCall, profile: Profile, ids: CallIds) -> Message:
    message = {"role": "tool", "tool_call_id": ids.wire(call.id), "content": call.text}
    if profile.named_results:
        message["name"] = wire_name(call.request.name)
    return message


def _reasoning(response: PastResponse, profile: Profile) -> Message:
    replay = profile.replay_reasoning
    if replay == "never" or (replay == "with_calls" and not response.calls):
        return {}
    if profile.reasoning_field != "reasoning_details":
        return {profile.reasoning_field: response.thinking} if response.thinking else {}
    for block in response.blocks(WIRE_FORMAT):
        if block.get("type") == "reasoning_details":
            return {"reasoning_details": block.get("details")}
    return {}


def _call_extras(response: PastResponse, profile: Profile) -> dict[Any, Message]:
    return {
        block.get("index"): {key: block[key] for key in profile.call_extras if key in block}
        for block in response.blocks(WIRE_FORMAT)
        if block.get("type") == "tool_call"
    }
