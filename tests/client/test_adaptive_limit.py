"""A client whose limit is adaptive: real calls in virtual time, on a resource whose capacity changes."""

import math
from dataclasses import dataclass, field

import anyio
import pytest

from seqoria_runtime import AdaptiveLimit, AsyncAIClient, ClientSettings
from seqoria_runtime.testing import ScriptedProvider
from tests.support.batches import Lab, assert_idle, request

pytestmark = pytest.mark.clause("C43")


@dataclass
class Resource:
    """Calls of its tool `use` take a second, or more in proportion to their number above `capacity`."""

    capacity: int
    lab: Lab = field(default_factory=Lab)

    def __post_init__(self) -> None:
        self.lab.tools.add(self.use)

    async def use(self, tag: str = "") -> str:
        with self.lab.noted(tag):
            await anyio.sleep(max(1.0, self.lab.live / self.capacity))
        return tag


async def keep_busy(client: AsyncAIClient) -> None:
    while True:
        await client.run_tool_calls([request("use")] * 300)


async def test_the_limit_converges_and_follows_the_capacity_up_and_down() -> None:
    resource = Resource(10)
    async with (
        resource.lab.client(max_concurrency=AdaptiveLimit(1, 100)) as client,
        anyio.create_task_group() as group,
    ):
        assert client.stats().max_concurrency == 1
        group.start_soon(keep_busy, client)
        for capacity in (10, 25, 5):
            resource.capacity = capacity
            await anyio.sleep(70)
            settled, resource.lab.peak = anyio.current_time(), 0
            await anyio.sleep(40)
            limits = [change.limit for change in client.limit_history() if change.time >= settled]
            assert limits
            at_rest = ((1 + math.sqrt(1 + 4 * 1.1 * capacity)) / 2) ** 2
            assert max(limits) <= 1.15 * at_rest + 2
            assert min(limits) >= capacity / 2
            assert resource.lab.peak <= max(limits) + 1
            assert client.stats().max_concurrency == client.limit_history()[-1].limit
        group.cancel_scope.cancel()
    assert client.limit_history()[-1].limit == client.stats().max_concurrency


async def test_timeouts_take_the_limit_down_and_cancelled_and_invalid_calls_do_not_move_it() -> None:
    lab = Lab()
    lab.add("work")
    lab.add("slow", timeout=0.5)
    async with lab.client(max_concurrency=AdaptiveLimit(2, 30, window=5)) as client:
        await client.run_tool_calls([request("work")] * 600)
        raised = client.limit_history()
        assert raised[-1].limit == 30
        await client.run_tool_calls([request("work", seconds="x")] * 200 + [request("nobody")] * 200)
        await client.run_tool_calls([request("work", ok=False)] * 200)
        for _ in range(20):
            with anyio.move_on_after(0.1):
                await client.run_tool_calls([request("work")] * 30)
        assert client.limit_history() == raised
        await client.run_tool_calls([request("slow")] * 400)
        assert client.stats().max_concurrency <= 15
        assert_idle(client)


async def test_a_tool_that_makes_nested_calls_does_not_move_the_limit() -> None:
    lab = Lab()
    lab.add("work")
    async with lab.client(max_concurrency=AdaptiveLimit(4, 30, window=5)) as client:

        @lab.tools.tool()
        async def parent() -> None:
            await client.run_tool_calls([request("work", seconds=0.0, ok=False)] * 3)

        await client.refresh_tools()
        await client.run_tool_calls([request("parent")] * 300)
        assert [change.limit for change in client.limit_history()] == [4]


async def test_clients_that_share_an_adaptive_limit_have_separate_limits() -> None:
    lab = Lab()
    lab.add("work")
    settings = ClientSettings(
        providers=[ScriptedProvider([])], local_toolbox=lab.tools, max_concurrency=AdaptiveLimit(1, 50)
    )
    async with AsyncAIClient(settings=settings) as busy, AsyncAIClient(settings=settings) as idle:
        await busy.run_tool_calls([request("work")] * 300)
        assert busy.stats().max_concurrency > 5
        assert idle.stats().max_concurrency == 1
        assert len(idle.limit_history()) == 1


async def test_a_fixed_limit_has_no_history() -> None:
    async with Lab().client(max_concurrency=3) as client:
        assert client.limit_history() == ()


async def test_nested_calls_do_not_deadlock_under_an_adaptive_limit() -> None:
    lab = Lab()
    lab.add("work")
    async with lab.client(max_concurrency=AdaptiveLimit(1, 5, window=3)) as client:

        @lab.tools.tool()
        async def parent(depth: int) -> None:
            inner = request("parent", depth=depth - 1) if depth else request("work", seconds=0.1)
            await client.run_tool_calls([inner, request("work", seconds=0.2)])

        await client.refresh_tools()
        await client.run_tool_calls([request("parent", depth=3)] * 40)
        assert_idle(client)


@pytest.mark.clause("C49")
async def test_nested_calls_go_on_when_a_limit_that_shrinks_takes_the_slot_that_another_call_waits_for() -> (
    None
):
    lab = Lab()

    async def timed(seconds: float = 0.0) -> str:
        await anyio.sleep(seconds)
        return "done"

    async def parent() -> str:
        await anyio.sleep(1)
        await client.run_tool_calls([request("scarce")])
        return "done"

    lab.tools.add(timed, name="short")
    lab.tools.add(timed, name="scarce", max_concurrency=1, timeout=2)
    lab.tools.add(parent)
    async with lab.client(max_concurrency=AdaptiveLimit(1, 2, window=1)) as client:
        await client.run_tool_calls([request("short")] * 11)
        assert client.stats().max_concurrency == 2
        async with anyio.create_task_group() as group:
            calls = [request("scarce", seconds=5), request("parent"), request("short")]
            group.start_soon(client.run_tool_calls, calls)
        assert [change.limit for change in client.limit_history()][:3] == [1, 2, 1]
        assert_idle(client)
