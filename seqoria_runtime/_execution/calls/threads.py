"""Owns the worker threads: starting a function in one, and learning when it has really ended.

Knows nothing of tools or slots, and limits nothing: whoever asks for a thread has counted it.
"""

import math
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import current_token

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Returned(Generic[T_co]):
    """The function ended with this value."""

    value: T_co


@dataclass(frozen=True, slots=True)
class Raised:
    """The function ended with this exception, of any kind."""

    error: BaseException


ThreadOutcome: TypeAlias = Returned[T] | Raised


class ThreadCall(Generic[T]):
    """One run of `function` in a worker thread, which goes on when its waiter is cancelled.

    `on_exit` is called once, in the event loop's thread and with the caller's context variables,
    when `function` has really ended, or when it is certain that it will never begin. It must not
    raise. If the loop ends first, it is not called.
    """

    __slots__ = (
        "_claim",
        "_exited",
        "_finished",
        "_function",
        "_holding",
        "_in_loop",
        "_loop",
        "_on_exit",
        "_outcome",
        "_report_exit",
        "_started",
        "_unwatched",
    )

    def __init__(self, function: Callable[[], T], *, on_exit: Callable[[], None] | None = None) -> None:
        self._function = function
        self._on_exit = on_exit
        self._loop: _Loop | None = None
        self._report_exit: Callable[[], object] | None = None
        # Whoever gets it decides whether the function begins: the thread, or a waiter who gave up.
        self._claim = threading.Lock()
        self._started = False
        self._outcome: ThreadOutcome[T] | None = None
        self._finished = False
        self._holding = False
        self._unwatched = False
        self._in_loop = False
        self._exited = False

    @property
    def started(self) -> bool:
        """Whether the function has begun; after a cancelled `run`, whether it ever will have."""
        return self._started

    @property
    def outcome(self) -> ThreadOutcome[T] | None:
        """What the function ended with, if it has ended and `run` was cancelled; otherwise `None`."""
        return self._outcome

    @property
    def finished(self) -> bool:
        """Whether the function has begun and ended."""
        return self._finished

    @property
    def in_loop(self) -> bool:
        """Whether the worker thread waits for work that it gave to the loop."""
        return self._in_loop

    @property
    def abandoned(self) -> bool:
        """Whether its waiter was cancelled, or has its outcome already."""
        return self._unwatched

    @property
    def function(self) -> Callable[[], T]:
        """The function that it runs."""
        return self._function

    async def run(self) -> T:
        """Wait for the function's value, or raise what it raised; only once.

        The function sees the caller's context variables. A `StopIteration` arrives as
        `RuntimeError`. A cancelled caller stops waiting at once: a function that has not begun
        never will, one that runs goes on unwatched, one that has ended leaves its `outcome` here.
        """
        if self._loop is not None:
            raise RuntimeError("a ThreadCall runs only once")
        native: Any = current_token().native_token
        loop = self._loop = _loop_of(native)
        # anyio's own way to call into the loop waits for the answer, for ever if the loop ends meanwhile.
        post = getattr(native, "call_soon_threadsafe", None) or native.run_sync_soon
        variables = context_for_callbacks(native)
        variables.run(current_call.set, None)  # tasks that are started by its end are not its thread's work
        self._report_exit = partial(post, variables.run, self._exit)
        loop.busy.add(self)
        try:
            await to_thread.run_sync(self._work, abandon_on_cancel=True, limiter=loop.limiter)
        finally:
            self._stop_watching(loop)
        outcome, self._outcome = self._outcome, None
        if isinstance(outcome, Returned):
            return outcome.value
        assert outcome is not None
        try:
            raise outcome.error
        finally:
            del outcome  # the error's traceback holds this frame, and the frame must not hold the error

    def enter_loop(self) -> None:
        """Take note, in the loop's thread, that the worker thread waits for work that it gave to the loop."""
        self._in_loop = True
        if self._loop is not None:
            self._loop.busy.discard(self)

    def leave_loop(self) -> None:
        """Take note, in the loop's thread, that this work has ended and the worker thread goes on."""
        self._in_loop = False
        if self._loop is not None and not self._unwatched:
            self._loop.busy.add(self)

    def hold_time(self) -> None:
        """Have virtual time wait for the function's end from now on, even if nobody else does.

        For a function that has worked in virtual time and is about to end; called in the loop's thread.
        """
        if self._loop is not None and not self._exited:
            self._holding = True
            self._loop.busy.add(self)

    def _stop_watching(self, loop: "_Loop") -> None:
        if not self._holding:
            loop.busy.discard(self)
        self._unwatched = True
        if self._claim.acquire(blocking=False) or self._finished:
            self._exit()
        else:
            loop.abandoned.add(self)

    def _work(self) -> None:
        if not self._claim.acquire(blocking=False):
            return
        current_call.set(self)  # in the copy of the caller's context that belongs to this run
        self._started = True
        self._outcome = _outcome_of(self._function)
        self._finished = True
        # An event loop must not live on for its ended threads.
        report_exit, self._report_exit = self._report_exit, None
        if self._unwatched and report_exit is not None:
            # Both backends raise a RuntimeError where the loop is gone, and its books with it.
            with suppress(RuntimeError):
                report_exit()

    def _exit(self) -> None:
        # The thread and its waiter may each have seen the other gone; both report here, in the loop.
        if self._exited or self._loop is None:
            return
        self._exited = True
        self._loop.busy.discard(self)
        self._loop.abandoned.discard(self)
        if self._on_exit is not None:
            self._on_exit()


async def run_in_thread(function: Callable[[], T], *, on_exit: Callable[[], None] | None = None) -> T:
    """Run `function` in a worker thread; see `ThreadCall`."""
    return await ThreadCall(function, on_exit=on_exit).run()


current_call: ContextVar[ThreadCall[Any] | None] = ContextVar("seqoria_runtime_thread_call")
"""The call whose thread this is, or whose thread gave the work to the loop that this is part of."""


def busy_threads(native_token: object) -> int:
    """How many threads work for a waiter in the loop of this `anyio.lowlevel.current_token().native_token`.

    Virtual time stands still while there are any. Asked in that loop's thread only.
    """
    loop = _loops.get(native_token)
    return 0 if loop is None else len(loop.busy)


def abandoned_threads(native_token: object) -> int:
    """How many threads work on though their waiter in that loop was cancelled; asked as `busy_threads` is."""
    loop = _loops.get(native_token)
    return 0 if loop is None else len(loop.abandoned)


def calls_in_threads(native_token: object) -> tuple[ThreadCall[Any], ...]:
    """The calls in that loop that such threads work for, busy and abandoned ones; asked likewise."""
    loop = _loops.get(native_token)
    return () if loop is None else (*loop.busy, *(loop.abandoned - loop.busy))


class _Loop:
    """What one event loop has to know of its threads."""

    __slots__ = ("abandoned", "busy", "limiter")

    def __init__(self) -> None:
        self.limiter = CapacityLimiter(math.inf)
        self.busy: set[ThreadCall[Any]] = set()
        self.abandoned: set[ThreadCall[Any]] = set()


_loops: WeakKeyDictionary[object, _Loop] = WeakKeyDictionary()


def _loop_of(native_token: object) -> _Loop:
    loop = _loops.get(native_token)
    if loop is None:
        loop = _loops[native_token] = _Loop()
    return loop


def context_for_callbacks(native_token: object) -> Context:
    """A copy of the caller's context in which anyio knows the event loop where no task runs, too."""
    context = copy_context()
    sniffio = sys.modules.get("sniffio")
    if sniffio is not None and hasattr(native_token, "call_soon_threadsafe"):
        # anyio.run has done that; under asyncio.run only tasks are known, and only by asking asyncio.
        context.run(sniffio.current_async_library_cvar.set, "asyncio")
    return context


def _outcome_of(function: Callable[[], T]) -> ThreadOutcome[T]:
    try:
        return Returned(function())
    except StopIteration as error:
        refused = RuntimeError("the function raised StopIteration")
        refused.__cause__ = error
        return Raised(refused)
    except BaseException as error:  # ruff: ignore[blind-except] - the waiter, not this thread, has to see it
        return Raised(error)
