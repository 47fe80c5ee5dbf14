"""Owns the choice between the two backends' event loops that stand still between the jobs they are given."""

from typing import Any, Protocol

from seqoria_runtime.testing._clock.deadlock_watch import Backend
from seqoria_runtime.testing._schedules.schedule import Schedule
from seqoria_runtime.testing._virtual_time import virtual_backend

from ._main_task import Job


class Pump(Protocol):
    """An event loop with one main task, in which all jobs run, one after another."""

    def run(self, job: Job) -> Any:
        """Run `job()` in the main task, and the other tasks beside it; give or raise what it does."""

    def close(self) -> None:
        """Let the main task end, and the loop with it."""


def start_pump(backend: Backend, schedule: Schedule | None = None) -> Pump:
    """An event loop in virtual time, whose tasks go in the order of the schedule, if there is one."""
    _, options = virtual_backend(backend, schedule=schedule)
    if backend == "asyncio":
        from ._asyncio_pump import AsyncioPump

        return AsyncioPump(options["loop_factory"])
    from ._trio_pump import TrioPump

    return TrioPump(options)
