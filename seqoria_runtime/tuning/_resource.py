"""Synthetic resources that saturate at a known capacity, in real and in virtual time."""

import math
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Literal, Protocol, TypeAlias

import anyio

from seqoria_runtime._base import checks as _checks

ResourceModel: TypeAlias = Literal["sharing", "queueing", "thrashing"]

_THRASHING_EXPONENT = 1.5


@dataclass(frozen=True, slots=True)
class ResourceSpec:
    """A resource that serves `capacity` calls at full speed at once.

    Above that, `sharing` slows all down alike (processor sharing), so that throughput stays the same;
    `queueing` lets the others wait, first come first served, as for the connections of a pool; and
    `thrashing` slows all down by their number to the power of 1.5, so that throughput falls.
    """

    model: ResourceModel = "sharing"
    capacity: int = 16

    def __post_init__(self) -> None:
        if self.model not in {"sharing", "queueing", "thrashing"}:
            raise ValueError(f"'model' must be sharing, queueing or thrashing, not {self.model!r}")
        _checks.positive_int("capacity", self.capacity)

    def speed(self, load: int) -> float:
        """Return the speed of a call among `load` calls; 1 is full speed."""
        over = self.capacity / load if load > self.capacity else 1.0
        return over**_THRASHING_EXPONENT if self.model == "thrashing" else over


class Resource(Protocol):
    """Something that calls use."""

    async def use(self, seconds: float) -> None:
        """Do work that takes `seconds` at full speed; a cancelled caller leaves at once."""


class _Queueing:
    def __init__(self, capacity: int) -> None:
        self._places = anyio.Semaphore(capacity)

    async def use(self, seconds: float) -> None:
        async with self._places:
            await anyio.sleep(seconds)


class _Sharing:
    """Runs all calls at the same speed. Each ends when the common progress reaches its amount of work."""

    def __init__(self, speed: Callable[[int], float]) -> None:
        self._speed = speed
        self._load = 0
        self._progress = 0.0
        self._at = anyio.current_time()
        self._ends: list[tuple[float, int, anyio.Event]] = []
        self._numbers = count()
        self._changed = anyio.Event()

    async def use(self, seconds: float) -> None:
        self._advance()
        done = anyio.Event()
        self._load += 1
        heappush(self._ends, (self._progress + seconds, next(self._numbers), done))
        self._changed.set()
        try:
            await done.wait()
        finally:
            if not done.is_set():
                self._advance()
                self._load -= 1
                done.set()
                self._changed.set()

    async def run(self) -> None:
        """Let time pass, until cancelled."""
        while True:
            self._changed = anyio.Event()
            with anyio.move_on_after(self._until_next()):
                await self._changed.wait()
            self._advance()
            self._end_what_is_done()

    def _advance(self) -> None:
        now = anyio.current_time()
        if self._load:
            self._progress += (now - self._at) * self._speed(self._load)
        self._at = now

    @property
    def _reached(self) -> float:
        # A remainder below the resolution of the clock would never pass.
        return self._progress + max(1e-9, 4 * math.ulp(max(self._progress, self._at)))

    def _until_next(self) -> float:
        self._end_what_is_done()
        if not self._ends:
            return math.inf
        return max(0.0, self._ends[0][0] - self._progress) / self._speed(self._load)

    def _end_what_is_done(self) -> None:
        while self._ends and (self._ends[0][2].is_set() or self._ends[0][0] <= self._reached):
            _, _, done = heappop(self._ends)
            if not done.is_set():
                self._load -= 1
                done.set()


@asynccontextmanager
async def open_resource(spec: ResourceSpec) -> AsyncGenerator[Resource, None]:
    """Open a resource. A cancelled caller closes it."""
    if spec.model == "queueing":
        yield _Queueing(spec.capacity)
        return
    resource = _Sharing(spec.speed)
    async with anyio.create_task_group() as group:
        group.start_soon(resource.run)
        try:
            yield resource
        finally:
            group.cancel_scope.cancel("the resource is closed")
