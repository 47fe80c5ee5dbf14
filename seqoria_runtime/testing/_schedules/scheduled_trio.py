"""Schedules on trio, through its private switch for deterministic scheduling.

trio shuffles each batch of ready tasks with a random number generator. The one here lets a single task
go at a time and puts the others back.
"""

import threading
import time
from collections.abc import Iterable
from typing import Any

import trio
from trio._core import _run

from seqoria_runtime.testing._clock.deadlock import SPINNING, describe
from seqoria_runtime.testing._clock.virtual_clock import VirtualClock, tasks_below

from .task_order import TaskOrder
from .thread_watch import ThreadWatch

OLDEST = (0, 26)
_CALLS_INTO_LOOP = "<TrioToken.run_sync_soon task>"
_NAP = 0.0001


class ScheduleInstrument(trio.abc.Instrument):
    """Orders the tasks of one run, next to the `VirtualClock` of that run."""

    def __init__(self, order: TaskOrder, clock: VirtualClock) -> None:
        self.order = order
        self._clock = clock
        self._watch = ThreadWatch(foreign=self._foreign, is_ready=self.order.is_ready)
        self._last: int | None = None

    def before_run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._limiter = trio.to_thread.current_default_thread_limiter()
        self._watch.start(self._token)
        _switch.turn_on(self._token, self)

    def after_run(self) -> None:
        _switch.turn_off(self._token)

    def before_io_wait(self, timeout: float) -> None:
        if self._last is not None:
            self._watch.after_step(self._last)
            self._last = None
        runnable = _run.GLOBAL_RUN_CONTEXT.runner.runq
        self._add(runnable)
        if not runnable:
            self.order.idle()
        while self._watch.unsettled and (runnable or self._watch.abandoned):
            if trio.lowlevel.current_statistics().run_sync_soon_queue_size:
                # This wakes trio once the thread's own call is through, and keeps the clock where it is.
                self._token.run_sync_soon(_nothing, idempotent=True)
                return
            if self._watch.patience < 0:
                self._watch.give_up()
            time.sleep(_NAP)

    def shuffle(self, batch: list[trio.lowlevel.Task]) -> None:
        """Leave only the task that goes next in trio's batch of ready tasks."""
        runnable = _run.GLOBAL_RUN_CONTEXT.runner.runq
        self._add(batch)
        calls_into_loop = [task for task in batch if task.name == _CALLS_INTO_LOOP]
        if calls_into_loop:
            # When they come depends on threads, so they are not part of the order.
            batch[:] = calls_into_loop
        elif batch:
            self.order.before_step(self._clock.clock.current_time())
            self._add(runnable)
            batch[:] = [self._next()]
        runnable.clear()
        runnable.extend(self.order.items)

    def _next(self) -> trio.lowlevel.Task:
        self._watch.before_step()
        self._last, task = self.order.next()
        self.order.log.loose = self._watch.loose
        if self.order.spinning and self._clock.on_deadlock is not None:
            on_deadlock, self._clock.on_deadlock = self._clock.on_deadlock, None
            below = tasks_below(trio.lowlevel.current_root_task())
            on_deadlock(describe(((task.name, task.coro) for task in below), SPINNING))
        return task  # type: ignore[no-any-return]

    def _add(self, tasks: Iterable[trio.lowlevel.Task]) -> None:
        self.order.add((task, task) for task in tasks if task.name != _CALLS_INTO_LOOP)

    def _foreign(self) -> int:
        return self._limiter.borrowed_tokens


class _Switch:
    """Replaces two private names of trio while any scheduled run needs them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._instruments: dict[trio.lowlevel.TrioToken, ScheduleInstrument] = {}
        self._random: Any = None
        self._was_on = False

    def turn_on(self, token: trio.lowlevel.TrioToken, instrument: ScheduleInstrument) -> None:
        with self._lock:
            if not self._instruments:
                self._random, self._was_on = _run._r, _run._ALLOW_DETERMINISTIC_SCHEDULING  # noqa: SLF001 - trio has no public way
                vars(_run).update(_r=self, _ALLOW_DETERMINISTIC_SCHEDULING=True)
            self._instruments[token] = instrument

    def turn_off(self, token: trio.lowlevel.TrioToken) -> None:
        with self._lock:
            del self._instruments[token]
            if not self._instruments:
                vars(_run).update(_r=self._random, _ALLOW_DETERMINISTIC_SCHEDULING=self._was_on)

    def shuffle(self, batch: list[trio.lowlevel.Task]) -> None:
        instrument = self._instruments.get(trio.lowlevel.current_trio_token())
        (self._random if instrument is None else instrument).shuffle(batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._random, name)


_switch = _Switch()


def missing_parts() -> str | None:
    """Return what this version of trio lacks for schedules, or `None` if it has everything."""
    version = tuple(int(part) for part in trio.__version__.split(".")[:2])
    if version < OLDEST:
        return f"trio {trio.__version__} is older than {'.'.join(map(str, OLDEST))}"
    names = ("_r", "_ALLOW_DETERMINISTIC_SCHEDULING", "GLOBAL_RUN_CONTEXT")
    absent = [name for name in names if not hasattr(_run, name)]
    return f"trio {trio.__version__} has no {', '.join(absent)}" if absent else None


def label(task: object) -> str:
    """Return the name of a task, for reports."""
    assert isinstance(task, trio.lowlevel.Task)
    return task.name.removeprefix(".")


def _nothing() -> None:
    pass
