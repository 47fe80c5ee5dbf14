"""What admission costs: steps that grow with the calls, not with their square, and no memory in the end."""

import gc
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import pytest

from seqoria_runtime._execution.places import places
from seqoria_runtime._execution.places.pool import Ticket
from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.testing import Backend, run_virtual
from tests.support.batches import Lab, assert_idle, request

FOLDER = str(Path(places.__file__).parent)


class Steps:
    """Counts the calls of functions of the places while it is entered."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> "Steps":
        sys.setprofile(self.note)
        return self

    def __exit__(self, *failure: object) -> None:
        sys.setprofile(None)

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        self.count += event in {"call", "c_call"} and frame.f_code.co_filename.startswith(FOLDER)


class Costly(Lab):
    own: AsyncAIClient

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.add("work")
        self.tools.add(self.scarce, max_concurrency=2)
        self.tools.add(self.half, max_concurrency=size // 4)
        self.tools.add(self.one_nested)
        self.tools.add(self.many_nested)
        self.tools.add(self.deep)

    async def scarce(self) -> None:
        pass

    async def half(self) -> None:
        pass

    async def one_nested(self, name: str) -> None:
        await self.own.run_tool_calls([request(name)])

    async def many_nested(self, name: str) -> None:
        for _ in range(self.size):
            await self.own.run_tool_calls([request(name)])

    async def deep(self, depth: int) -> None:
        if depth:
            await self.own.run_tool_calls([request("deep", depth=depth - 1)])

    async def measure(self, load: Callable[["Costly"], Awaitable[Any]], limit: int) -> int:
        async with self.client(max_concurrency=limit) as self.own:
            with Steps() as steps:
                await load(self)
            assert_idle(self.own)
        return steps.count


async def capped(lab: Costly) -> None:
    await lab.own.run_tool_calls([request("half") for _ in range(lab.size)])


async def one_after_the_other(lab: Costly) -> None:
    await lab.own.run_tool_calls([request("many_nested", name="work")])


async def one_after_the_other_under_a_cap(lab: Costly) -> None:
    await lab.own.run_tool_calls([request("many_nested", name="scarce")])


async def each_with_a_nested_one(lab: Costly) -> None:
    await lab.own.run_tool_calls([request("one_nested", name="work") for _ in range(lab.size)])


async def each_with_a_nested_one_under_a_cap(lab: Costly) -> None:
    await lab.own.run_tool_calls([request("one_nested", name="scarce") for _ in range(lab.size)])


async def in_each_other(lab: Costly) -> None:
    await lab.own.run_tool_calls([request("deep", depth=lab.size)])


@pytest.mark.clause("C43", "C49")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("limit", [1, 16, 1000])
@pytest.mark.parametrize(
    ("load", "size"),
    [
        (capped, 200),
        (one_after_the_other, 100),
        (one_after_the_other_under_a_cap, 100),
        (each_with_a_nested_one, 100),
        (each_with_a_nested_one_under_a_cap, 100),
        (in_each_other, 50),
    ],
)
def test_twice_as_many_calls_need_about_twice_as_many_steps(
    load: Callable[[Costly], Awaitable[Any]], size: int, limit: int, backend: Backend
) -> None:
    few, many = (
        run_virtual(Costly(calls).measure, load, limit, backend=backend) for calls in (size, 2 * size)
    )
    assert few > size
    assert many < 2.5 * few


def tickets() -> int:
    """How many batches the places remember."""
    gc.collect()
    return sum(type(found) is Ticket for found in gc.get_objects())


@pytest.mark.clause("C49")
@pytest.mark.parametrize("limit", [1, 2, 16])
async def test_nested_batches_that_have_ended_are_forgotten(limit: int) -> None:
    lab, before = Costly(100), tickets()
    async with lab.client(max_concurrency=limit) as lab.own:
        await lab.own.run_tool_calls([request("many_nested", name="scarce") for _ in range(3)])
        assert tickets() <= before


@pytest.mark.clause("C43", "C49")
@pytest.mark.parametrize("name", ["busy", "nests"])
@pytest.mark.parametrize("limit", [1, 1000])
async def test_batches_that_gave_up_behind_one_that_waits_are_forgotten(name: str, limit: int) -> None:
    lab, before = Lab(), tickets()

    @lab.tools.tool(max_concurrency=1)
    async def busy() -> None:
        await anyio.sleep_forever()

    @lab.tools.tool()
    async def nests() -> None:
        await client.run_tool_calls([request("busy")])

    async with lab.client(max_concurrency=limit) as client, anyio.create_task_group() as group:
        for waiting in ("busy", "busy", "nests"):
            group.start_soon(client.run_tool_calls, [request(waiting)])
            await anyio.sleep(1)
        for _ in range(300):
            with anyio.move_on_after(0.1):
                await client.run_tool_calls([request(name)])
        assert tickets() < before + 150
        group.cancel_scope.cancel()
    assert tickets() <= before
