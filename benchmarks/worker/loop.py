"""Use one event loop natively, so that the harness adds little to a contestant's cost.

A `Job` is work in the background; cancel it or wait for it.
"""

import asyncio
import importlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypeAlias

Run: TypeAlias = Callable[[], Awaitable[int]]


class Job(Protocol):
    def cancel(self) -> None: ...

    async def ended(self) -> None:
        """Wait until the work has ended, cancelled or not. Raise its failure."""


class Loop(Protocol):
    async def sleep(self, seconds: float) -> None: ...

    async def together(self, runs: Sequence[Callable[[], Awaitable[Any]]]) -> None:
        """Run all at the same time, each in a separate task."""

    def background(self, run: Run) -> AbstractAsyncContextManager[Job]: ...


class _AsyncioJob:
    def __init__(self, task: "asyncio.Future[int]") -> None:
        self._task = task

    def cancel(self) -> None:
        self._task.cancel()

    async def ended(self) -> None:
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()


class AsyncioLoop:
    """asyncio with its own loop or uvloop."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def together(self, runs: Sequence[Callable[[], Awaitable[Any]]]) -> None:
        await asyncio.gather(*[run() for run in runs])

    @asynccontextmanager
    async def background(self, run: Run) -> AsyncGenerator[Job]:
        task = asyncio.ensure_future(run())
        try:
            yield _AsyncioJob(task)
        finally:
            task.cancel()
            await asyncio.wait([task])


class _TrioJob:
    def __init__(self, trio: Any) -> None:
        self.scope = trio.CancelScope()
        self.over = trio.Event()

    def cancel(self) -> None:
        self.scope.cancel()

    async def ended(self) -> None:
        await self.over.wait()


class TrioLoop:
    def __init__(self) -> None:
        self._trio: Any = importlib.import_module("trio")

    async def sleep(self, seconds: float) -> None:
        await self._trio.sleep(seconds)

    async def together(self, runs: Sequence[Callable[[], Awaitable[Any]]]) -> None:
        async with self._trio.open_nursery() as nursery:
            for run in runs:
                nursery.start_soon(run)

    @asynccontextmanager
    async def background(self, run: Run) -> AsyncGenerator[Job]:
        job = _TrioJob(self._trio)

        async def scoped() -> None:
            with job.scope:
                await run()
            job.over.set()

        async with self._trio.open_nursery() as nursery:
            nursery.start_soon(scoped)
            try:
                yield job
            finally:
                job.cancel()


def loop_of(backend: str) -> Loop:
    return TrioLoop() if backend == "trio" else AsyncioLoop()
