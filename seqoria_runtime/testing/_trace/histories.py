"""The rules that every provider has for a conversation, written down once, stricter than any of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

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

from .invariant import InvariantError


@dataclass
class Response:
    """One response of the model as a history shows it: text, calls with their outcomes, or both."""

    message: AssistantMessage | None = None
    pairs: list[tuple[ToolCallRequest, ToolCallOutcome]] = field(default_factory=list)


@dataclass
class Exchange:
    """One user message and everything that answers it."""

    user: UserMessage
    responses: list[Response] = field(default_factory=list)


def check_history(history: Sequence[Any], *, unanswered_user: bool = False) -> list[Exchange]:
    """Raise `InvariantError` unless every provider would accept this history; give what it says.

    One system message at most, and first. User messages are answered, the last one too unless
    `unanswered_user`. Every call is followed at once by its one outcome, of the same id, name and
    response; the calls of one response stand together, behind the message that came beside them.
    """
    return _Reader(to_messages(history)).read(unanswered_user)


class _Reader:
    """Reads a history from its first message to its last."""

    def __init__(self, messages: Sequence[ChatMessage]) -> None:
        self._messages = messages
        self._position = 1 if messages and isinstance(messages[0], SystemMessage) else 0

    def read(self, unanswered_user: bool) -> list[Exchange]:
        exchanges: list[Exchange] = []
        while (message := self._peek()) is not None:
            if isinstance(message, UserMessage):
                self._require(not exchanges or exchanges[-1].responses, "two user messages in a row")
                exchanges.append(Exchange(message))
                self._position += 1
                continue
            self._require(exchanges, f"{type(message).__name__} before any user message")
            self._add(exchanges[-1], self._response())
        if exchanges and not unanswered_user:
            self._require(exchanges[-1].responses, "the last user message is unanswered")
        return exchanges

    def _peek(self, ahead: int = 0) -> ChatMessage | None:
        position = self._position + ahead
        return self._messages[position] if position < len(self._messages) else None

    def _response(self) -> Response:
        response = Response()
        message = self._peek()
        ids: set[str | None] = set()
        if isinstance(message, AssistantMessage):
            response.message = message
            ids.add(message.response_id)
            self._position += 1
        while isinstance(request := self._peek(), ToolCallRequest):
            if ids and request.response_id not in ids:
                break
            response.pairs.append((request, self._outcome_of(request)))
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

    def _add(self, exchange: Exchange, response: Response) -> None:
        if exchange.responses:
            self._require(exchange.responses[-1].pairs, "two answers in a row")
        message = response.message
        if message is not None and not response.pairs:
            said = message.content or message.thinking or message.blocks or message.finish_reason
            self._require(said, "an answer of nothing")
        exchange.responses.append(response)

    def _require(self, held: object, text: str) -> None:
        if not held:
            raise self._broken(text)

    def _broken(self, text: str) -> InvariantError:
        shape: list[str] = [message.role for message in self._messages]
        if self._position < len(shape):
            shape[self._position] = f">>{shape[self._position]}<<"
        return InvariantError(f"{text}, at message {self._position} of the history: {', '.join(shape)}")
