"""An event loop that runs only while its main task has a job, and stands still in between."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from anyio import CancelScope, Event

from seqoria_runtime.testing._clock.deadlock import VirtualTimeDeadlock
from seqoria_runtime.testing._clock.deadlock_watch import current_virtual_clock

Job: TypeAlias = Callable[[], Awaitable[Any]]


class MainTask:
    """What the main task does: one job after another, until it is asked to end."""

    def __init__(self) -> None:
        self._job: Job | None = None
        self._wake: Event | None = None
        self._result: Any = None
        self._error: BaseException | None = None
        self._scope: CancelScope | None = None
        self._deadlock: str | None = None
        self.waits = False
        """Whether it has no job, so that the loop can stand still."""

    def start(self, job: Job | None) -> None:
        """Start a job, or end the task if it is `None`. Call it while the loop stands still."""
        assert self._wake is not None
        self._job = job
        self.waits = False
        self._wake.set()

    def result(self) -> Any:
        """Return or raise what the last job did."""
        result, error = self._result, self._error
        self._result = self._error = None
        if error is None:
            return result
        try:
            raise error
        finally:
            del error  # its traceback holds this frame

    async def serve(self, on_waiting: Callable[[], None] = lambda: None) -> None:
        """Be the main task; calls `on_waiting` whenever it has no job."""
        # One scope around all jobs: one job may leave what another one entered.
        with CancelScope() as scope:
            self._scope = scope
            while True:
                self._wake = Event()
                self.waits = True
                on_waiting()
                with CancelScope(shield=True):  # a job may have left a scope that is cancelled
                    await self._wake.wait()
                if self._job is None:
                    return
                await self._do(self._job)

    async def _do(self, job: Job) -> None:
        clock = current_virtual_clock()
        assert clock is not None
        clock.on_deadlock = self._stop
        try:
            self._result = await job()
        except BaseException as exc:  # noqa: BLE001 - `result` raises it where the job came from
            self._error = exc
        finally:
            clock.on_deadlock = None
        if self._deadlock is not None:
            error = VirtualTimeDeadlock(self._deadlock)
            error.__cause__ = self._error if isinstance(self._error, Exception) else None
            self._error = error

    def _stop(self, report: str) -> None:
        self._deadlock = report
        assert self._scope is not None
        self._scope.cancel("deadlock in virtual time")


class LoopStepper(ABC):
    """An event loop with one main task, in which all jobs run, one after another."""

    def __init__(self) -> None:
        self._main = MainTask()

    def run(self, job: Job) -> Any:
        """Run `job()` in the main task while the other tasks run too; return or raise what it does."""
        self._main.start(job)
        self._step()
        return self._main.result()

    @abstractmethod
    def _step(self) -> None:
        """Run the loop until the main task has no job."""

    @abstractmethod
    def close(self) -> None:
        """End the main task, and close the loop."""
