"""Runs functions in virtual time: tests of hours take milliseconds, on both backends alike."""

import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, TypeVarTuple, Unpack

import anyio
from anyio.lowlevel import current_token

from seqoria_runtime._execution.calls.threads import run_in_thread

from ._clock.deadlock_watch import Backend, fail_on_deadlock, require_trio
from ._clock.virtual_loop import VirtualLoop
from ._clock.worker_threads import abandoned_threads
from ._schedules.backends import scheduled_backend
from ._schedules.schedule import Schedule

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def run_virtual(
    async_fn: Callable[[Unpack[Ts]], Awaitable[T]],
    *args: *Ts,
    backend: Backend = "asyncio",
    schedule: Schedule | None = None,
) -> T:
    """Run `async_fn(*args)` in a new event loop, in virtual time that starts at 0.0.

    Time stands still while anything can run, and then jumps to the next deadline. It also stands
    still for worker threads that a task waits for: those of the runtime, of `anyio.to_thread` with
    its default limiter, and of asyncio's executors; but not for a runtime's thread that itself waits
    for work in the loop. Threads under another limiter and real I/O do not hold it. A `schedule`
    orders the tasks (see `explore`).

    Raises what `async_fn` raises, and `VirtualTimeDeadlock` where it would wait forever, after
    cancelling its tasks.
    """
    name, options = virtual_backend(backend, schedule=schedule)
    return anyio.run(fail_on_deadlock(async_fn), *args, backend=name, backend_options=options)


def run_on_both(async_fn: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts) -> tuple[T, T]:
    """Call `run_virtual` on asyncio, then on trio, and return both results. For Hypothesis properties."""
    return run_virtual(async_fn, *args, backend="asyncio"), run_virtual(async_fn, *args, backend="trio")


def virtual_backend(backend: Backend, *, schedule: Schedule | None = None) -> tuple[str, dict[str, Any]]:
    """Return a backend in virtual time, as `anyio.run` and the `anyio_backend` fixture take it.

    Make a new one for each test: it holds trio's clock and the state of the `schedule`. A test that
    may deadlock also needs `fail_on_deadlock`. Raises `ScheduleUnavailable` for a schedule that
    cannot be followed here.
    """
    if schedule is not None:
        return scheduled_backend(backend, schedule)
    if backend == "asyncio":
        return "asyncio", {"loop_factory": VirtualLoop}
    if backend == "trio":
        require_trio()
        from ._clock.virtual_clock import VirtualClock

        clock = VirtualClock()
        return "trio", {"clock": clock.clock, "instruments": [clock]}
    raise ValueError(f"'backend' must be 'asyncio' or 'trio', not {backend!r}")


async def wait_for_abandoned_threads() -> None:
    """Wait until every worker thread that the runtime abandoned in this event loop has ended.

    Such threads do not hold virtual time. Use this in a test that looks at what their end brings;
    virtual time stands still meanwhile. A cancelled caller stops waiting, and the threads go on.
    """
    token = current_token().native_token
    while abandoned_threads(token):
        await run_in_thread(_nap)


def _nap() -> None:
    threading.Event().wait(0.001)
