"""Sorts a history into what each provider must get it as: system, user, and whole responses.

Knows no wire format. A response is what the model said in one go: its text and reasoning, and its
calls, each with its outcome, in the order of the calls whatever order they finished in.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

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

NO_OUTCOME = "No result was recorded for this call."
EMPTY_OUTCOME = "(no output)"


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """A call and what came of it; `id` is its own within its response, the request's may not be."""

    id: str
    request: ToolCallRequest
    outcome: ToolCallOutcome | None

    @property
    def failed(self) -> bool:
        return not isinstance(self.outcome, ToolCallResult)

    @property
    def text(self) -> str:
        """What the model is told came of it; never blank."""
        if self.outcome is None:
            return NO_OUTCOME
        text = self.outcome.error if isinstance(self.outcome, ToolCallError) else self.outcome.result
        return text if text.strip() else EMPTY_OUTCOME


@dataclass(frozen=True, slots=True)
class Response:
    """One response of the model; `message` is `None` where only calls came."""

    message: AssistantMessage | None
    calls: tuple[AnsweredCall, ...]

    @property
    def text(self) -> str:
        """Its text, empty where that is blank."""
        content = self.message.content if self.message is not None else ""
        return content if content.strip() else ""

    @property
    def thinking(self) -> str:
        return (self.message.thinking or "") if self.message is not None else ""


Entry: TypeAlias = SystemMessage | UserMessage | Response


def entries(messages: Sequence[ChatMessage]) -> list[Entry]:
    """Sort a history, in order.

    Messages of one `response_id` are one response; where there is none, calls and outcomes that
    follow each other are. An outcome belongs to the latest unanswered call of its id; one without
    such a call is left out, and a call without an outcome stays unanswered.
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

    def closed(self) -> Response:
        ids = _own_ids([call.request.id for call in self.calls])
        calls = (
            AnsweredCall(call_id, call.request, call.outcome)
            for call_id, call in zip(ids, self.calls, strict=True)
        )
        return Response(self.message, tuple(calls))


def _answer(sorted_: Sequence[object], outcome: ToolCallOutcome) -> None:
    for item in reversed(sorted_):
        call = item.waiting_for(outcome) if isinstance(item, _OpenResponse) else None
        if call is not None:
            call.outcome = outcome
            return


def _own_ids(ids: Sequence[str]) -> Iterator[str]:
    given, used = set(ids), set[str]()
    for call_id in ids:
        own, number = call_id, 1
        while own in used or (number > 1 and own in given):
            number += 1
            own = f"{call_id}_{number}"
        used.add(own)
        yield own
