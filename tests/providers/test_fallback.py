"""Which provider answers, and when the next one is asked."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import anyio
import pytest

from seqoria_runtime.models import (
    AssistantMessage,
    ChatChunk,
    ToolCallRequest,
    ToolCallRequestList,
    ToolCallStarted,
    UserMessage,
)
from seqoria_runtime.models.errors import (
    AllProvidersFailedError,
    LLMError,
    ProviderProtocolError,
    ServerError,
)
from seqoria_runtime.providers import AsyncBaseProvider, ModelRequest, ModelResponse, ProviderEvent
from seqoria_runtime.providers._fallback import generate_with_fallback, stream_with_fallback

REQUEST = ModelRequest([UserMessage(content="hi")], model="special")
DONE = AssistantMessage(content="done")
BATCH = ToolCallRequestList(tool_calls=[ToolCallRequest(id="a", name="x")])


class Scripted(AsyncBaseProvider):
    """Plays one script: events are given, exceptions raised; notes what was asked and when it closed."""

    def __init__(self, name: str, *script: ProviderEvent | BaseException | None) -> None:
        self._name = name
        self._script = script
        self.asked: list[ModelRequest] = []
        self.open = 0

    @property
    def name(self) -> str:
        return self._name

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        self.asked.append(request)
        self.open += 1
        try:
            for step in self._script:
                if isinstance(step, BaseException):
                    raise step
                yield step  # type: ignore[misc]  # some scripts break the protocol on purpose
        finally:
            self.open -= 1


async def collect(*providers: AsyncBaseProvider) -> list[ProviderEvent]:
    return [event async for event in stream_with_fallback(providers, REQUEST)]


def text(content: str) -> ChatChunk:
    return ChatChunk(content=content)


@pytest.mark.clause("C92")
@pytest.mark.case("J3")
@pytest.mark.parametrize(
    "script",
    [
        [ServerError("boom")],
        [text(""), ChatChunk(), ChatChunk(content="", thinking=""), ServerError("boom")],
        [text("")],
        [],
    ],
)
async def test_a_failure_before_the_first_output_moves_on_and_the_consumer_sees_one_start(
    script: Sequence[Any],
) -> None:
    first, second = Scripted("first", *script), Scripted("second", text(""), text("a"), DONE)
    assert await collect(first, second) == [text("a"), DONE]
    assert (first.open, second.open) == (0, 0)
    assert second.asked[0].messages == REQUEST.messages


@pytest.mark.clause("C92")
@pytest.mark.case("J3")
@pytest.mark.parametrize(
    "output", [text("a"), text(" "), ChatChunk(thinking="hm"), ToolCallStarted("x"), ToolCallStarted()]
)
async def test_a_failure_after_the_first_output_is_raised(output: ProviderEvent) -> None:
    error = ServerError("boom")
    first, second = Scripted("first", text(""), output, error), Scripted("second", DONE)
    async with aclosing(stream_with_fallback([first, second], REQUEST)) as events:
        assert await anext(events) == output
        with pytest.raises(ServerError) as caught:
            await anext(events)
    assert caught.value is error
    assert error.provider == "first"
    assert second.asked == []
    assert first.open == 0


@pytest.mark.clause("C92")
async def test_a_stream_that_breaks_off_after_output_is_a_failure_of_the_protocol() -> None:
    second = Scripted("second", DONE)
    with pytest.raises(ProviderProtocolError, match="first's stream ended without a response"):
        await collect(Scripted("first", text("a")), second)
    assert second.asked == []


@pytest.mark.parametrize("final", [DONE, BATCH])
async def test_nothing_is_read_after_the_final_response(final: ModelResponse) -> None:
    provider = Scripted("first", final, text("more"), ServerError("late"))
    assert await collect(provider, Scripted("second", DONE)) == [final]
    assert provider.open == 0


@pytest.mark.clause("C92")
async def test_when_all_fail_the_error_lists_each_one_in_order() -> None:
    errors = [ServerError("one"), LLMError("two", provider="own name")]
    providers = [Scripted("first", errors[0]), Scripted("second", errors[1]), Scripted("third")]
    with pytest.raises(AllProvidersFailedError) as caught:
        await collect(*providers)
    assert caught.value.errors[:2] == errors
    assert str(caught.value) == (
        "All providers failed: first: one; own name: two; third: third's stream ended without a response"
    )


async def test_the_failure_of_an_only_provider_is_raised_as_it_is() -> None:
    error = ServerError("one")
    with pytest.raises(RuntimeError) as caught:  # as with several providers
        await collect(Scripted("only", error))
    assert caught.value is error


@pytest.mark.clause("C92")
async def test_a_bug_of_a_provider_is_not_hidden_by_the_next() -> None:
    second = Scripted("second", DONE)
    with pytest.raises(KeyError):
        await collect(Scripted("first", KeyError("bug")), second)
    assert second.asked == []


@pytest.mark.parametrize("event", [None, "text", 5])
async def test_an_event_that_is_none_is_a_failure_of_its_provider(event: Any) -> None:
    assert await collect(Scripted("first", event), Scripted("second", DONE)) == [DONE]


async def test_a_stream_that_fails_when_it_is_asked_for_moves_on() -> None:
    class Refusing(Scripted):
        def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
            raise ServerError("not now")

    assert await collect(Refusing("first"), Scripted("second", DONE)) == [DONE]


async def test_a_stream_may_be_an_iterator_without_a_way_to_close_it() -> None:
    class Plain(AsyncIterator[ProviderEvent]):
        def __init__(self) -> None:
            self.left: list[ProviderEvent] = [text("a"), DONE]

        async def __anext__(self) -> ProviderEvent:
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop(0)

    class Provider(Scripted):
        def stream(self, request: ModelRequest) -> AsyncIterator[ProviderEvent]:  # type: ignore[override]
            return Plain()

    assert await collect(Provider("first")) == [text("a"), DONE]


@pytest.mark.clause("C92")
@pytest.mark.case("J3")
@pytest.mark.parametrize("before", [[], [text("a")]])
async def test_a_cancellation_asks_no_other_provider_and_closes_the_stream(
    before: list[ProviderEvent],
) -> None:
    class Stalling(Scripted):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
            async for event in super().stream(request):
                yield event
            self.open += 1
            try:
                await anyio.sleep_forever()
            finally:
                self.open -= 1

    first, second = Stalling("first", *before), Scripted("second", DONE)
    with anyio.move_on_after(5) as scope:
        await collect(first, second)
    assert scope.cancelled_caught
    assert second.asked == []
    assert first.open == 0


@pytest.mark.clause("C31")
async def test_closing_in_the_middle_closes_the_providers_stream() -> None:
    first, second = Scripted("first", text("a"), text("b"), DONE), Scripted("second", DONE)
    async with aclosing(stream_with_fallback([first, second], REQUEST)) as events:
        assert await anext(events) == text("a")
        assert first.open == 1
    assert first.open == 0
    assert second.asked == []


async def test_the_model_of_a_request_goes_to_the_first_provider_alone() -> None:
    first, second = Scripted("first", ServerError("x")), Scripted("second", DONE)
    await collect(first, second)
    await generate_with_fallback([first, second], REQUEST)
    assert [request.model for request in first.asked] == ["special", "special"]
    assert [request.model for request in second.asked] == [None, None]


async def test_providers_are_asked_in_their_order_each_time() -> None:
    first, second = Scripted("first", ServerError("x")), Scripted("second", DONE)
    await collect(first, second)
    await collect(first, second)
    assert len(first.asked) == 2


@pytest.mark.clause("C92")
async def test_a_single_response_falls_back_as_a_stream_does() -> None:
    first, second = Scripted("first", text("a"), ServerError("boom")), Scripted("second", DONE)
    assert await generate_with_fallback([first, second], REQUEST) == DONE
    assert (first.open, second.open) == (0, 0)
    with pytest.raises(AllProvidersFailedError, match="first: boom; third: third's stream ended"):
        await generate_with_fallback([first, Scripted("third")], REQUEST)
    with pytest.raises(ServerError) as caught:
        await generate_with_fallback([first], REQUEST)
    assert caught.value.provider == "first"


async def test_a_response_of_another_kind_is_a_failure_of_its_provider() -> None:
    class Odd(Scripted):
        async def generate(self, request: ModelRequest) -> Any:
            return "text"

    with pytest.raises(ProviderProtocolError, match="odd returned str instead of a response"):
        await generate_with_fallback([Odd("odd")], REQUEST)
