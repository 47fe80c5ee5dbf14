import anyio
import anyio.from_thread
import pytest

from seqoria_runtime.client import ClientStats
from seqoria_runtime.models import ToolCallRequest
from seqoria_runtime.testing import call, calls, wait_for_abandoned_threads
from seqoria_runtime.toolbox import LocalToolbox
from tests.support.talk import Talk, collect
from tests.support.tools import Gate

pytestmark = pytest.mark.clause("C54")


def idle(limit: int = 16, timeout: float | None = None) -> ClientStats:
    return ClientStats(
        running={}, waiting={}, abandoned={}, free_slots=limit, max_concurrency=limit, tool_timeout=timeout
    )


async def test_a_client_that_does_nothing_says_so_open_or_not() -> None:
    talk = Talk(max_concurrency=3, tool_timeout=5)
    assert talk.client.stats() == idle(3, 5.0)
    async with talk.client:
        assert talk.client.stats() == idle(3, 5.0)
    assert talk.client.stats() == idle(3, 5.0)


async def test_calls_of_turns_batches_and_direct_calls_are_counted_by_tool() -> None:
    talk = Talk(
        calls(
            call("work", tag="a", seconds=1),
            call("work", tag="b", seconds=2),
            call("after", tag="c", seconds=1),
            call("nobody"),
        ),
        max_concurrency=3,
    )
    batch = [ToolCallRequest(id="c", name="fail", arguments={"tag": "d", "seconds": 4})]
    async with talk.client, anyio.create_task_group() as group:
        turn = talk.client.chat("q", history=talk.history)
        group.start_soon(collect, turn)
        await anyio.sleep(0.25)
        group.start_soon(talk.client.run_tool_calls, batch)
        await anyio.sleep(0.25)
        stats = talk.client.stats()
        assert stats.running == {"work": 2, "fail": 1}
        assert stats.waiting == {"after": 1}
        assert (stats.abandoned, stats.free_slots) == ({}, 0)
        await anyio.sleep(1)
        assert talk.client.stats().running == {"work": 1, "fail": 1}
        await anyio.sleep(1)
        assert talk.client.stats().running == {"after": 1, "fail": 1}
        assert talk.client.stats().waiting == {}
        group.cancel_scope.cancel()
        await turn.aclose()
    assert talk.client.stats() == idle(3)


async def test_a_thread_that_outlives_its_timeout_holds_its_slot_until_it_ends() -> None:
    gate = Gate()
    tools = LocalToolbox()

    @tools.tool()
    def block() -> None:
        anyio.from_thread.run_sync(begun.set)
        gate()

    begun = anyio.Event()
    talk = Talk(tools=tools, max_concurrency=2)
    batch = [ToolCallRequest(id="c", name="block")]
    try:
        async with talk.client, anyio.create_task_group() as group:
            group.start_soon(talk.client.run_tool_calls, batch)
            await begun.wait()
            assert talk.client.stats().running == {"block": 1}
            group.cancel_scope.cancel()
        stats = talk.client.stats()
        assert (stats.running, stats.abandoned, stats.free_slots) == ({}, {"block": 1}, 1)
    finally:
        gate.open.set()
        await wait_for_abandoned_threads()
    assert talk.client.stats() == idle(2)
    async with talk.client:
        assert talk.client.stats() == idle(2)


async def test_figures_are_a_snapshot() -> None:
    talk = Talk(max_concurrency=1)
    batch = [ToolCallRequest(id="c", name="work", arguments={"tag": "a", "seconds": 1})] * 2
    async with talk.client, anyio.create_task_group() as group:
        group.start_soon(talk.client.run_tool_calls, batch)
        await anyio.sleep(0.5)
        stats = talk.client.stats()
        await anyio.sleep(5)
        assert (stats.running, stats.waiting) == ({"work": 1}, {"work": 1})
        assert talk.client.stats() == idle(1)
