from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime._execution.streams.channel import NOTHING, Channel


async def take(channel: Channel[Any]) -> Any:
    event = channel.take_nowait()
    if event is not NOTHING:
        return event
    assert await channel.wait()
    return channel.take()


async def test_events_come_in_the_order_in_which_they_were_sent() -> None:
    channel: Channel[int] = Channel(3)
    for number in range(3):
        await channel.send(number)
    channel.send_nowait(3)
    channel.close()
    assert [await take(channel) for _ in range(4)] == [0, 1, 2, 3]
    assert not await channel.wait()
    assert channel.take_nowait() is NOTHING


async def test_whoever_waits_for_an_event_is_woken_by_the_next_one_and_by_the_end() -> None:
    channel: Channel[str] = Channel(1)
    async with anyio.create_task_group() as group:
        for end in (False, True):

            async def act(end: bool = end) -> None:
                await anyio.sleep(1)
                if end:
                    channel.close()
                else:
                    await channel.send("event")

            group.start_soon(act)
            assert await channel.wait() is not end
            if not end:
                assert channel.take() == "event"
    assert anyio.current_time() == 2.0


@pytest.mark.clause("C35")
async def test_a_sender_waits_while_the_buffer_is_full() -> None:
    channel: Channel[int] = Channel(2)
    sent = []

    async def send() -> None:
        for number in range(5):
            await channel.send(number)
            sent.append((number, anyio.current_time()))

    async with anyio.create_task_group() as group:
        group.start_soon(send)
        for number in range(5):
            await anyio.sleep(1)
            assert await take(channel) == number
    assert sent == [(0, 0.0), (1, 0.0), (2, 1.0), (3, 2.0), (4, 3.0)]


async def test_a_sender_that_is_cancelled_has_sent_nothing() -> None:
    channel: Channel[str] = Channel(1)
    await channel.send("first")
    with anyio.move_on_after(1):
        await channel.send("never")
    assert await take(channel) == "first"
    await channel.send("second")
    assert await take(channel) == "second"


async def test_a_sender_may_try_without_waiting() -> None:
    channel: Channel[int] = Channel(2)
    assert [channel.try_send(number) for number in range(3)] == [True, True, False]
    assert [await take(channel) for _ in range(2)] == [0, 1]
    assert channel.try_send(3)
    assert channel.take_nowait() == 3


@pytest.mark.clause("C35")
async def test_what_must_not_wait_does_not() -> None:
    channel: Channel[int] = Channel(0)
    for number in range(100):
        channel.send_nowait(number)
    assert [await take(channel) for _ in range(100)] == list(range(100))


@pytest.mark.clause("C21")
async def test_a_sender_can_wait_until_the_event_was_taken_and_the_next_is_asked_for() -> None:
    channel: Channel[str] = Channel(4)
    passed: list[float] = []

    async def send() -> None:
        await channel.send("before")
        await channel.send_and_wait("barrier")
        passed.append(anyio.current_time())
        await channel.send("after")

    async with anyio.create_task_group() as group:
        group.start_soon(send)
        assert await take(channel) == "before"
        await anyio.sleep(1)
        assert await take(channel) == "barrier"
        await anyio.sleep(1)
        assert passed == []
        assert await take(channel) == "after"
    assert passed == [2.0]


async def test_the_sender_learns_of_an_event_as_it_is_taken_and_not_before() -> None:
    channel: Channel[str] = Channel(4)
    taken: list[str] = []
    await channel.send("a", lambda: taken.append("a"))
    channel.send_nowait("b", lambda: taken.append("b"))
    await channel.wait()
    assert taken == []
    channel.take()
    assert taken == ["a"]
    assert channel.cut()
    assert not channel.cut()
    channel.send_nowait("c", lambda: taken.append("c"))
    assert channel.take_nowait() is NOTHING
    assert taken == ["a"]


@pytest.mark.clause("C33")
@given(st.lists(st.integers(0, 3), max_size=12), st.integers(0, 4))
async def test_no_wait_that_is_cancelled_at_any_tick_loses_an_event(gaps: list[int], limit: int) -> None:
    channel: Channel[int] = Channel(limit + 1)
    got: list[int] = []

    async def send() -> None:
        for number, gap in enumerate(gaps):
            for _ in range(gap):
                await anyio.lowlevel.checkpoint()
            await channel.send(number)
        channel.close()

    async with anyio.create_task_group() as group:
        group.start_soon(send)
        patience = 0
        while True:
            patience = (patience + 1) % 4
            with anyio.CancelScope() as scope:
                group.start_soon(_cancel_after, scope, patience)
                if not await channel.wait():
                    break
                got.append(channel.take())
    assert got == list(range(len(gaps)))


async def _cancel_after(scope: anyio.CancelScope, ticks: int) -> None:
    for _ in range(ticks):
        await anyio.lowlevel.checkpoint()
    scope.cancel()


async def test_a_consumer_of_many_events_lets_others_run_now_and_then() -> None:
    channel: Channel[int] = Channel(0)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    for number in range(1000):
        channel.send_nowait(number)
    async with anyio.create_task_group() as group:
        group.start_soon(count)
        for _ in range(1000):
            if channel.take_nowait() is NOTHING:
                await take(channel)
        group.cancel_scope.cancel()
    assert 10 <= turns < 50
