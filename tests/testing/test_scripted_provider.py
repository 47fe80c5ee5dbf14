from collections.abc import AsyncIterator
from typing import Any, cast

import anyio
import pytest

from seqoria_runtime.models import (
    UNNAMED_TOOL,
    AssistantMessage,
    ChatChunk,
    LLMUsage,
    ToolCallRequestList,
    ToolCallStarted,
    UserMessage,
)
from seqoria_runtime.models.errors import ProviderConnectionError, ProviderProtocolError, RateLimitError
from seqoria_runtime.providers import ModelRequest, ProviderEvent
from seqoria_runtime.testing import (
    Reply,
    ScriptedProvider,
    ScriptError,
    broken_call,
    call,
    calls,
    cuts_off,
    emits,
    fails,
    says,
    stalls,
)

pytestmark = pytest.mark.clause("C120")

QUESTION = ModelRequest([UserMessage(content="well?")])


async def read(
    provider: ScriptedProvider, into: list[tuple[float, ProviderEvent]] | None = None
) -> list[tuple[float, ProviderEvent]]:
    events = [] if into is None else into
    async for event in provider.stream(QUESTION):
        events.append((anyio.current_time(), event))
    return events


def final(events: list[tuple[float, ProviderEvent]]) -> Any:
    return events[-1][1]


async def test_a_text_arrives_in_pieces_at_their_times_and_then_whole() -> None:
    provider = ScriptedProvider([says("Hello", chunks=["Hel", "l", "o"], delay=2.0, every=0.5)])
    events = await read(provider)
    assert events[:3] == [
        (2.0, ChatChunk(content="Hel")),
        (2.5, ChatChunk(content="l")),
        (3.0, ChatChunk(content="o")),
    ]
    at, message = events[3]
    assert at == 3.0
    assert isinstance(message, AssistantMessage)
    assert (message.content, message.response_id) == ("Hello", "scripted-response-1")


@pytest.mark.parametrize(
    ("chunks", "pieces"),
    [(None, ["Hello!!"]), (1, ["Hello!!"]), (3, ["He", "ll", "o!!"]), (7, list("Hello!!"))],
)
async def test_a_number_of_chunks_splits_the_text_evenly(chunks: int | None, pieces: list[str]) -> None:
    events = await read(ScriptedProvider([says("Hello!!", chunks=chunks)]))
    assert [event.content for _, event in events[:-1] if isinstance(event, ChatChunk)] == pieces


@pytest.mark.parametrize("chunks", [0, -1, 6, True, "Hello", ["Hel", "p"]])
def test_chunks_that_do_not_make_the_text_are_refused(chunks: Any) -> None:
    with pytest.raises(ValueError, match="'chunks' must be"):
        says("Hello", chunks=chunks)


@pytest.mark.parametrize("option", ["delay", "every"])
def test_times_that_are_no_seconds_are_refused_by_name(option: str) -> None:
    with pytest.raises(ValueError, match=f"'{option}' must be"):
        says("Hello", **cast("Any", {option: -1}))


async def test_an_empty_text_has_no_pieces() -> None:
    events = await read(ScriptedProvider([says("")]))
    assert [type(event) for _, event in events] == [AssistantMessage]


async def test_thinking_comes_first_and_stays_apart_from_the_text() -> None:
    events = await read(ScriptedProvider([says("4", thinking="2+2", usage=LLMUsage(total_tokens=9))]))
    assert events[0][1] == ChatChunk(thinking="2+2")
    assert (final(events).content, final(events).thinking, final(events).usage.total_tokens) == (
        "4",
        "2+2",
        9,
    )


async def test_a_batch_tells_the_start_of_each_call_and_carries_what_came_with_it() -> None:
    reply = calls(call("add", a=1, b=2), call("now"), text="let me see", usage=LLMUsage(total_tokens=7))
    events = await read(ScriptedProvider([reply]))
    assert [event for _, event in events[:-1]] == [
        ChatChunk(content="let me see"),
        ToolCallStarted("add"),
        ToolCallStarted("now"),
    ]
    batch = final(events)
    assert isinstance(batch, ToolCallRequestList)
    assert [(one.name, one.arguments) for one in batch.tool_calls] == [("add", {"a": 1, "b": 2}), ("now", {})]
    assert batch.message is not None
    assert batch.message.content == "let me see"
    assert {one.response_id for one in batch.tool_calls} == {batch.message.response_id} != {None}
    assert batch.usage == LLMUsage(total_tokens=7)


async def test_a_batch_without_text_has_no_message() -> None:
    assert final(await read(ScriptedProvider([calls(call("now"))]))).message is None


async def test_ids_are_unique_over_the_script_and_alike_in_each_run() -> None:
    reply = calls(call("now"), call("now"))
    for _ in range(2):
        provider = ScriptedProvider([reply, reply], name="model")
        ids = [one.id for _ in range(2) for one in final(await read(provider)).tool_calls]
        assert ids == ["model-call-1", "model-call-2", "model-call-3", "model-call-4"]


async def test_ids_may_be_given_and_may_repeat() -> None:
    twice = call("now").with_id("c1")
    batch = final(await read(ScriptedProvider([calls(twice, twice)])))
    assert [one.id for one in batch.tool_calls] == ["c1", "c1"]


async def test_a_broken_call_carries_its_raw_text_and_an_empty_name_its_placeholder() -> None:
    reply = calls(broken_call("add", '{"a": 1', truncated=True), call(""))
    broken, unnamed = final(await read(ScriptedProvider([reply]))).tool_calls
    assert (broken.arguments, broken.invalid_arguments, broken.truncated) == ({}, '{"a": 1', True)
    assert unnamed.name == UNNAMED_TOOL


async def test_a_failure_may_come_before_any_output() -> None:
    events: list[tuple[float, ProviderEvent]] = []
    error = RateLimitError("slow down", retry_after=3.0)
    provider = ScriptedProvider([fails(error, delay=4.0)])
    with pytest.raises(RateLimitError) as caught:
        await read(provider, events)
    assert caught.value is error
    assert (events, anyio.current_time()) == ([], 4.0)
    assert provider.streams[0].end == "failed"


@pytest.mark.parametrize(("after", "expected"), [(0, 0), (2, 2), (None, 3)])
async def test_a_failure_may_come_after_any_piece(after: int | None, expected: int) -> None:
    events: list[tuple[float, ProviderEvent]] = []
    reply = says("Hello", chunks=3).fails(ProviderConnectionError("gone"), after=after)
    with pytest.raises(ProviderConnectionError):
        await read(ScriptedProvider([reply]), events)
    assert [type(event) for _, event in events] == [ChatChunk] * expected


async def test_a_failure_may_come_in_the_middle_of_a_call() -> None:
    events: list[tuple[float, ProviderEvent]] = []
    with pytest.raises(ProviderConnectionError):
        await read(ScriptedProvider([calls(call("add")).fails(ProviderConnectionError("gone"))]), events)
    assert [event for _, event in events] == [ToolCallStarted("add")]


def test_a_break_beyond_the_events_is_refused() -> None:
    with pytest.raises(ValueError, match="'after' must be from 0 to 1, the events here, not 2"):
        says("Hello").stalls(after=2)


def test_a_failure_that_is_no_exception_is_refused() -> None:
    with pytest.raises(TypeError, match="fails with an exception"):
        fails(cast("Any", RateLimitError))


def test_a_call_that_is_not_made_with_call_is_refused() -> None:
    with pytest.raises(TypeError, match="made with call"):
        calls(cast("Any", "add"))


async def test_a_cut_stream_ends_without_a_response() -> None:
    provider = ScriptedProvider([says("Hello", chunks=2).cuts_off(after=1), cuts_off()])
    assert [event for _, event in await read(provider)] == [ChatChunk(content="He")]
    assert await read(provider) == []
    assert [stream.end for stream in provider.streams] == ["exhausted", "exhausted"]


async def test_a_stall_lasts_until_it_is_cancelled() -> None:
    provider = ScriptedProvider([says("Hello", chunks=2).stalls(after=1), stalls()])
    events: list[tuple[float, ProviderEvent]] = []
    for _ in range(2):
        with anyio.move_on_after(1e6) as scope:
            await read(provider, events)
        assert scope.cancelled_caught
    assert [event for _, event in events] == [ChatChunk(content="He")]
    assert [(stream.end, stream.closed_at) for stream in provider.streams] == [
        ("cancelled", 1e6),
        ("cancelled", 2e6),
    ]


async def test_odd_events_are_emitted_as_they_are() -> None:
    odd: list[ProviderEvent] = [
        AssistantMessage(content="first"),
        ChatChunk(),
        AssistantMessage(content="second"),
    ]
    events = await read(ScriptedProvider([emits(*odd, every=1.0)]))
    assert events == list(enumerate(odd))


async def test_a_reply_may_be_computed_from_the_request() -> None:
    def echo(request: ModelRequest) -> Reply:
        return says(str(request.messages[-1].model_dump()["content"]))

    provider = ScriptedProvider([echo])
    assert final(await read(provider)).content == "well?"
    provider.assert_exhausted()


async def test_a_script_that_is_a_function_never_ends() -> None:
    provider = ScriptedProvider(lambda request: says(f"{len(request.messages)}"))
    with provider:
        assert [final(await read(provider)).content for _ in range(3)] == ["1", "1", "1"]


async def test_requests_are_recorded_as_they_were_when_they_came() -> None:
    messages = [UserMessage(content="one")]
    provider = ScriptedProvider([says("a"), says("b")])
    await provider.generate(ModelRequest(messages, model="m1"))
    messages.append(UserMessage(content="two"))
    await provider.generate(ModelRequest(messages))
    assert [[message.model_dump()["content"] for message in one.messages] for one in provider.requests] == [
        ["one"],
        ["one", "two"],
    ]
    assert provider.requests[0].model == "m1"


async def test_generate_gives_the_final_response_and_closes_its_stream() -> None:
    provider = ScriptedProvider([says("Hello", chunks=2), cuts_off()])
    response = await provider.generate(QUESTION)
    assert isinstance(response, AssistantMessage)
    assert (response.content, provider.streams[0].end, provider.open_streams) == ("Hello", "closed", 0)
    with pytest.raises(ProviderProtocolError, match="scripted"):
        await provider.generate(QUESTION)


async def test_a_stream_is_open_until_it_is_closed_and_says_when_that_was() -> None:
    provider = ScriptedProvider([says("Hello", chunks=2, delay=1.0, every=1.0)])
    events = provider.stream(QUESTION)
    await anext(events)
    await anyio.sleep(5)
    assert provider.open_streams == 1
    with pytest.raises(ScriptError, match="left open: those of request 1"):
        provider.assert_closed()
    await closing(events)
    record = provider.streams[0]
    assert (record.opened_at, record.closed_at, record.end, record.events) == (0, 6, "closed", 1)
    with pytest.raises(StopAsyncIteration):
        await anext(events)


async def closing(events: AsyncIterator[ProviderEvent]) -> None:
    await cast("Any", events).aclose()


async def test_two_readers_of_one_stream_are_refused() -> None:
    events = ScriptedProvider([stalls()]).stream(QUESTION)

    async def read_on() -> None:
        await anext(events)

    async with anyio.create_task_group() as group:
        group.start_soon(read_on)
        await anyio.sleep(1)
        with pytest.raises(RuntimeError, match="at once"):
            await read_on()
        group.cancel_scope.cancel()


async def test_a_request_beyond_the_script_is_an_error_that_names_it() -> None:
    provider = ScriptedProvider([says("a")], name="model")
    await read(provider)
    with pytest.raises(ScriptError, match=r"request 2 to 'model', whose script has 1 replies.*well\?"):
        await read(provider)


def test_a_reply_that_was_not_asked_for_is_an_error() -> None:
    with (
        pytest.raises(ScriptError, match="2 of the 2 replies of 'scripted'"),
        ScriptedProvider([stalls(), stalls()]),
    ):
        pass


async def test_leaving_the_context_checks_that_streams_are_closed() -> None:
    with pytest.raises(ScriptError, match="left open"), ScriptedProvider([says("a")]) as provider:
        await anext(provider.stream(QUESTION))


def test_an_error_in_the_body_is_not_hidden_by_the_checks() -> None:
    with pytest.raises(ZeroDivisionError), ScriptedProvider([says("a")]):
        raise ZeroDivisionError


def test_a_script_of_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match="holds replies"):
        ScriptedProvider([cast("Any", "Hello")])


async def test_a_function_that_makes_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match="holds replies"):
        await read(ScriptedProvider([cast("Any", lambda _: "Hello")]))


async def test_each_event_is_a_checkpoint() -> None:
    provider = ScriptedProvider([says("Hello", chunks=5)])
    with anyio.CancelScope() as scope:
        async for _ in provider.stream(QUESTION):
            scope.cancel()
    assert (provider.streams[0].end, provider.streams[0].events) == ("cancelled", 1)
