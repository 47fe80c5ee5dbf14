import asyncio
import gc
import math
import threading
import warnings
import weakref
from collections.abc import Callable
from contextlib import aclosing, suppress
from functools import partial
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest

from seqoria_runtime._execution.streams.stream import Stream
from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.models import AssistantMessage, ToolCallRequest, ToolMessages
from seqoria_runtime.testing import Reply, ScriptedProvider, call, calls, says
from seqoria_runtime.toolbox import LocalToolbox
from tests.support.histories import check_history
from tests.support.pooled import Pooled
from tests.support.talk import Talk, collect

LINGERS = calls(call("work", tag="quick", seconds=0), call("lingers", tag="slow", seconds=5))
BATCH = [
    ToolCallRequest(id="c1", name="work", arguments={"tag": "quick", "seconds": 0}),
    ToolCallRequest(id="c2", name="lingers", arguments={"tag": "slow", "seconds": 5}),
]
CLEANUP = 0.25


class Source:
    """A stream whose first event comes at once and whose next one is far away."""

    def __init__(self, opening: Callable[[Talk], Stream[Any]], *script: Reply) -> None:
        self._opening = opening
        self._script = script

    def talk(self) -> Talk:
        return Talk(*self._script)

    def open(self, talk: Talk) -> Stream[Any]:
        return self._opening(talk)


SOURCES = {
    "stream_chat in the model": Source(
        lambda talk: talk.client.stream_chat("q", history=talk.history),
        says("ab", chunks=2).stalls(after=1),
    ),
    "stream_chat in the tools": Source(
        lambda talk: talk.client.stream_chat("q", history=talk.history, tool_events=True), LINGERS
    ),
    "chat in the model": Source(
        lambda talk: talk.client.chat("q", history=talk.history),
        calls(call("work", tag="quick", seconds=0)),
        says("ab", chunks=2).stalls(),
    ),
    "llm_stream_once": Source(
        lambda talk: talk.client.llm_stream_once(talk.history, append_user_message="q"),
        says("ab", chunks=2).stalls(after=1),
    ),
    "run_call_stream": Source(lambda talk: talk.client.run_call_stream(BATCH)),
}

every_source = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)


async def at_work(stream: Stream[Any]) -> None:
    """Take the first event, and have the work behind it wait for the next one."""
    await anext(stream)
    with anyio.move_on_after(1) as scope:
        await anext(stream)
    assert scope.cancelled_caught


def assert_over(talk: Talk) -> None:
    """Nothing of a stream's work is left, and its history can be continued."""
    assert [name for name in running_tasks() if "HostedWork" in name or "Root._run" in name] == []
    assert talk.model.open_streams == 0
    assert talk.client.stats().running == {}
    assert talk.client.stats().free_slots == 16
    assert len(talk.deeds.cleaned) == talk.deeds.begun.count("slow")
    check_history(talk.history)


def running_tasks() -> list[str]:
    return [task.name or "" for task in anyio.get_running_tasks()]


# Forms of use


@pytest.mark.clause("C30", "C31")
@every_source
@pytest.mark.parametrize("form", ["async with", "aclosing", "aclose"])
async def test_leaving_a_stream_early_ends_all_its_work_before_it_returns(source: Source, form: str) -> None:
    talk = source.talk()
    async with talk.client:
        if form == "async with":
            async with source.open(talk) as stream:
                await at_work(stream)
        elif form == "aclosing":
            async with aclosing(source.open(talk)) as stream:
                await at_work(stream)
        else:
            stream = source.open(talk)
            await at_work(stream)
            await stream.aclose()
        assert_over(talk)
        assert anyio.current_time() == 1 + (CLEANUP if talk.deeds.cleaned else 0)
        await stream.aclose()
        assert await collect(stream) == []


@pytest.mark.clause("C30")
@every_source
async def test_a_stream_is_iterated_with_async_for_alone(source: Source) -> None:
    talk = source.talk()
    async with talk.client:
        stream = source.open(talk)
        async for _ in stream:
            break
        await stream.aclose()
        assert_over(talk)


@pytest.mark.clause("C30")
async def test_a_stream_read_to_its_end_needs_no_closing() -> None:
    talk = Talk(calls(call("work", tag="a")), says("done"))
    async with talk.client:
        stream = talk.client.stream_chat("q", history=talk.history)
        assert len(await collect(stream)) == 3
        assert_over(talk)
        assert await collect(stream) == []


@pytest.mark.clause("C36")
@every_source
async def test_nothing_starts_before_the_first_iteration_and_closing_an_unstarted_stream_is_nothing(
    source: Source,
) -> None:
    talk = source.talk()
    async with talk.client:
        before = running_tasks()
        for close in (True, False):
            stream = source.open(talk)
            await anyio.sleep(60)
            assert running_tasks() == before
            assert talk.history == []
            if close:
                await stream.aclose()
                assert await collect(stream) == []
                async with stream:
                    pass
            del stream
            gc.collect()
        assert talk.model.requests == ()
        assert talk.deeds.begun == []


@pytest.mark.clause("C36")
@every_source
async def test_entering_a_stream_starts_it(source: Source) -> None:
    talk = source.talk()
    async with talk.client, source.open(talk):
        await anyio.sleep(0.5)
        assert talk.model.requests or talk.deeds.begun


@pytest.mark.clause("C36")
@every_source
async def test_two_iterations_at_once_are_an_error_that_leaves_the_first_alone(source: Source) -> None:
    talk = source.talk()
    async with talk.client, source.open(talk) as stream, anyio.create_task_group() as group:
        await anext(stream)
        group.start_soon(collect, stream)
        await anyio.sleep(1)
        with pytest.raises(RuntimeError, match="iterated by another task already"):
            await anext(stream)
        assert talk.deeds.cleaned == []
        await stream.aclose()


# The consumer's own scopes and exceptions


class Own(Exception):
    """An application's exception."""


@pytest.mark.clause("C32")
@pytest.mark.case("A2")
@every_source
@pytest.mark.parametrize("form", ["stream inside", "client inside", "iterator"])
@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_consumers_exception_leaves_as_itself(source: Source, form: str, cancelled: bool) -> None:
    talk = source.talk()
    error = Own("mine")

    async def consume() -> None:
        async with AsyncExitForms(form, talk, source) as stream:
            await at_work(stream)
            if cancelled:
                scope.cancel()
            raise error

    with anyio.CancelScope() as scope:
        with pytest.raises(Own) as caught:
            await consume()
    assert not scope.cancelled_caught
    assert caught.value is error
    assert error.__cause__ is None
    assert_over(talk)


class AsyncExitForms:
    """The ways in which an application stacks its client and a stream."""

    def __init__(self, form: str, talk: Talk, source: Source) -> None:
        self._form = form
        self._talk = talk
        self._source = source

    async def __aenter__(self) -> Stream[Any]:
        await self._talk.client.__aenter__()
        self._stream = self._source.open(self._talk)
        if self._form == "stream inside":
            await self._stream.__aenter__()
        return self._stream

    async def __aexit__(self, *exc: Any) -> None:
        if self._form == "stream inside":
            assert not await self._stream.__aexit__(*exc)  # type: ignore[func-returns-value]
        elif self._form == "iterator":
            await self._stream.aclose()
        assert not await self._talk.client.__aexit__(*exc)  # type: ignore[func-returns-value]


@pytest.mark.clause("C31", "C32")
@pytest.mark.case("A1")
@every_source
@pytest.mark.parametrize("where", ["in anext", "in the body"])
async def test_a_cancelled_consumer_leaves_when_everything_has_ended(source: Source, where: str) -> None:
    talk = source.talk()
    async with talk.client:
        with anyio.move_on_after(2) as scope:
            async with source.open(talk) as stream:
                await at_work(stream)
                if where == "in anext":
                    await anext(stream)
                await anyio.sleep(60)
        assert scope.cancelled_caught
        assert anyio.current_time() == 2 + (CLEANUP if talk.deeds.cleaned else 0)
        assert_over(talk)
        grown = list(talk.deeds.cleaned)
        await anyio.sleep(60)
        assert talk.deeds.cleaned == grown


@pytest.mark.clause("C31")
@every_source
async def test_a_consumer_cancelled_in_a_bare_anext_leaves_the_work_alive(source: Source) -> None:
    talk = source.talk()
    async with talk.client:
        stream = source.open(talk)
        await at_work(stream)
        await anyio.sleep(1)
        assert talk.model.open_streams or talk.client.stats().running
        await stream.aclose()
        assert_over(talk)


@pytest.mark.clause("C32")
@pytest.mark.case("A2")
async def test_a_tools_deadline_never_touches_the_consumer() -> None:
    tools = LocalToolbox()

    @tools.tool(timeout=0.1)
    async def late(seconds: float) -> None:
        await anyio.sleep(seconds)

    talk = Talk(tools=tools, tool_timeout=1.0)
    batch = [ToolCallRequest(id="c", name="late", arguments={"seconds": seconds}) for seconds in (0, 5, 5)]
    async with talk.client, talk.client.run_call_stream(batch) as stream:
        kinds = []
        async for _, outcome in stream:
            await anyio.sleep(3)
            assert anyio.current_effective_deadline() == float("inf")
            kinds.append(getattr(outcome, "kind", "fine"))
    assert kinds == ["fine", "timed_out", "timed_out"]
    assert anyio.current_time() == 9.0


@pytest.mark.clause("C32")
async def test_a_turns_failure_never_cancels_the_clients_body() -> None:
    talk = Talk(says("ab", chunks=2).fails(Own("bug"), after=1), says("fine"))
    async with talk.client:
        stream = talk.client.stream_chat("q", history=talk.history)
        await anext(stream)
        await anyio.sleep(60)
        [answer] = await collect(talk.client.chat("q", history=[]))
        assert answer.content == "fine"
        with pytest.raises(Own):
            await anext(stream)


# Closing from elsewhere


@pytest.mark.clause("C31")
@every_source
async def test_a_waiting_consumer_ends_when_another_task_closes_the_stream(source: Source) -> None:
    talk = source.talk()
    ends: list[Any] = []

    async def consume(stream: Stream[Any]) -> None:
        try:
            await anext(stream)
        except StopAsyncIteration:
            ends.append(anyio.current_time())

    async with talk.client, anyio.create_task_group() as group:
        stream = source.open(talk)
        await anext(stream)
        group.start_soon(consume, stream)
        await anyio.sleep(1)
        await stream.aclose()
        assert_over(talk)
        await anyio.sleep(1)
        assert ends == [1 + (CLEANUP if talk.deeds.cleaned else 0)]


@pytest.mark.clause("C31")
async def test_all_tasks_that_close_a_stream_wait_until_it_has_ended() -> None:
    talk = Talk()
    closed: list[float] = []

    async def close(stream: Stream[Any], delay: float) -> None:
        await anyio.sleep(delay)
        await stream.aclose()
        closed.append(anyio.current_time())

    async with talk.client, anyio.create_task_group() as group:
        stream = talk.client.run_call_stream(BATCH)
        await anext(stream)
        for delay in (1, 1.125, 3):
            group.start_soon(close, stream, delay)
    assert closed == [1.25, 1.25, 3]


@pytest.mark.clause("C31")
async def test_a_closer_that_is_cancelled_waits_all_the_same() -> None:
    talk = Talk()
    async with talk.client:
        stream = talk.client.run_call_stream(BATCH)
        await at_work(stream)
        with anyio.move_on_after(0.125):
            await stream.aclose()
        assert anyio.current_time() == 1.25
        assert_over(talk)


@pytest.mark.clause("C31", "C53")
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_closer_that_is_natively_cancelled_waits_and_is_then_cancelled(anyio_backend: str) -> None:
    talk = Talk()
    async with talk.client:
        stream = talk.client.run_call_stream(BATCH)
        await at_work(stream)
        closer = asyncio.create_task(stream.aclose())
        for _ in range(2):
            await anyio.sleep(0.0625)
            closer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closer
        assert anyio.current_time() == 1.25
        assert_over(talk)


@pytest.mark.clause("C31")
async def test_a_tool_that_ignores_its_cancellation_delays_the_closing() -> None:
    tools = LocalToolbox()

    @tools.tool()
    async def stubborn() -> str:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(5)
        return "done all the same"

    talk = Talk(calls(call("stubborn")), tools=tools)
    async with talk.client:
        async with talk.client.chat("q", history=talk.history):
            await anyio.sleep(1)
        assert anyio.current_time() == 5.0
    [exchange] = check_history(talk.history)
    assert exchange.responses[0].pairs[0][1].result == "done all the same"  # type: ignore[union-attr]


@pytest.mark.clause("C31")
@pytest.mark.parametrize("form", ["async", "thread", "own task", "hidden parameter", "nested"])
async def test_a_tool_that_closes_its_own_turn_gets_an_error_and_not_a_hang(form: str) -> None:
    tools = LocalToolbox()
    streams: list[Stream[Any]] = []

    async def close_it() -> None:
        await streams[0].aclose()

    if form == "async":
        tools.add(close_it, name="close")
    elif form == "thread":

        @tools.tool()
        def close() -> None:
            anyio.from_thread.run(close_it)

    elif form == "own task":

        @tools.tool(name="close")
        async def close_in_task() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(close_it)

    elif form == "hidden parameter":

        @tools.tool(name="close", server_populated=["value"])
        async def close_hidden(value: Any) -> None: ...

    else:
        tools.add(close_it, name="inner")

        @tools.tool(name="close")
        async def close_nested() -> str:
            [outcome] = await talk.client.run_tool_calls([ToolCallRequest(id="c", name="inner")])
            raise Own(outcome.error)  # type: ignore[union-attr]

    registry = {"value": close_it}
    talk = Talk(calls(call("close")), says("done"), tools=tools, param_registry=registry)
    async with talk.client, talk.client.chat("q", history=talk.history) as turn:
        streams.append(turn)
        messages, answer = await collect(turn)
    if form != "hidden parameter":
        assert "this turn cannot be closed by code that" in messages[1].error
    assert messages[1].kind in {"failed", "missing_parameter"}
    assert answer.content == "done"


@pytest.mark.clause("C31")
async def test_a_tool_may_close_another_turn() -> None:
    tools = LocalToolbox()
    streams: list[Stream[Any]] = []

    @tools.tool()
    async def stop_other() -> str:
        await streams[0].aclose()
        return "stopped"

    @tools.tool()
    async def forever() -> None:
        await anyio.sleep_forever()

    talk = Talk(calls(call("forever")), calls(call("stop_other")), says("done"), tools=tools)
    async with talk.client:
        other = talk.client.chat("q", history=[])
        with anyio.move_on_after(1):
            await anext(other)
        streams.append(other)
        messages, _ = await collect(talk.client.chat("q", history=talk.history))
        assert messages[1].result == "stopped"
        assert await collect(other) == []


# Deadlines around one event


ROUNDS = (
    calls(
        call("work", tag="a", seconds=0.5),
        call("work", tag="b", seconds=0.25),
        text="abc",
        chunks=3,
        every=0.3,
    ),
    calls(call("after", tag="c", seconds=0.5)),
    says("done", chunks=4, delay=0.3, every=0.3),
)


def shape(event: Any) -> Any:
    if isinstance(event, ToolMessages):
        return [type(message).__name__ for message in event]
    return type(event).__name__, getattr(event, "content", None)


async def in_pieces(stream: Stream[Any], attempt: Callable[[Stream[Any]], Any]) -> list[Any]:
    """Read a stream to its end with attempts that now and then give up and return `None`."""
    events: list[Any] = []
    while True:
        try:
            event = await attempt(stream)
        except StopAsyncIteration:
            return events
        if event is not None:
            events.append(shape(event))


async def by_scope(stream: Stream[Any]) -> Any:
    with anyio.move_on_after(0.1):
        return await anext(stream)
    return None


async def by_timeout(stream: Stream[Any]) -> Any:
    try:
        async with asyncio.timeout(0.1):
            return await anext(stream)
    except TimeoutError:
        return None


async def by_wait_for(stream: Stream[Any]) -> Any:
    try:
        return await asyncio.wait_for(anext(stream), 0.1)
    except TimeoutError:
        return None


async def in_a_task_that_is_cancelled(stream: Stream[Any]) -> Any:
    task = asyncio.create_task(anext(stream))
    await asyncio.sleep(0.1)
    if task.done():
        return task.result()
    task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return None


async def whole() -> list[Any]:
    talk = Talk(*ROUNDS)
    async with talk.client:
        stream = talk.client.stream_chat("q", history=talk.history, tool_events=True)
        return [shape(event) for event in await collect(stream)]


@pytest.mark.clause("C33")
async def test_a_deadline_around_one_event_loses_nothing() -> None:
    talk = Talk(*ROUNDS)
    async with talk.client:
        stream = talk.client.stream_chat("q", history=talk.history, tool_events=True)
        assert await in_pieces(stream, by_scope) == await whole()


@pytest.mark.clause("C33")
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize("attempt", [by_timeout, by_wait_for, in_a_task_that_is_cancelled])
async def test_asyncios_own_deadlines_lose_nothing_either(anyio_backend: str, attempt: Any) -> None:
    talk = Talk(*ROUNDS)
    async with talk.client:
        stream = talk.client.stream_chat("q", history=talk.history, tool_events=True)
        assert await in_pieces(stream, attempt) == await whole()


@pytest.mark.clause("C33")
@pytest.mark.parametrize("gap", range(6))
async def test_a_cancellation_in_the_very_tick_of_an_event_loses_nothing(gap: int) -> None:
    talk = Talk(says("x" * 40, chunks=40, every=1.0))
    async with talk.client, talk.client.stream_chat("q", history=talk.history) as stream:
        contents = [content for _, content in await in_pieces(stream, partial(cancelled_near, gap))]
    assert contents == [*["x"] * 40, "x" * 40]


async def _cancel_near(scope: anyio.CancelScope, gap: int) -> None:
    await anyio.sleep_until(math.floor(anyio.current_time()) + 1.0)
    for _ in range(gap):
        await anyio.lowlevel.checkpoint()
    scope.cancel()


async def cancelled_near(gap: int, stream: Stream[Any]) -> Any:
    """Wait for an event, and be cancelled `gap` ticks after the whole second in which it comes."""
    event: Any = None
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_near, group.cancel_scope, gap)
            event = await anext(stream)
            group.cancel_scope.cancel()
    except* StopAsyncIteration:
        raise StopAsyncIteration from None
    return event


@pytest.mark.clause("C33")
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize("gap", range(6))
async def test_a_native_cancel_in_the_very_tick_of_an_event_loses_nothing(
    anyio_backend: str, gap: int
) -> None:
    talk = Talk(says("x" * 40, chunks=40, every=1.0))
    seen = []
    async with talk.client:
        stream: Stream[Any] = talk.client.stream_chat("q", history=talk.history)
        while True:
            reader = asyncio.create_task(anext(stream))
            await asyncio.sleep(1.0)
            for _ in range(gap):
                await asyncio.sleep(0)
            reader.cancel()
            try:
                seen.append((await reader).content)
            except asyncio.CancelledError:
                continue
            except StopAsyncIteration:
                break
    assert seen == [*["x"] * 40, "x" * 40]


# Back-pressure


@pytest.mark.clause("C35")
async def test_a_slow_consumer_slows_the_model_and_little_is_buffered() -> None:
    talk = Talk(says("x" * 1000, chunks=1000))
    ahead = []
    async with talk.client, talk.client.stream_chat("q", history=talk.history) as stream:
        taken = 0
        async for _ in stream:
            taken += 1
            await anyio.sleep(1)
            ahead.append(talk.model.streams[0].events - taken)
    assert taken == 1001
    assert max(ahead) <= 20


@pytest.mark.clause("C35")
async def test_a_slow_consumer_slows_no_tool() -> None:
    talk = Talk()
    batch = [
        ToolCallRequest(id=f"c{number}", name="work", arguments={"tag": str(number), "seconds": 1})
        for number in range(160)
    ]
    async with talk.client, talk.client.run_call_stream(batch) as stream:
        await anext(stream)
        await anyio.sleep(9.5)
        assert len(talk.deeds.done) == 160
        assert len(await collect(stream)) == 159


@pytest.mark.clause("C35")
async def test_a_consumer_of_many_buffered_events_lets_other_tasks_run() -> None:
    talk = Talk()
    batch = [
        ToolCallRequest(id=f"c{number}", name="work", arguments={"tag": str(number), "seconds": 0})
        for number in range(500)
    ]
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with talk.client, talk.client.run_call_stream(batch) as stream:
        await anyio.sleep(1)
        async with anyio.create_task_group() as group:
            group.start_soon(count)
            assert len(await collect(stream)) == 500
            group.cancel_scope.cancel()
    assert turns >= 5


# Dropped streams


async def break_out(stream: Stream[Any]) -> None:
    async for _ in stream:
        break


@pytest.mark.clause("C34")
@pytest.mark.case("A2")
@every_source
async def test_a_stream_dropped_by_a_break_is_closed_and_the_consumer_not_disturbed(source: Source) -> None:
    talk = source.talk()
    async with talk.client:
        with pytest.warns(ResourceWarning, match="was dropped before it had ended: close it, or use"):
            await break_out(source.open(talk))
        await anyio.sleep(0.3)
        assert_over(talk)
        assert anyio.current_effective_deadline() == float("inf")
        if talk.model.requests:
            assert len(talk.history) in {0, 3, 5}


@pytest.mark.clause("C34")
@every_source
async def test_no_task_holds_the_consumers_stream_object(source: Source) -> None:
    talk = source.talk()
    async with talk.client:
        gc.disable()
        try:
            stream = source.open(talk)
            await at_work(stream)
            await anyio.sleep(0)
            collected = weakref.ref(stream)
            with pytest.warns(ResourceWarning):
                del stream
            assert collected() is None
        finally:
            gc.enable()
        await anyio.sleep(1)
        assert_over(talk)


@pytest.mark.clause("C34")
@every_source
async def test_a_stream_may_be_collected_in_another_thread(source: Source) -> None:
    talk = source.talk()
    async with talk.client:
        holder: list[Any] = [source.open(talk)]
        await anext(holder[0])
        caught: list[Any] = []
        thread = threading.Thread(target=_drop, args=(holder, caught))
        thread.start()
        thread.join()
        assert [warning.category for warning in caught] == [ResourceWarning]
        await anyio.sleep(1)
        assert_over(talk)


@pytest.mark.clause("C6", "C34")
@pytest.mark.real_time
async def test_every_real_event_loop_is_woken_by_a_stream_that_another_thread_drops() -> None:
    talk = Talk(says("ab", chunks=2).stalls(after=1))
    async with talk.client:
        holder: list[Any] = [talk.client.stream_chat("q", history=talk.history)]
        await anext(holder[0])
        caught: list[Any] = []
        with anyio.fail_after(10):
            await anyio.to_thread.run_sync(_drop, holder, caught)
            while talk.history or talk.model.open_streams:
                await anyio.sleep(0.001)
    assert [warning.category for warning in caught] == [ResourceWarning]


def _drop(holder: list[Any], caught: list[Any]) -> None:
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        holder.clear()
    caught.extend(record)


@pytest.mark.clause("C34")
@every_source
async def test_a_stream_in_a_reference_cycle_is_closed_when_that_is_collected(source: Source) -> None:
    talk = source.talk()
    async with talk.client:
        stream = source.open(talk)
        await anext(stream)
        cycle: list[Any] = [stream]
        cycle.append(cycle)
        del stream, cycle
        with pytest.warns(ResourceWarning):
            gc.collect()
        await anyio.sleep(1)
        assert_over(talk)


@pytest.mark.clause("C34")
@every_source
async def test_a_stream_that_was_left_alone_is_closed_with_the_client(source: Source) -> None:
    talk = source.talk()
    async with talk.client:
        stream = source.open(talk)
        await anext(stream)
    assert_over(talk)
    del stream


@pytest.mark.clause("C34")
async def test_a_stream_is_dropped_without_a_warning_after_its_last_event() -> None:
    talk = Talk(says("hi"))
    async with talk.client:
        async for event in talk.client.stream_chat("q", history=talk.history):
            if isinstance(event, AssistantMessage):
                break
        del event
        await anyio.sleep(1)
        assert_over(talk)
    assert talk.roles == ["user", "assistant"]


@pytest.mark.clause("C34")
async def test_the_failure_of_a_dropped_stream_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    talk = Talk(says("ab", chunks=2).fails(Own("nobody saw this"), after=1))
    async with talk.client:
        stream = talk.client.stream_chat("q", history=talk.history)
        await anext(stream)
        await anyio.sleep(1)
        del stream
        await anyio.sleep(1)
    assert "this turn failed when it was dropped by its consumer" in caplog.text
    assert "nobody saw this" in caplog.text
    assert talk.history == []


@pytest.mark.clause("C31")
async def test_a_failure_while_a_stream_is_being_closed_is_logged_and_not_raised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tools = LocalToolbox()

    class Broken(ScriptedProvider):
        async def generate(self, request: Any) -> Any:
            try:
                await anyio.sleep_forever()
            finally:
                raise Own("in cleanup")

    client = AsyncAIClient([Broken([])], local_toolbox=tools, system_prompt="")
    history: list[Any] = []
    async with client, client.chat("q", history=history):
        await anyio.sleep(1)
    assert "this turn failed when it was closed by its consumer" in caplog.text
    assert history == []


# What a stream holds


@pytest.mark.clause("C31")
@pytest.mark.case("A4")
@pytest.mark.parametrize("ending", ["close", "cancel", "cancel twice", "raise", "drop"])
@pytest.mark.filterwarnings("ignore:this turn was dropped:ResourceWarning")
async def test_connections_of_streams_cut_short_come_back_to_their_pool(ending: str) -> None:
    pool = Pooled(ScriptedProvider(lambda request: says("x" * 1000, chunks=1000, every=0.2)), size=2)
    history: list[Any] = []
    async with AsyncAIClient([pool], system_prompt="") as client:
        for _ in range(10):
            await _cut_short(client, history, ending)
        if ending == "drop":
            await anyio.sleep(0.1)
        assert pool.open == 0
        assert pool.opened == 10
        async with client.stream_chat("q", history=history) as turn:
            await anext(turn)
        assert history == []
    assert pool.open == 0


async def _cut_short(client: AsyncAIClient, history: list[Any], ending: str) -> None:
    with anyio.CancelScope() as outer, anyio.CancelScope() as inner, suppress(Own):
        await _read_a_little(client, history, ending, inner=inner, outer=outer)


async def _read_a_little(
    client: AsyncAIClient,
    history: list[Any],
    ending: str,
    *,
    inner: anyio.CancelScope,
    outer: anyio.CancelScope,
) -> None:
    if ending == "drop":
        async for _ in client.stream_chat("q", history=history):
            return
    async with client.stream_chat("q", history=history) as turn:
        await anext(turn)
        if ending == "close":
            return
        if ending == "raise":
            raise Own("mine")
        if ending == "cancel twice":  # the second comes while the first is being seen to
            outer.deadline = anyio.current_time() + 0.005
        inner.cancel()
        await anext(turn)
