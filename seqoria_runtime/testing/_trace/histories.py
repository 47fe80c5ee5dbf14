"""The rules that all providers have for a conversation, taken together."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from seqoria_runtime.client._history.reading import to_messages
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

from .trace import InvariantError


class CallPair(NamedTuple):
    """A tool call and its outcome, as they stand in a history."""

    request: ToolCallRequest
    outcome: ToolCallOutcome


@dataclass
class HistoryResponse:
    """One response of the model in a history: text, calls with their outcomes, or both."""

    message: AssistantMessage | None = None
    pairs: list[CallPair] = field(default_factory=list)


@dataclass
class HistoryTurn:
    """One user message in a history, and everything that answers it."""

    user: UserMessage
    responses: list[HistoryResponse] = field(default_factory=list)


def check_history(history: Sequence[Any], *, unanswered_user: bool = False) -> list[HistoryTurn]:
    """Return the turns of this history; raise `InvariantError` unless every provider would accept it.

    A system message may only come first. User messages are answered, the last one too unless
    `unanswered_user`. Every call is followed by its one outcome, with the same id, name and response;
    the calls of one response stand together, after the message that came with them.
    """
    return _HistoryReader(to_messages(history)).read(unanswered_user)


class _HistoryReader:
    """Reads a history from its first message to its last."""

    def __init__(self, messages: Sequence[ChatMessage]) -> None:
        self._messages = messages
        self._position = 1 if messages and isinstance(messages[0], SystemMessage) else 0

    def read(self, unanswered_user: bool) -> list[HistoryTurn]:
        turns: list[HistoryTurn] = []
        while (message := self._peek()) is not None:
            if isinstance(message, UserMessage):
                self._require(not turns or turns[-1].responses, "two user messages in a row")
                turns.append(HistoryTurn(message))
                self._position += 1
                continue
            self._require(turns, f"{type(message).__name__} before any user message")
            self._add(turns[-1], self._response())
        if turns and not unanswered_user:
            self._require(turns[-1].responses, "the last user message is unanswered")
        return turns

    def _peek(self, ahead: int = 0) -> ChatMessage | None:
        position = self._position + ahead
        return self._messages[position] if position < len(self._messages) else None

    def _response(self) -> HistoryResponse:
        response = HistoryResponse()
        message = self._peek()
        ids: set[str | None] = set()
        if isinstance(message, AssistantMessage):
            response.message = message
            ids.add(message.response_id)
            self._position += 1
        while isinstance(request := self._peek(), ToolCallRequest):
            if ids and request.response_id not in ids:
                break
            response.pairs.append(CallPair(request, self._outcome_of(request)))
            ids.add(request.response_id)
            self._position += 2
        self._require(response.message is not None or response.pairs, "an outcome without its call")
        return response

    def _outcome_of(self, request: ToolCallRequest) -> ToolCallOutcome:
        outcome = self._peek(ahead=1)
        if not isinstance(outcome, (ToolCallResult, ToolCallError)):
            self._position += 1
            raise self._broken(f"the call {request.id!r} of {request.name!r} is unanswered")
        wanted = (request.id, request.name, request.response_id)
        if (outcome.tool_call_id, outcome.name, outcome.response_id) != wanted:
            self._position += 1
            raise self._broken(f"{outcome!r} does not answer {request!r}")
        return outcome

    def _add(self, turn: HistoryTurn, response: HistoryResponse) -> None:
        if turn.responses:
            self._require(turn.responses[-1].pairs, "two answers in a row")
        message = response.message
        if message is not None and not response.pairs:
            content = message.content or message.thinking or message.blocks or message.finish_reason
            self._require(content, "an answer of nothing")
        turn.responses.append(response)

    def _require(self, condition: object, text: str) -> None:
        if not condition:
            raise self._broken(text)

    def _broken(self, text: str) -> InvariantError:
        shape: list[str] = [message.role for message in self._messages]
        if self._position < len(shape):
            shape[self._position] = f">>{shape[self._position]}<<"
        return InvariantError(f"{text}, at message {self._position} of the history: {', '.join(shape)}")
