"""Sorts a history into system texts, user messages and the model's responses, for any wire format.

A response is what the model said in one go: its text and reasoning, and its calls, each with its
outcome, in the order of the calls whatever order they finished in.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

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
from seqoria_runtime.providers._json import dump

NO_OUTCOME = "No result was recorded for this call."
EMPTY_OUTCOME = "(no output)"


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """A call and its outcome; `id` is unique within the response, which the request's may not be."""

    id: str
    request: ToolCallRequest
    outcome: ToolCallOutcome | None

    @property
    def failed(self) -> bool:
        return not isinstance(self.outcome, ToolCallResult)

    @property
    def text(self) -> str:
        """The outcome as the model reads it; never blank."""
        if self.outcome is None:
            return NO_OUTCOME
        text = self.outcome.error if isinstance(self.outcome, ToolCallError) else self.outcome.result
        return text if text.strip() else EMPTY_OUTCOME


@dataclass(frozen=True, slots=True)
class PastResponse:
    """One response of the model; `message` is `None` if only calls came."""

    message: AssistantMessage | None
    calls: tuple[AnsweredCall, ...]

    @property
    def text(self) -> str:
        """The text, empty if it is blank."""
        content = self.message.content if self.message is not None else ""
        return content if content.strip() else ""

    @property
    def thinking(self) -> str:
        return (self.message.thinking or "") if self.message is not None else ""

    def blocks(self, wire_format: str) -> Sequence[Mapping[str, Any]]:
        """Return the message's blocks if they are of this format."""
        message = self.message
        return (message.blocks or ()) if message is not None and message.wire_format == wire_format else ()


Entry: TypeAlias = SystemMessage | UserMessage | PastResponse


def entries(messages: Sequence[ChatMessage]) -> list[Entry]:
    """Sort a history, in order.

    Messages with one `response_id` are one response; without an id, adjacent calls and outcomes
    are. An outcome belongs to the latest unanswered call with its id; one without such a call is
    left out, and a call without an outcome stays unanswered.
    """
    sorted_: list[SystemMessage | UserMessage | _OpenResponse] = []
    for message in messages:
        if isinstance(message, (SystemMessage, UserMessage)):
            sorted_.append(message)
            continue
        if isinstance(message, (ToolCallResult, ToolCallError)):
            _answer(sorted_, message)
            continue
        last = sorted_[-1] if sorted_ else None
        if not isinstance(last, _OpenResponse) or not last.holds(message):
            sorted_.append(last := _OpenResponse(message.response_id))
        last.add(message)
    return [item.closed() if isinstance(item, _OpenResponse) else item for item in sorted_]


@dataclass(slots=True)
class _OpenCall:
    request: ToolCallRequest
    outcome: ToolCallOutcome | None = None


@dataclass(slots=True)
class _OpenResponse:
    response_id: str | None
    message: AssistantMessage | None = None
    calls: list[_OpenCall] = field(default_factory=list)

    def holds(self, message: AssistantMessage | ToolCallRequest) -> bool:
        if message.response_id != self.response_id:
            return False
        # Without an id, a second message is a second response; with one, the message may be late.
        return isinstance(message, ToolCallRequest) or (self.message is None and self.response_id is not None)

    def add(self, message: AssistantMessage | ToolCallRequest) -> None:
        if isinstance(message, AssistantMessage):
            self.message = message
        else:
            self.calls.append(_OpenCall(message))

    def waiting_for(self, outcome: ToolCallOutcome) -> _OpenCall | None:
        if outcome.response_id is not None and self.response_id not in {None, outcome.response_id}:
            return None
        for call in self.calls:
            if call.outcome is None and call.request.id == outcome.tool_call_id:
                return call
        return None

    def closed(self) -> PastResponse:
        ids = _unique_ids([call.request.id for call in self.calls])
        calls = (
            AnsweredCall(call_id, call.request, call.outcome)
            for call_id, call in zip(ids, self.calls, strict=True)
        )
        return PastResponse(self.message, tuple(calls))


def _answer(sorted_: Sequence[object], outcome: ToolCallOutcome) -> None:
    for item in reversed(sorted_):
        call = item.waiting_for(outcome) if isinstance(item, _OpenResponse) else None
        if call is not None:
            call.outcome = outcome
            return


def _unique_ids(ids: Sequence[str]) -> Iterator[str]:
    given, used = set(ids), set[str]()
    for call_id in ids:
        unique, number = call_id, 1
        while unique in used or (number > 1 and unique in given):
            number += 1
            unique = f"{call_id}_{number}"
        used.add(unique)
        yield unique


@dataclass(frozen=True, slots=True)
class PlacedCall:
    """A call of a response, by its index, in its place among the response's other parts.

    `extras` are the fields of its block that go back as they came.
    """

    index: int
    call: AnsweredCall
    extras: Mapping[str, Any] = field(default_factory=dict)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments; empty if they cannot be written as JSON."""
        try:
            dump(self.call.request.arguments)
        except (TypeError, ValueError):
            return {}
        return self.call.request.arguments


Part: TypeAlias = str | Mapping[str, Any] | PlacedCall
"""Text that has no block, a block as it came, or a call."""


def ordered_parts(response: PastResponse, wire_format: str) -> Iterator[Part]:
    """Yield the response's parts in the order in which they came.

    Without blocks of this format, these are its text, unless it is blank, and its calls.
    """
    left = dict(enumerate(response.calls))
    blocks = response.blocks(wire_format)
    for block in blocks:
        index = block.get("index")
        if block.get("type") != "tool_call":
            yield block
        elif isinstance(index, int) and index in left:
            extras = {key: block[key] for key in block if key not in {"type", "index"}}
            yield PlacedCall(index, left.pop(index), extras)
    if not blocks and response.text:
        yield response.text
    for index, call in left.items():
        yield PlacedCall(index, call)
