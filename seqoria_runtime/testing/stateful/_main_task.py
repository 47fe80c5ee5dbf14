"""Owns the main task of an event loop that runs only while this has a job, and stands still in between.

Knows nothing of the loop; `_asyncio_pump` and `_trio_pump` own the two kinds.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from anyio import CancelScope, Event

from seqoria_runtime.testing._clock.deadlock import VirtualTimeDeadlock
from seqoria_runtime.testing._clock.deadlock_watch import current_keeper

Job: TypeAlias = Callable[[], Awaitable[Any]]


class MainTask:
    """What the main task does: one job after another, until it is told to end."""

    def __init__(self) -> None:
        self._job: Job | None = None
        self._wake: Event | None = None
        self._result: Any = None
        self._error: BaseException | None = None
        self._scope: CancelScope | None = None
        self._deadlock: str | None = None
        self.waits = False
        """Whether it has nothing to do, and the loop can stand still."""

    def give(self, job: Job | None) -> None:
        """Have it do a job, or end if there is none; called while the loop stands still."""
        assert self._wake is not None
        self._job = job
        self.waits = False
        self._wake.set()

    def take(self) -> Any:
        """What the last job gave, or raised."""
        result, error = self._result, self._error
        self._result = self._error = None
        if error is None:
            return result
        try:
            raise error
        finally:
            del error  # its traceback holds this frame

    async def serve(self, on_waiting: Callable[[], None] = lambda: None) -> None:
        """Be the main task; `on_waiting` is called each time at which it has nothing to do."""
        # One scope around all jobs: what a job enters another one may leave.
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
        keeper = current_keeper()
        assert keeper is not None
        keeper.on_deadlock = self._stop
        try:
            self._result = await job()
        except BaseException as exc:  # noqa: BLE001 - it is raised where the job came from
            self._error = exc
        finally:
            keeper.on_deadlock = None
        if self._deadlock is not None:
            error = VirtualTimeDeadlock(self._deadlock)
            error.__cause__ = self._error if isinstance(self._error, Exception) else None
            self._error = error

    def _stop(self, report: str) -> None:
        self._deadlock = report
        assert self._scope is not None
        self._scope.cancel("deadlock in virtual time")
