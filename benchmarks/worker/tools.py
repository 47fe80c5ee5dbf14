"""The tools that every contestant offers, and a record of their started and running calls.

All take two integers. `hold` waits until `release` is set. A `nap` overtakes a
`single` that waits from before its start until after its end.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio

from .loop import AsyncioLoop, Loop

NAP = 0.005
Function: TypeAlias = Callable[[int, int], Awaitable[int]]


@dataclass
class Record:
    loop: Loop = field(default_factory=AsyncioLoop)
    begun: int = 0
    running: int = 0
    single_waits: bool = False
    overtook: int = 0
    release: anyio.Event | None = None

    def reset(self) -> None:
        self.begun = self.running = self.overtook = 0
        self.single_waits = False
        self.release = anyio.Event()


record = Record()


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def add_later(a: int, b: int) -> int:
    """Add two numbers after one turn of the event loop."""
    await record.loop.sleep(0)
    return a + b


async def nap(a: int, b: int) -> int:
    """Add two numbers after a few milliseconds."""
    record.begun += 1
    behind = record.single_waits
    await record.loop.sleep(NAP)
    record.overtook += behind and record.single_waits
    return a + b


async def single(a: int, b: int) -> int:
    """Add two numbers, once it has its turn."""
    record.single_waits = False
    await record.loop.sleep(NAP)
    return a + b


async def hold(a: int, b: int) -> int:
    """Add two numbers once they are released."""
    assert record.release is not None
    record.begun += 1
    record.running += 1
    try:
        await record.release.wait()
    finally:
        record.running -= 1
    return a + b


def step(seconds: float) -> Function:
    """Return the function of a DAG's node, which takes `seconds`."""

    async def take_time(a: int, b: int) -> int:
        """Add two numbers after some time."""
        if seconds:
            await record.loop.sleep(seconds)
        return a + b

    return take_time


TOOLS: dict[str, Function] = {function.__name__: function for function in (add, add_later, nap, single, hold)}
