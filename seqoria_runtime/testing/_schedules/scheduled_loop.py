"""An asyncio event loop whose ready tasks go in the order of a schedule.

A schedule orders tasks, timers that are due, and calls of finalizers. Other callbacks only carry
something to a task, and run as asyncio runs them: first come, first served.
"""

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVarTuple, Unpack, cast

from seqoria_runtime.testing._clock.deadlock import SPINNING, describe
from seqoria_runtime.testing._clock.virtual_loop import VirtualLoop

from .task_order import TaskOrder
from .thread_watch import ThreadWatch

Ts = TypeVarTuple("Ts")


class ScheduledLoop(VirtualLoop):
    """A `VirtualLoop` that asks a `TaskOrder` which of its ready tasks goes next."""

    def __init__(self, order: TaskOrder) -> None:
        super().__init__()
        self.order = order
        self._queue = _ReadyQueue(self)
        self._ready = self._queue

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        self._check_closed()  # type: ignore[attr-defined]
        own = threading.get_ident() == self._thread_id  # type: ignore[attr-defined]
        handle = (_OwnPost if own else _Post)(callback, args, self, context)
        self._queue.append(handle)
        self._queue.posted.set()
        self._write_to_self()  # type: ignore[attr-defined]
        return handle

    def report_spinning(self) -> None:
        if self.on_deadlock is not None:
            on_deadlock, self.on_deadlock = self.on_deadlock, None
            tasks = ((task.get_name(), task.get_coro()) for task in asyncio.all_tasks(self))
            on_deadlock(describe(tasks, SPINNING))

    def _real_timeout(self) -> float | None:
        self.order.idle()
        if self._queue.wait_for_threads(only_abandoned=True):
            self._out_of_timers = False
            return 0
        return super()._real_timeout()


class _Post(asyncio.Handle):
    """A callback from another thread."""

    __slots__ = ()


class _OwnPost(asyncio.Handle):
    """A callback that the loop's own thread posts as if it were another one, as finalizers must."""

    __slots__ = ()


class _ReadyQueue:
    """What the loop takes its handles from, instead of a deque.

    `append` may be called in any thread. A step is what the loop runs between two calls of `popleft`.
    """

    def __init__(self, loop: ScheduledLoop) -> None:
        self._loop = loop
        self._order = loop.order
        self._watch = ThreadWatch(
            foreign=lambda: loop.foreign_threads if loop.is_running() else 0, is_ready=loop.order.is_ready
        )
        self._watch.start(loop)
        self._inbox: deque[asyncio.Handle] = deque()
        self._callbacks: deque[asyncio.Handle] = deque()
        self._posts: deque[asyncio.Handle] = deque()
        self._first = 0
        self._last: int | None = None
        self._was_callback = False
        self.posted = threading.Event()

    def append(self, handle: asyncio.Handle) -> None:
        self._inbox.append(handle)

    def __len__(self) -> int:
        return len(self._inbox) + len(self._callbacks) + len(self._posts) + len(self._order)

    def clear(self) -> None:
        for handles in (self._inbox, self._callbacks, self._posts):
            handles.clear()

    def popleft(self) -> asyncio.Handle:
        if self._last is not None:
            self._watch.after_step(self._last)
            self._last = None
        self._sort_in()
        if not self._posts and not self._callbacks_first():
            self.wait_for_threads()
        if self._posts:
            self._was_callback = False
            return self._posts.popleft()
        self._order.before_step(self._loop.time())
        self._sort_in()
        if self._first or not len(self._order):
            self._was_callback = True
            self._first -= self._first > 0
            return self._callbacks.popleft()
        return self._next()

    def _callbacks_first(self) -> bool:
        if not self._was_callback:
            # Callbacks that these callbacks add let a task go first, since some poll.
            self._first = len(self._callbacks)
            self._was_callback = True
        return self._first > 0

    def _next(self) -> asyncio.Handle:
        self._was_callback = False
        self._watch.before_step()
        handle: asyncio.Handle
        self._last, handle = self._order.next()
        self._order.log.loose = self._watch.loose
        if self._order.spinning:
            self._loop.report_spinning()
        return handle

    def wait_for_threads(self, *, only_abandoned: bool = False) -> bool:
        """Wait until no thread works, and return false, or until one posts a callback, and return true."""
        while self._watch.unsettled and (not only_abandoned or self._watch.abandoned):
            self.posted.clear()
            self._sort_in()
            if self._posts:
                return True
            if not self.posted.wait(max(self._watch.patience, 0)):
                self._watch.give_up()
        return False

    def _sort_in(self) -> None:
        if self._inbox:
            self._order.add(self._arrivals())

    def _arrivals(self) -> Iterator[tuple[asyncio.Task[Any] | None, asyncio.Handle]]:
        while self._inbox:
            handle = self._inbox.popleft()
            task = task_of(handle)
            if isinstance(handle, _Post):
                self._posts.append(handle)
            elif handle.cancelled():
                self._callbacks.appendleft(handle)
            elif task is not None or isinstance(handle, (asyncio.TimerHandle, _OwnPost)):
                yield task, handle
            else:
                self._callbacks.append(handle)


def task_of(handle: asyncio.Handle) -> asyncio.Task[Any] | None:
    """Return the task whose next step this handle is, if any."""
    task = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]  # noqa: SLF001 - no public way
    return task if isinstance(task, asyncio.Task) else None


def label(handle: object) -> str:
    """Return the name of a task, or of what else is scheduled, for reports."""
    task = task_of(cast("asyncio.Handle", handle))
    if task is not None:
        return task.get_name().removeprefix(".")
    return "a timer" if isinstance(handle, asyncio.TimerHandle) else "a call of a finalizer"
