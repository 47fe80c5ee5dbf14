"""Owns trio's side of schedules: which of its ready tasks goes next, through its private switch for that.

trio asks a random number generator of its own for the order of each batch of ready tasks. This one
lets one task go at a time and puts the others back.
"""

import threading
import time
from collections.abc import Iterable
from typing import Any

import trio
from trio._core import _run

from seqoria_runtime.testing._clock.deadlock import SPINNING, describe
from seqoria_runtime.testing._clock.virtual_clock import ClockKeeper, tasks_below

from .task_order import Conductor
from .thread_watch import ThreadWatch

OLDEST = (0, 26)
_CALLS_INTO_LOOP = "<TrioToken.run_sync_soon task>"
_NAP = 0.0001


class ScheduleKeeper(trio.abc.Instrument):
    """Orders the tasks of one run; an instrument of it, beside the `ClockKeeper` of the same run."""

    def __init__(self, conductor: Conductor, clock: ClockKeeper) -> None:
        self.conductor = conductor
        self._clock = clock
        self._watch = ThreadWatch(foreign=self._foreign, waits=self.conductor.waits)
        self._last: int | None = None

    def before_run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._limiter = trio.to_thread.current_default_thread_limiter()
        self._watch.begin(self._token)
        _switch.turn_on(self._token, self)

    def after_run(self) -> None:
        _switch.turn_off(self._token)

    def before_io_wait(self, timeout: float) -> None:
        if self._last is not None:
            self._watch.stepped(self._last)
            self._last = None
        runnable = _run.GLOBAL_RUN_CONTEXT.runner.runq
        self._arrive(runnable)
        if not runnable:
            self.conductor.idle()
        while self._watch.unsettled and (runnable or self._watch.abandoned):
            if trio.lowlevel.current_statistics().run_sync_soon_queue_size:
                # It returns only when the thread's own call is through, and keeps the clock where it is.
                self._token.run_sync_soon(_nothing, idempotent=True)
                return
            if self._watch.patience < 0:
                self._watch.give_up()
            time.sleep(_NAP)

    def shuffle(self, batch: list[trio.lowlevel.Task]) -> None:
        """Leave only the task that goes next in trio's batch of ready tasks."""
        runnable = _run.GLOBAL_RUN_CONTEXT.runner.runq
        self._arrive(batch)
        calls_into_loop = [task for task in batch if task.name == _CALLS_INTO_LOOP]
        if calls_into_loop:
            # When they come depends on threads: neither a choice nor a point.
            batch[:] = calls_into_loop
        elif batch:
            self.conductor.point(self._clock.clock.current_time())
            self._arrive(runnable)
            batch[:] = [self._next()]
        runnable.clear()
        runnable.extend(self.conductor.items)

    def _next(self) -> trio.lowlevel.Task:
        self._watch.stepping()
        self._last, task = self.conductor.go()
        self.conductor.course.loose = self._watch.loose
        if self.conductor.spinning and self._clock.on_deadlock is not None:
            tell, self._clock.on_deadlock = self._clock.on_deadlock, None
            below = tasks_below(trio.lowlevel.current_root_task())
            tell(describe(((task.name, task.coro) for task in below), SPINNING))
        return task  # type: ignore[no-any-return]

    def _arrive(self, tasks: Iterable[trio.lowlevel.Task]) -> None:
        self.conductor.arrive((task, task) for task in tasks if task.name != _CALLS_INTO_LOOP)

    def _foreign(self) -> int:
        return self._limiter.borrowed_tokens


class _Switch:
    """Trio's two private names, as long as any scheduled run needs them changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keepers: dict[trio.lowlevel.TrioToken, ScheduleKeeper] = {}
        self._random: Any = None
        self._was_on = False

    def turn_on(self, token: trio.lowlevel.TrioToken, keeper: ScheduleKeeper) -> None:
        with self._lock:
            if not self._keepers:
                self._random, self._was_on = _run._r, _run._ALLOW_DETERMINISTIC_SCHEDULING  # noqa: SLF001
                vars(_run).update(_r=self, _ALLOW_DETERMINISTIC_SCHEDULING=True)
            self._keepers[token] = keeper

    def turn_off(self, token: trio.lowlevel.TrioToken) -> None:
        with self._lock:
            del self._keepers[token]
            if not self._keepers:
                vars(_run).update(_r=self._random, _ALLOW_DETERMINISTIC_SCHEDULING=self._was_on)

    def shuffle(self, batch: list[trio.lowlevel.Task]) -> None:
        keeper = self._keepers.get(trio.lowlevel.current_trio_token())
        if keeper is None:
            self._random.shuffle(batch)
        else:
            keeper.shuffle(batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._random, name)


_switch = _Switch()


def missing_parts() -> str | None:
    """What this version of trio lacks for schedules, or `None` where it has all of it."""
    version = tuple(int(part) for part in trio.__version__.split(".")[:2])
    if version < OLDEST:
        return f"trio {trio.__version__} is older than {'.'.join(map(str, OLDEST))}"
    names = ("_r", "_ALLOW_DETERMINISTIC_SCHEDULING", "GLOBAL_RUN_CONTEXT")
    absent = [name for name in names if not hasattr(_run, name)]
    return f"trio {trio.__version__} has no {', '.join(absent)}" if absent else None


def label(task: object) -> str:
    """The name of a task, for reports."""
    assert isinstance(task, trio.lowlevel.Task)
    return task.name.removeprefix(".")


def _nothing() -> None:
    pass
