"""Virtual time on trio: its mock clock, held while threads work and watched for a deadlock."""

import math
import time
from collections.abc import Iterator
from typing import Any
from weakref import WeakValueDictionary

import trio
import trio.testing

from .deadlock import OnDeadlock, describe, grace
from .worker_threads import WorkerThread, busy_threads, current_thread

_NAP = 0.001


class VirtualClock(trio.abc.Instrument):
    """Runs one loop's clock: it starts at 0.0, and moves only when every task waits for a deadline.

    `on_deadlock` is called with a report when nothing can wake the loop any more. While it is `None`,
    the loop waits forever.
    """

    def __init__(self) -> None:
        self.clock = trio.testing.MockClock(autojump_threshold=0)
        self.on_deadlock: OnDeadlock | None = None
        self._held = False
        self._stepped = False
        self._idle_since: float | None = None
        self._from_threads: dict[trio.lowlevel.Task, WorkerThread] = {}
        _clocks[self.clock] = self

    def before_run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._limiter = trio.to_thread.current_default_thread_limiter()

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        thread = task.context.get(current_thread)
        if thread is not None:
            # Only a worker thread's `from_thread.run` brings this variable along; the tasks below must
            # not inherit it.
            task.context.run(current_thread.set, None)
            thread.in_loop = True
            self._from_threads[task] = thread

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        thread = self._from_threads.pop(task, None)
        if thread is not None:
            thread.in_loop = False

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._stepped = True
        # Tasks start and reap threads, so this sees each change before trio next waits.
        held = bool(busy_threads(self._token) or self._limiter.borrowed_tokens)
        if held is not self._held:
            self._held = held
            self.clock.autojump_threshold = math.inf if held else 0

    def before_io_wait(self, timeout: float) -> None:
        if self._stepped or self._held or self.on_deadlock is None or not _nothing_to_do():
            self._stepped = False
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = time.monotonic()
        elif time.monotonic() < self._idle_since + grace():
            time.sleep(_NAP)
        else:
            report, self.on_deadlock = self.on_deadlock, None
            tasks = [(task.name, task.coro) for task in tasks_below(trio.lowlevel.current_root_task())]
            self._token.run_sync_soon(report, describe(tasks))


_clocks: WeakValueDictionary[trio.abc.Clock, VirtualClock] = WeakValueDictionary()


def current_clock() -> VirtualClock | None:
    """Return the virtual clock of the running trio loop, or `None` in real time."""
    # Looked up rather than searched for: loops in other threads add their clocks meanwhile.
    return _clocks.get(trio.lowlevel.current_clock())


def _nothing_to_do() -> bool:
    statistics = trio.lowlevel.current_statistics()
    return (
        statistics.seconds_to_next_deadline == math.inf
        and not statistics.tasks_runnable
        and not statistics.run_sync_soon_queue_size
    )


def tasks_below(task: trio.lowlevel.Task | None) -> Iterator[Any]:
    """Yield the tasks below `task`, without trio's own."""
    for nursery in task.child_nurseries if task else ():
        for child in nursery.child_tasks:
            if not child.name.startswith("<"):  # trio's own
                yield child
            yield from tasks_below(child)
