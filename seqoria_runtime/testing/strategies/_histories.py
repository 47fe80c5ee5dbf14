"""Strategies for conversations that every provider accepts."""

from typing import Any

from hypothesis import strategies as st

from seqoria_runtime.models import (
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolCallError,
    ToolCallRequest,
    ToolCallResult,
    UserMessage,
)

_TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
_NAME = st.sampled_from(["search", "book", "pay"])


@st.composite
def histories(
    draw: st.DrawFn,
    *,
    max_exchanges: int = 3,
    max_rounds: int = 2,
    max_calls: int = 3,
    stored: bool | None = None,
) -> list[Any]:
    """Histories of complete turns: questions, rounds of calls with their outcomes, and answers.

    Messages are dictionaries, as an application stores them, if `stored`, models if not, and mixed by
    default. `check_history` accepts each history.
    """
    messages: list[ChatMessage] = []
    if draw(st.booleans()):
        messages.append(draw(st.builds(SystemMessage, content=_TEXT)))
    responses = 0
    for _ in range(draw(st.integers(0, max_exchanges))):
        messages.append(draw(st.builds(UserMessage, content=_TEXT)))
        for _ in range(draw(st.integers(0, max_rounds))):
            responses += 1
            messages += draw(_round(f"response-{responses}", max_calls))
        messages.append(draw(st.builds(AssistantMessage, content=_TEXT)))
    return [_as_stored(draw, message, stored) for message in messages]


def _as_stored(draw: st.DrawFn, message: ChatMessage, stored: bool | None) -> Any:
    plain = draw(st.booleans()) if stored is None else stored
    return message.model_dump(mode="json") if plain else message


@st.composite
def _round(draw: st.DrawFn, response: str, max_calls: int) -> list[ChatMessage]:
    messages: list[ChatMessage] = []
    if draw(st.booleans()):
        messages.append(draw(st.builds(AssistantMessage, content=_TEXT, response_id=st.just(response))))
    for number in range(draw(st.integers(1, max_calls))):
        messages += draw(_pair(f"{response}-call-{number}", response))
    return messages


@st.composite
def _pair(draw: st.DrawFn, call_id: str, response: str) -> list[ChatMessage]:
    name = st.just(draw(_NAME))
    arguments = st.dictionaries(st.sampled_from("abc"), st.integers(0, 9), max_size=2)
    request = draw(
        st.builds(
            ToolCallRequest,
            id=st.just(call_id),
            name=name,
            arguments=arguments,
            response_id=st.just(response),
        )
    )
    common = {"tool_call_id": st.just(call_id), "name": name, "response_id": st.just(response)}
    outcome = draw(
        st.builds(ToolCallResult, result=st.text(st.characters(codec="utf-8"), max_size=12), **common)
        | st.builds(ToolCallError, error=_TEXT, kind=st.sampled_from(["failed", "timed_out"]), **common)
    )
    return [request, outcome]
