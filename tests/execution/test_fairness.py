"""How batches of different turns and tasks share a client's slots."""

from typing import Any

import anyio
import pytest

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.testing import ScriptedProvider, call, calls, says
from tests.support.batches import Lab, assert_idle, request, results
from tests.support.talk import collect

pytestmark = pytest.mark.clause("C48")


@pytest.fixture
def lab() -> Lab:
    lab = Lab()
    lab.add("work")
    lab.add("slow", timeout=1)
    return lab


@pytest.mark.parametrize("limit", [1, 2, 16])
async def test_a_single_call_starts_when_the_first_call_of_a_batch_of_a_thousand_ends(
    lab: Lab, limit: int
) -> None:
    async with lab.client(max_concurrency=limit) as client, anyio.create_task_group() as group:
        group.start_soon(client.run_tool_calls, [request("work", tag="long") for _ in range(1000)])
        await anyio.sleep(0.5)
        await client.run_tool_calls([request("work", tag="single")])
        assert lab.times("start")["single"] == 1
        group.cancel_scope.cancel()


@pytest.mark.parametrize(
    "calls_of_batch",
    [
        [request("slow", seconds=9, tag="long") for _ in range(20)],
        [request("work", seconds=1, tag="long", ok=False) for _ in range(20)],
    ],
    ids=["calls that time out", "calls that fail"],
)
async def test_a_single_call_does_not_wait_longer_where_the_calls_of_the_batch_go_wrong(
    lab: Lab, calls_of_batch: list[Any]
) -> None:
    async with lab.client(max_concurrency=1) as client, anyio.create_task_group() as group:
        group.start_soon(client.run_tool_calls, calls_of_batch)
        await anyio.sleep(0.5)
        await client.run_tool_calls([request("work", tag="single")])
        assert lab.times("start")["single"] == 1
        group.cancel_scope.cancel()


async def test_a_single_call_waits_for_at_most_one_call_of_each_competing_batch(lab: Lab) -> None:
    async with lab.client(max_concurrency=1) as client, anyio.create_task_group() as group:
        for batch in "abc":
            group.start_soon(client.run_tool_calls, [request("work", tag=batch) for _ in range(100)])
        await anyio.sleep(0.5)
        await client.run_tool_calls([request("work", tag="single")])
        before = lab.started[: lab.started.index("single")]
        assert sorted(before) == ["a", "b", "c"]
        group.cancel_scope.cancel()


async def test_batches_of_the_same_size_end_together_and_not_one_after_the_other(lab: Lab) -> None:
    ended: dict[str, float] = {}

    async def run(name: str) -> None:
        await client.run_tool_calls([request("work", tag=name) for _ in range(20)])
        ended[name] = anyio.current_time()

    async with lab.client(max_concurrency=3) as client, anyio.create_task_group() as group:
        for name in "abc":
            group.start_soon(run, name)
    assert anyio.current_time() == 20
    assert min(ended.values()) >= 18


async def test_turns_batches_and_direct_calls_take_turns(lab: Lab) -> None:
    model = ScriptedProvider([calls(*(call("work", tag="turn") for _ in range(50))), says("done")])
    client = AsyncAIClient([model], local_toolbox=lab.tools, max_concurrency=1, system_prompt="")

    async def converse() -> None:
        async with client.chat("q", history=[]) as turn:
            await collect(turn)

    async with client, anyio.create_task_group() as group:
        group.start_soon(converse)
        await anyio.sleep(0.25)
        group.start_soon(client.run_tool_calls, [request("work", tag="batch") for _ in range(50)])
        await anyio.sleep(0.25)
        await client.call_mcp_tool("work", {"tag": "direct"})
        assert lab.started[:3] == ["turn", "batch", "direct"]
        assert anyio.current_time() == 3
        group.cancel_scope.cancel()


async def test_a_batch_whose_calls_become_ready_later_joins_the_queue_then() -> None:
    lab = Lab()
    lab.add("work", "first")
    lab.add("second", depends_on=["first"])
    async with lab.client(max_concurrency=1) as client, anyio.create_task_group() as group:
        group.start_soon(client.run_tool_calls, [request("first", tag="1"), request("second", tag="2")])
        await anyio.sleep(0.5)
        group.start_soon(client.run_tool_calls, [request("work", tag=tag) for tag in "ab"])
    assert lab.started == ["1", "a", "2", "b"]


async def test_a_cancelled_batch_leaves_its_place_and_its_slots_to_the_others(lab: Lab) -> None:
    async with lab.client(max_concurrency=2) as client:
        async with anyio.create_task_group() as group:

            async def give_up() -> None:
                with anyio.move_on_after(0.5):
                    await client.run_tool_calls([request("work", tag="cancelled") for _ in range(100)])

            group.start_soon(give_up)
            await anyio.sleep(0.25)
            outcomes = await client.run_tool_calls([request("work", tag=tag) for tag in "ab"])
            assert results(outcomes) == ["a", "b"]
        assert_idle(client)
    assert lab.times("start") == {"cancelled": 0, "a": 0.5, "b": 0.5}


@pytest.mark.clause("C43", "C53")
async def test_hundreds_of_waiting_batches_can_be_stopped_at_once(lab: Lab) -> None:
    async with anyio.create_task_group() as group:
        async with lab.client(max_concurrency=1) as client:

            async def run() -> None:
                with pytest.raises(RuntimeError, match="closed"):
                    await client.run_tool_calls([request("work", tag="a"), request("work", tag="b")])

            for _ in range(500):
                group.start_soon(run)
            await anyio.sleep(0.5)
        assert_idle(client)
    assert len(lab.started) == 1
