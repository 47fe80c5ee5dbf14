"""Reads an application's history, of message models and dictionaries, as message models.

Pure: it never changes the history.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic import ValidationError

from seqoria_runtime.models import (
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolCallError,
    ToolCallOutcome,
    ToolCallRequest,
    ToolCallResult,
    UserMessage,
)
from seqoria_runtime.models._arguments import read_arguments

_MODELS = (SystemMessage, UserMessage, AssistantMessage, ToolCallRequest, ToolCallResult, ToolCallError)
_MODEL_SET = frozenset(_MODELS)

_BY_ROLE: Mapping[str, type[ChatMessage]] = {
    "system": SystemMessage,
    "developer": SystemMessage,
    "user": UserMessage,
    "assistant": AssistantMessage,
    "tool_call": ToolCallRequest,
    "tool_result": ToolCallResult,
    "tool_error": ToolCallError,
    "tool": ToolCallResult,
}

_SCALARS = frozenset({str, int, float, bool, type(None)})
_MAX_DEPTH = 20


class HistoryReader:
    """Reads one history as often as it is asked, and each dictionary in it once.

    An application may change its list between two readings, and the dictionaries in it too. So a
    dictionary is read again if it no longer equals the copy made when it was read.
    """

    def __init__(self, history: Sequence[object]) -> None:
        self._history = history
        self._read: dict[int, _Reading] = {}

    def messages(self) -> list[ChatMessage]:
        """Return the history as it is now; message models are passed through as they are.

        Raises `ValueError` for a dictionary that is not a message and `TypeError` for anything else,
        with its position.
        """
        items: list[Any] = list(self._history)
        if _MODEL_SET.issuperset(map(type, items)):
            return items
        messages: list[ChatMessage] = []
        other_ids: dict[str, str] = {}
        # By identity, not by position: an item in front moves all the others.
        earlier, self._read = self._read, {}
        for position, item in enumerate(items):
            if type(item) in _MODEL_SET:
                messages.append(_with_id_of_its_call(item, other_ids))
                continue
            reading = earlier.get(id(item))
            if reading is None or reading.item is not item or reading.copy != item:
                reading = _Reading(item, _plain_copy(item, _MAX_DEPTH), *_message_list(item, position))
            if reading.copy is not None:
                self._read[id(item)] = reading
            other_ids |= reading.other_ids
            messages += (_with_id_of_its_call(message, other_ids) for message in reading.messages)
        return messages


class _Reading(NamedTuple):
    """A dictionary, what was in it, and the messages read from it. It holds the item, and so its `id`.

    `other_ids` are further ids of the calls in it: a stored call may have a `call_id` besides its `id`.
    """

    item: object
    copy: Any
    messages: list[ChatMessage]
    other_ids: Mapping[str, str] = MappingProxyType({})


def to_messages(history: Sequence[object]) -> list[ChatMessage]:
    """Read a history once, as `HistoryReader.messages` does."""
    return HistoryReader(history).messages()


def _plain_copy(value: Any, depth: int) -> Any:
    """Copy plain JSON; `None` if any part is something else, which could change without being seen."""
    try:
        return _copied(value, depth)
    except TypeError:
        return None


def _copied(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    # A value that contains itself has no end.
    if depth and kind is dict:
        return {key: _copied(one, depth - 1) for key, one in value.items()}
    if depth and kind is list:
        return [_copied(one, depth - 1) for one in value]
    raise TypeError("not plain JSON")


def _with_id_of_its_call(message: ChatMessage, other_ids: dict[str, str]) -> ChatMessage:
    """Return the message; an outcome that names its call by another id than the call's is changed."""
    if other_ids and isinstance(message, ToolCallRequest):
        other_ids.pop(message.id, None)
    elif other_ids and isinstance(message, (ToolCallResult, ToolCallError)):
        call_id = other_ids.get(message.tool_call_id)
        return message if call_id is None else message.model_copy(update={"tool_call_id": call_id})
    return message


def outcomes_without_a_call(messages: Sequence[ChatMessage]) -> list[ToolCallOutcome]:
    """Return the outcomes with no call before them that is still unanswered."""
    unanswered: Counter[str] = Counter()
    found: list[ToolCallOutcome] = []
    for message in messages:
        # `isinstance` costs a microsecond for each message, since pydantic's metaclass answers it.
        if type(message) is ToolCallRequest:
            unanswered[message.id] += 1
        elif type(message) is ToolCallResult or type(message) is ToolCallError:
            if unanswered[message.tool_call_id] > 0:
                unanswered[message.tool_call_id] -= 1
            else:
                found.append(message)
    return found


def _message_list(item: Any, position: int) -> tuple[list[ChatMessage], Mapping[str, str]]:
    if isinstance(item, _MODELS):
        return [item], {}
    if not isinstance(item, Mapping):
        raise TypeError(
            f"history[{position}] must be a message model or a dictionary, not {type(item).__name__}"
        )
    role = item.get("role")
    model = _BY_ROLE.get(role) if isinstance(role, str) else None
    if model is None:
        raise ValueError(
            f"history[{position}] has the role {role!r}; it must be one of {', '.join(_BY_ROLE)}"
        )
    try:
        message = model.model_validate(_fields(model, item))
        if isinstance(message, AssistantMessage) and item.get("tool_calls"):
            calls = [_request(call) for call in item["tool_calls"]]
            return [*unless_empty(message), *calls], _other_ids(item["tool_calls"], calls)
    except (ValidationError, ValueError, TypeError, KeyError, AttributeError) as exc:
        raise ValueError(f"history[{position}] is not a valid {role!r} message: {exc}") from exc
    return [message], _other_ids([item], [message] if isinstance(message, ToolCallRequest) else [])


def _other_ids(stored: Sequence[Mapping[str, Any]], calls: Sequence[ToolCallRequest]) -> dict[str, str]:
    ids = ((one.get("call_id"), call.id) for one, call in zip(stored, calls, strict=False))
    return {call_id: own for call_id, own in ids if isinstance(call_id, str) and call_id not in {"", own}}


def _fields(model: type[ChatMessage], item: Mapping[str, Any]) -> dict[str, Any]:
    fields = dict(item)
    if "call_id" in fields:
        fields.setdefault("id" if model is ToolCallRequest else "tool_call_id", fields["call_id"])
    if fields["role"] == "developer":
        fields["role"] = "system"
    if fields["role"] == "tool":
        fields |= {"role": "tool_result", "type": "tool_use", "result": _text(fields.get("content"))}
    if model in {AssistantMessage, SystemMessage}:
        fields["content"] = _text(fields.get("content"))
    return fields


def _request(call: Mapping[str, Any]) -> ToolCallRequest:
    """Read a call in the form of Chat Completions, inside an assistant message."""
    function = call["function"]
    arguments, invalid = function.get("arguments") or {}, None
    if isinstance(arguments, str):
        arguments, invalid = read_arguments(arguments)
    return ToolCallRequest(
        id=call["id"], name=function["name"], arguments=arguments, invalid_arguments=invalid
    )


def _text(content: Any) -> Any:
    """Return the text of a content that may be a list of text blocks, or missing."""
    if content is None:
        return ""
    if isinstance(content, list) and all(isinstance(block, Mapping) for block in content):
        return "".join(str(block.get("text") or "") for block in content)
    return content


def unless_empty(message: AssistantMessage | None) -> list[AssistantMessage]:
    """Return the message that came with a response's calls, or nothing if it holds nothing."""
    if message is None or not (message.content or message.thinking or message.blocks):
        return []
    return [message]


def has_system_message(history: Sequence[object]) -> bool:
    """Return whether the history starts with a system message, as a model or a dictionary."""
    if not history:
        return False
    first = history[0]
    role = first.get("role") if isinstance(first, Mapping) else getattr(first, "role", None)
    return role in {"system", "developer"}
