"""Every provider over real sockets, against a mock server that speaks its format and fails on request."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from pydantic import BaseModel

from seqoria_runtime import AsyncAIClient
from seqoria_runtime.models import (
    AssistantMessage,
    ChatChunk,
    LLMUsage,
    ToolCallRequestList,
    ToolCallStarted,
    UserMessage,
)
from seqoria_runtime.models.errors import (
    AuthenticationError,
    ContentFilterError,
    LLMError,
    OverloadedError,
    ProviderConnectionError,
    ProviderProtocolError,
    RateLimitError,
    ServerError,
)
from seqoria_runtime.providers import (
    AsyncAnthropicProvider,
    AsyncOllamaProvider,
    AsyncOpenAICompatibleProvider,
    AsyncOpenAIProvider,
    HTTPOptions,
    ModelRequest,
    ModelResponse,
)
from seqoria_runtime.toolbox import LocalToolbox
from tests.support.histories import check_history
from tests.support.wires import ADD

pytestmark = pytest.mark.real_time


@dataclass(frozen=True)
class Kind:
    """A provider and what sets the mock apart in its format."""

    provider: Callable[..., Any]
    path: str = ""
    counts_usage: bool = True
    keeps_bad_arguments: bool = True
    tells_reasons: bool = True


KINDS = {
    "chat": Kind(AsyncOpenAICompatibleProvider, "/v1"),
    "messages": Kind(AsyncAnthropicProvider, keeps_bad_arguments=False),
    "responses": Kind(AsyncOpenAIProvider, "/v1"),
    "ollama": Kind(AsyncOllamaProvider, counts_usage=False, keeps_bad_arguments=False, tells_reasons=False),
}

kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


class Person(BaseModel):
    name: str
    age: int


@asynccontextmanager
async def opened(kind: Kind, url: str, **settings: Any) -> AsyncGenerator[Any]:
    # Counters of the mock, such as "fails the first time", belong to this name.
    headers = {"x-test-id": uuid4().hex}
    async with kind.provider("gpt-4o", base_url=url + kind.path, headers=headers, **settings) as provider:
        yield provider


async def ask(kind: Kind, url: str, words: str, *, stream: bool = True, **settings: Any) -> ModelResponse:
    request = ModelRequest([UserMessage(content=words)], tools=[ADD], tool_choice="auto")
    async with opened(kind, url, **settings) as provider:
        if not stream:
            response: ModelResponse = await provider.generate(request)
            return response
        *events, response = [event async for event in provider.stream(request)]
    text = "".join(event.content for event in events if isinstance(event, ChatChunk))
    if isinstance(response, AssistantMessage):
        assert text == response.content
    else:
        assert sum(isinstance(event, ToolCallStarted) for event in events) == len(response.tool_calls)
    return response


def weather_box() -> tuple[LocalToolbox, list[str]]:
    tools, asked = LocalToolbox(), []

    @tools.tool(description="The weather in a city.")
    async def get_weather(city: str, unit: str = "celsius") -> str:
        asked.append(city)
        return f"18 degrees {unit} in {city}"

    @tools.tool(description="Add two numbers.")
    async def add(a: int, b: int) -> int:
        asked.append(f"{a}+{b}")
        return a + b

    return tools, asked


@pytest.mark.clause("C6", "C91")
@kinds
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("query", "asked", "answer"),
    [
        ("What is the weather like?", ["Paris"], "It is 18C and sunny in Paris."),
        ("Please do both at once.", ["Paris", "Rome"], "Paris 18C, Rome 24C."),
        ("Add them up in a chain.", ["1+2", "3+4"], "The sum is 7."),
    ],
)
async def test_a_turn_with_tools(
    kind: Kind, aimock: str, stream: bool, query: str, asked: list[str], answer: str
) -> None:
    tools, called = weather_box()
    history: list[Any] = []
    async with opened(kind, aimock) as provider, AsyncAIClient([provider], local_toolbox=tools) as client:
        turn = (client.stream_chat if stream else client.chat)(query, history=history)
        async with turn:
            events = [event async for event in turn]
    assert sorted(called) == asked
    assert isinstance(events[-1], AssistantMessage)
    assert events[-1].content == answer
    check_history(history)


@kinds
@pytest.mark.parametrize("stream", [True, False])
async def test_what_an_answer_comes_to(kind: Kind, aimock: str, stream: bool) -> None:
    thought = await ask(kind, aimock, "think", stream=stream)
    assert isinstance(thought, AssistantMessage)
    assert (thought.thinking, thought.content) == ("Let me think about it step by step.", "Forty-two.")
    text = await ask(kind, aimock, "unicode", stream=stream)
    assert isinstance(text, AssistantMessage)
    assert text.content == "naïve 日本語 👩‍👩‍👧 done"
    empty = await ask(kind, aimock, "empty", stream=stream)
    assert isinstance(empty, AssistantMessage)
    assert empty.content == ""
    cut = await ask(kind, aimock, "cutoff", stream=stream)
    assert isinstance(cut, AssistantMessage)
    assert cut.content == "This answer stops because of the token li"
    assert (cut.finish_reason == "length") is kind.tells_reasons
    called = await ask(kind, aimock, "What is the weather", stream=stream)
    if kind.counts_usage:
        assert called.usage == LLMUsage(prompt_tokens=60, completion_tokens=12, total_tokens=72)


@kinds
@pytest.mark.parametrize("stream", [True, False])
async def test_what_calls_come_to(kind: Kind, aimock: str, stream: bool) -> None:
    first = await ask(kind, aimock, "toolfirst", stream=stream)
    assert isinstance(first, ToolCallRequestList)
    assert first.tool_calls[0].arguments == {"a": 1, "b": 2}
    assert first.message is not None
    assert first.message.content == "after the call"
    none = await ask(kind, aimock, "noargs", stream=stream)
    assert isinstance(none, ToolCallRequestList)
    assert (none.tool_calls[0].arguments, none.tool_calls[0].invalid_arguments) == ({}, None)
    bad = await ask(kind, aimock, "badargs", stream=stream)
    assert isinstance(bad, ToolCallRequestList)
    kept = '{"a": 1, ' if kind.keeps_bad_arguments else None
    assert (bad.tool_calls[0].arguments, bad.tool_calls[0].invalid_arguments) == ({}, kept)


@pytest.mark.clause("C94")
@kinds
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("err429", RateLimitError),
        ("err500", ServerError),
        ("err529", OverloadedError),
        ("err401", AuthenticationError),
        ("malformed", ProviderProtocolError),
        ("chaosdisc", ProviderConnectionError),
    ],
)
async def test_what_failures_come_to(
    kind: Kind, aimock: str, stream: bool, words: str, expected: type[LLMError]
) -> None:
    with pytest.raises(expected) as caught:
        await ask(kind, aimock, words, stream=stream)
    assert type(caught.value) is expected
    assert caught.value.provider is not None
    if words == "err429":
        assert (caught.value.status_code, caught.value.retry_after) == (429, 1.0)


@kinds
async def test_an_answer_that_a_filter_withheld(kind: Kind, aimock: str) -> None:
    if not kind.tells_reasons:
        pytest.skip("the mock says nothing of a filter in this format")
    # In one of the formats, the mock says that the response failed, and not why.
    with pytest.raises((ContentFilterError, ServerError)):
        await ask(kind, aimock, "filter")


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_is_read_as_the_class_that_was_asked_for(aimock: str, stream: bool) -> None:
    # In the other formats, the mock does not look at what is asked for.
    response = await ask(KINDS["chat"], aimock, "Give a person", stream=stream, output=Person)
    assert isinstance(response, AssistantMessage)
    assert response.parsed(Person) == Person(name="Ann", age=33)


@pytest.mark.clause("C93")
@kinds
async def test_a_refused_request_is_repeated_where_the_policy_says_so(kind: Kind, aimock: str) -> None:
    response = await ask(kind, aimock, "err429", retry={"max_attempts": 2})
    assert isinstance(response, AssistantMessage)
    assert response.content == "ok after retry"


@pytest.mark.clause("C95")
@kinds
@pytest.mark.parametrize(
    ("words", "whole"),
    [
        ("truncate", "This will be cut short after three chunks of text."),
        ("disconnect", "This connection dies in the middle of the stream."),
    ],
)
async def test_a_connection_that_breaks_in_the_middle_is_an_error_behind_the_text(
    kind: Kind, aimock: str, words: str, whole: str
) -> None:
    text: list[str] = []

    async def read(provider: Any) -> None:
        async for event in provider.stream(ModelRequest([UserMessage(content=words)])):
            text.append(event.content)  # noqa: PERF401  # what came before the failure counts

    async with opened(kind, aimock) as provider:
        with pytest.raises((ProviderConnectionError, ProviderProtocolError)):
            await read(provider)
    assert whole.startswith("".join(text))


@pytest.mark.clause("C92")
@kinds
async def test_the_next_provider_answers_where_the_first_fails(kind: Kind, aimock: str) -> None:
    for other in KINDS.values():
        async with opened(kind, "http://127.0.0.1:9") as dead, opened(other, aimock) as alive:
            async with AsyncAIClient([dead, alive]) as client, client.stream_chat("hi", history=[]) as turn:
                *_, answer = [event async for event in turn]
            assert isinstance(answer, AssistantMessage)
            assert answer.content == "Hello! How can I help?"


@pytest.mark.case("A4")
@pytest.mark.clause("C31")
@kinds
async def test_streams_that_are_left_early_leave_no_connection(kind: Kind, aimock: str) -> None:
    options = HTTPOptions(max_connections=1, max_keepalive_connections=1, pool_timeout=10)
    async with opened(kind, aimock, http_client=options) as provider:
        for _ in range(3):
            events = provider.stream(ModelRequest([UserMessage(content="slow")]))
            assert isinstance(await anext(events), ChatChunk)
            await events.aclose()
        response = await provider.generate(ModelRequest([UserMessage(content="hi")]))
    assert response.content == "Hello! How can I help?"
