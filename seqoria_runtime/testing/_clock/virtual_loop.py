"""Virtual time on asyncio: an event loop whose clock jumps to the next timer instead of waiting."""

import asyncio
import contextvars
import math
import selectors
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple, Unpack

import anyio

from .deadlock import OnDeadlock, VirtualTimeDeadlock, describe, grace
from .worker_threads import WorkerThread, busy_threads, current_thread

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_WITHOUT_LIMIT = None


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose `time()` starts at 0.0 and moves only when every task waits for a timer.

    `on_deadlock` is called with a report when nothing can wake the loop any more. While it is `None`,
    the loop raises `VirtualTimeDeadlock`.
    """

    def __init__(self) -> None:
        self.on_deadlock: OnDeadlock | None = None
        self._now = 0.0
        self._in_executors = 0
        self._limiter: anyio.CapacityLimiter | None = None
        self._out_of_timers = False
        super().__init__(_Selector(self._real_timeout, self._nothing_came))
        self._clock_resolution = math.ulp(self._now)

    def time(self) -> float:
        return self._now

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        if when == math.inf:
            # It never fires, so it must not look like a time to jump to.
            return asyncio.TimerHandle(when, callback, args, self, context)
        return super().call_at(when, callback, *args, context=context)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        thread = current_thread.get()
        if thread is None or asyncio.current_task(self) is not None:
            return super().create_task(coro, name=name, context=context)
        # Outside of any task, only a worker thread's `from_thread.run` brings this variable along. What
        # its task starts must not inherit it: a callback may start tasks outside of any task, too.
        context = contextvars.copy_context() if context is None else context
        context.run(current_thread.set, None)
        thread.in_loop = True
        task = super().create_task(coro, name=name, context=context)
        task.add_done_callback(lambda _: _left_loop(thread))
        return task

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], Any], *args: *Ts
    ) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = super().run_in_executor(executor, func, *args)
        self._in_executors += 1
        future.add_done_callback(self._executor_done)
        return future

    def _executor_done(self, _: asyncio.Future[Any]) -> None:
        self._in_executors -= 1

    def _real_timeout(self) -> float | None:
        """Move the clock, if it may move; return the real seconds for the selector to wait."""
        held = self.foreign_threads or busy_threads(self)
        self._out_of_timers = not held and not self._scheduled  # type: ignore[attr-defined]
        if held:
            return _WITHOUT_LIMIT
        if self._out_of_timers:
            return grace()
        # The same sum as in trio's clock, so that both backends read the same times to the last bit.
        self._now += self._scheduled[0].when() - self._now  # type: ignore[attr-defined]
        # asyncio fires what is due within its clock's resolution; this clock has no error to allow for.
        self._clock_resolution = math.ulp(self._now)
        return 0

    @property
    def foreign_threads(self) -> int:
        """The number of busy threads of executors and of anyio's default limiter. Read it in the loop."""
        if self._limiter is None:
            try:
                self._limiter = anyio.to_thread.current_default_thread_limiter()
            except anyio.NoEventLoopError:
                return self._in_executors
        return self._in_executors + self._limiter.borrowed_tokens

    def _nothing_came(self) -> None:
        if not self._out_of_timers:
            return
        report = describe((task.get_name(), task.get_coro()) for task in asyncio.all_tasks(self))
        if self.on_deadlock is None:
            raise VirtualTimeDeadlock(report)
        on_deadlock, self.on_deadlock = self.on_deadlock, None
        self.call_soon(on_deadlock, report)


def _left_loop(thread: WorkerThread) -> None:
    thread.in_loop = False


class _Selector(selectors.DefaultSelector):
    """A selector that asks its loop how long to wait."""

    def __init__(self, real_timeout: Callable[[], float | None], nothing_came: Callable[[], None]) -> None:
        super().__init__()
        self._real_timeout = real_timeout
        self._nothing_came = nothing_came

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        ready = super().select(self._real_timeout())
        if not ready:
            self._nothing_came()
        return ready
