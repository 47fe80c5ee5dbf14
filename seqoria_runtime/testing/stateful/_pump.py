"""Owns an event loop that runs only while it is asked to: for one call, and stands still in between."""

import queue
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from anyio import Event

from .._schedule import FixedSchedule, Schedule
from .._scheduled import conducted_backend, schedules_problem
from .._virtual_time import Backend, fail_on_deadlock, virtual_backend

Job = Callable[[], Awaitable[Any]]


class Pump(Protocol):
    """An event loop with one main task, in which all calls run, one after another."""

    def run(self, job: Job) -> Any:
        """Run `job()` in the main task, and the other tasks beside it; give or raise what it does."""

    def close(self) -> None:
        """Let the main task end, and the loop with it."""


class MainTask:
    """What the main task of a pump does: one job after another, until it is told to end."""

    def __init__(self) -> None:
        self._job: Job | None = None
        self._wake = Event()
        self._result: Any = None
        self._error: BaseException | None = None
        self.done = False

    def give(self, job: Job | None) -> None:
        """Have it do a job, or end; called while the loop stands still."""
        self._job = job
        self.done = False
        self._wake.set()

    def take(self) -> Any:
        """What the last job came to."""
        result, error = self._result, self._error
        self._result = self._error = None
        if error is not None:
            try:
                raise error
            finally:
                del error
        return result

    async def serve(self, on_done: Callable[[], None]) -> None:
        """Be the main task; `on_done` is called when a job is done."""
        while True:
            await self._wake.wait()
            self._wake = Event()
            job = self._job
            if job is None:
                return
            try:
                self._result = await fail_on_deadlock(job)()
            except BaseException as exc:  # noqa: BLE001 - it is raised where the job came from
                self._error = exc
            self.done = True
            on_done()


def start_pump(backend: Backend, schedule: Schedule | None) -> Pump:
    """An event loop in virtual time, in the order of a schedule if there is one."""
