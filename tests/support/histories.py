"""The rules that every provider has for a conversation, written down once, stricter than any of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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

MODELS: Mapping[str, type[ChatMessage]] = {
    "system": SystemMessage,
    "user": UserMessage,
    "assistant": AssistantMessage,
    "tool_call": ToolCallRequest,
    "tool_result": ToolCallResult,
    "tool_error": ToolCallError,
}


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


def loaded(history: Sequence[Any]) -> list[ChatMessage]:
    """The messages of a history, those stored as dictionaries loaded by their role."""
    return [
        MODELS[item["role"]].model_validate(item) if isinstance(item, Mapping) else item for item in history
    ]


def check_history(history: Sequence[Any], *, unanswered_user: bool = False) -> list[Exchange]:
    """Raise `AssertionError` unless every provider would accept this history; give what it says.

    One system message at most, and first. User messages are answered, the last one too unless
    `unanswered_user`. Every call is followed at once by its one outcome, of the same id, name and
    response; the calls of one response stand together, behind the message that came beside them.
    """
    messages = loaded(history)
    rest = messages[1:] if messages and isinstance(messages[0], SystemMessage) else messages
    exchanges: list[Exchange] = []
    position = 0
    while position < len(rest):
        message = rest[position]
        if isinstance(message, UserMessage):
            assert not exchanges or exchanges[-1].responses, f"two user messages in a row: {_shape(rest)}"
            exchanges.append(Exchange(message))
            position += 1
            continue
        assert exchanges, f"{type(message).__name__} before any user message: {_shape(rest)}"
        response, position = _response(rest, position)
        _check_order(exchanges[-1], response, rest)
        exchanges[-1].responses.append(response)
    if exchanges and not unanswered_user:
        assert exchanges[-1].responses, f"the last user message is unanswered: {_shape(rest)}"
    return exchanges


def _response(rest: Sequence[ChatMessage], position: int) -> tuple[Response, int]:
    response = Response()
    message = rest[position]
    if isinstance(message, AssistantMessage):
        response.message = message
        position += 1
    ids = {message.response_id} if isinstance(message, AssistantMessage) else set()
    while position < len(rest):
        request = rest[position]
        if not isinstance(request, ToolCallRequest) or (ids and request.response_id not in ids):
            break
        assert position + 1 < len(rest), f"a call without an outcome: {_shape(rest)}"
        outcome = rest[position + 1]
        assert isinstance(outcome, (ToolCallResult, ToolCallError)), f"an unanswered call: {_shape(rest)}"
        assert (outcome.tool_call_id, outcome.name, outcome.response_id) == (
            request.id,
            request.name,
            request.response_id,
        ), f"{outcome!r} does not answer {request!r}"
        ids.add(request.response_id)
        response.pairs.append((request, outcome))
        position += 2
    assert response.message is not None or response.pairs, f"an outcome without its call: {_shape(rest)}"
    return response, position


def _check_order(exchange: Exchange, response: Response, rest: Sequence[ChatMessage]) -> None:
    """A text without calls is the last word of an exchange."""
    if exchange.responses:
        assert exchange.responses[-1].pairs, f"two answers in a row: {_shape(rest)}"
    if response.message is not None and not response.pairs:
        content = response.message
        assert content.content or content.thinking or content.blocks or content.finish_reason, (
            f"an answer of nothing: {_shape(rest)}"
        )


def _shape(messages: Sequence[ChatMessage]) -> str:
    return ", ".join(message.role for message in messages)
