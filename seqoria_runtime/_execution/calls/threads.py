"""Runs functions in worker threads, and reports when each has really ended.

There is no limit here: the calls that need threads have places for them.
"""

import math
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar, current_token

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_limiter: RunVar[CapacityLimiter] = RunVar("seqoria_runtime_threads")


@dataclass(frozen=True, slots=True)
class Returned(Generic[T_co]):
    """The function returned this value."""

    value: T_co


@dataclass(frozen=True, slots=True)
class Raised:
    """The function raised this exception, of any kind."""

    error: BaseException


ThreadOutcome: TypeAlias = Returned[T] | Raised


class ThreadCall(Generic[T]):
    """One run of `function` in a worker thread, which goes on when its waiter is cancelled.

    `on_exit` is called once, in the event loop's thread and with the caller's context variables,
    when `function` has really ended, or when it is certain that it will never start. It must not
    raise. If the loop ends first, it is not called.
    """

    def __init__(self, function: Callable[[], T], *, on_exit: Callable[[], None] | None = None) -> None:
        self._function = function
        self._on_exit = on_exit
        self._report_exit: Callable[[], object] | None = None
        # Decides whether the function starts: the thread takes it first, or a waiter that gives up does.
        self._claim = threading.Lock()
        self._used = False
        self._outcome: ThreadOutcome[T] | None = None
        self.started = False
        """Whether the function has started."""
        self.finished = False
        """Whether the function has started and ended."""
        self.abandoned = False
        """Whether the waiter was cancelled, or has its outcome already."""
        self.exited = False
        """Whether the event loop knows that the function has ended or will never start."""

    @property
    def outcome(self) -> ThreadOutcome[T] | None:
        """What the function returned or raised, if it has ended and `run` was cancelled; otherwise `None`."""
        return self._outcome

    async def run(self) -> T:
        """Return the function's value, or raise what it raised. Call this once.

        The function sees the caller's context variables. A `StopIteration` arrives as `RuntimeError`. A
        cancelled caller stops waiting at once: a function that has not started never will, one that
        runs goes on, and one that has ended leaves its `outcome` here.
        """
        if self._used:
            raise RuntimeError("a ThreadCall runs only once")
        self._used = True
        native: Any = current_token().native_token
        # anyio's own way to call into the loop waits for an answer, forever if the loop ends meanwhile.
        post = getattr(native, "call_soon_threadsafe", None) or native.run_sync_soon
        self._report_exit = partial(post, context_for_callbacks(native).run, self._exit)
        if watch is not None:
            self._function = watch(self, self._function)
        try:
            await to_thread.run_sync(self._work, abandon_on_cancel=True, limiter=_no_limit())
        finally:
            self.abandoned = True
            if self._claim.acquire(blocking=False) or self.finished:
                self._exit()
        outcome, self._outcome = self._outcome, None
        if isinstance(outcome, Returned):
            return outcome.value
        assert outcome is not None
        try:
            raise outcome.error
        finally:
            del outcome  # the error's traceback holds this frame, and the frame must not hold the error

    def _work(self) -> None:
        if not self._claim.acquire(blocking=False):
            return
        self.started = True
        self._outcome = _outcome_of(self._function)
        self.finished = True
        # An ended thread must not keep its event loop alive.
        report_exit, self._report_exit = self._report_exit, None
        if self.abandoned and report_exit is not None:
            # Both backends raise a RuntimeError if the loop is gone, and then nothing is left to notify.
            with suppress(RuntimeError):
                report_exit()

    def _exit(self) -> None:
        # The thread may end just as its waiter gives up. Then both report it, here in the loop.
        if not self.exited:
            self.exited = True
            if self._on_exit is not None:
                self._on_exit()


watch: Callable[[ThreadCall[Any], Callable[[], Any]], Callable[[], Any]] | None = None
"""Sees each call in its event loop before its thread starts, and returns the function to run instead."""


async def run_in_thread(function: Callable[[], T], *, on_exit: Callable[[], None] | None = None) -> T:
    """Run `function` in a worker thread; see `ThreadCall` (a cancelled caller stops waiting at once)."""
    return await ThreadCall(function, on_exit=on_exit).run()


def _no_limit() -> CapacityLimiter:
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = CapacityLimiter(math.inf)
        _limiter.set(limiter)
    return limiter


def context_for_callbacks(native_token: object) -> Context:
    """Return a copy of the caller's context in which anyio knows the event loop outside of tasks too."""
    context = copy_context()
    sniffio = sys.modules.get("sniffio")
    if sniffio is not None and hasattr(native_token, "call_soon_threadsafe"):
        # Under anyio.run it is set already. Under asyncio.run anyio asks asyncio for the current task, and a
        # callback of the loop has none.
        context.run(sniffio.current_async_library_cvar.set, "asyncio")
    return context


def _outcome_of(function: Callable[[], T]) -> ThreadOutcome[T]:
    try:
        return Returned(function())
    except StopIteration as error:
        refused = RuntimeError("the function raised StopIteration")
        refused.__cause__ = error
        return Raised(refused)
    except BaseException as error:  # noqa: BLE001 - it is for the waiter, not for this thread
        return Raised(error)
