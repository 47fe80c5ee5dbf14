"""Native cancellation of every task at once, at each tick of start-up: no place is lost.

asyncio never runs the body of a task that is cancelled before its first step.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.testing import ScriptedProvider, call, calls, run_virtual, says
from seqoria_runtime.toolbox import LocalToolbox
from tests.support.batches import assert_idle, request, results

Start = Callable[[AsyncAIClient], Awaitable[Any]]


async def run(client: AsyncAIClient) -> None:
    await client.run_tool_calls([request("work") for _ in range(8)])


async def run_nested(client: AsyncAIClient) -> None:
    await client.run_tool_calls([request("nests") for _ in range(3)])


async def stream(client: AsyncAIClient) -> None:
    async with client.run_call_stream([request("nests") for _ in range(8)]) as outcomes:
        async for _ in outcomes:
            pass


async def turn(client: AsyncAIClient) -> None:
    async with client.chat("q", history=[]) as events:
        async for _ in events:
            pass


def client_of(limit: int, cap: int | None) -> AsyncAIClient:
    tools = LocalToolbox()

    @tools.tool(max_concurrency=cap)
    async def work() -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    @tools.tool(max_concurrency=cap)
    async def nests() -> None:
        await client.run_tool_calls([request("work") for _ in range(3)])

    model = ScriptedProvider([lambda _: calls(*[call("nests") for _ in range(4)])] + [says("x")] * 9)
    client = AsyncAIClient([model], local_toolbox=tools, system_prompt="", max_concurrency=limit)
    return client


def workers() -> set[asyncio.Task[Any]]:
    """The tasks of the runtime's that run calls."""
    return {task for task in asyncio.all_tasks() if "Scheduler" in repr(task.get_coro()) + task.get_name()}


async def cancel_at(start: Start, ticks: int, limit: int, cap: int | None, *, only_workers: bool) -> None:
    async with client_of(limit, cap) as client:
        before = asyncio.all_tasks()
        tasks = [asyncio.ensure_future(start(client)) for _ in range(2)]
        for _ in range(ticks):
            await asyncio.sleep(0)
        for task in workers() if only_workers else asyncio.all_tasks() - before:
            task.cancel()
        await asyncio.wait(tasks)
        await asyncio.sleep(1)
        assert asyncio.all_tasks() == before
        assert_idle(client)
        assert [cap for cap in client.stats().caps if cap.free != cap.limit] == []
        with anyio.fail_after(9):
            assert results(await client.run_tool_calls([request("nests")] * 3)) == ["null"] * 3


# anyio wraps the coroutine of a task in another one, which asyncio cancels before it has begun.
@pytest.mark.filterwarnings("ignore:.*was never awaited")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.clause("C31", "C43", "C53")
@pytest.mark.parametrize("only_workers", [False, True])
@pytest.mark.parametrize(("limit", "cap"), [(1, None), (4, None), (2, 1), (8, 2)])
@pytest.mark.parametrize(("start", "first"), [(run, 1), (run_nested, 1), (stream, 2), (turn, 2)])
def test_no_place_is_lost_with_a_task_that_is_cancelled_before_its_first_step(
    start: Start, first: int, limit: int, cap: int | None, only_workers: bool
) -> None:
    for ticks in range(first, 25):
        run_virtual(partial(cancel_at, only_workers=only_workers), start, ticks, limit, cap)
