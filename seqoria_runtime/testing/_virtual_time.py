"""Virtual time on both backends: tests of hours run in milliseconds, and read the same clock.

Knows the two backends' clocks only by what they share; `_virtual_loop` and `_virtual_clock` own them.
"""

import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, TypeVarTuple, Unpack

import anyio
from anyio.lowlevel import current_token

from seqoria_runtime._execution.calls.threads import run_in_thread

from ._clock.deadlock_watch import Backend, current_keeper, fail_on_deadlock, require_trio
from ._clock.virtual_loop import VirtualLoop
from ._clock.worker_threads import abandoned_threads
from ._schedules.schedule import Schedule

__all__ = [
    "Backend",
    "current_keeper",
    "fail_on_deadlock",
    "run_on_both",
    "run_virtual",
    "virtual_backend",
    "wait_for_abandoned_threads",
]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def run_virtual(
    async_fn: Callable[[Unpack[Ts]], Awaitable[T]],
    *args: *Ts,
    backend: Backend = "asyncio",
    schedule: Schedule | None = None,
) -> T:
    """Run `async_fn(*args)` in an event loop of its own, in virtual time that starts at 0.0.

    Time stands still while anything can run and then jumps to the next deadline. It stands still,
    too, for worker threads that somebody waits for: those of the runtime, of `anyio.to_thread`
    with its default limiter, and of asyncio's executors; a runtime's thread that itself waits for
    work in the loop does not hold it. Threads with a limiter of their own are not seen, and real
    I/O is not waited for. With a `schedule`, the tasks go in its order (see `explore`).

    Raises what `async_fn` raises, and `VirtualTimeDeadlock` where it would wait for ever; its tasks
    are cancelled first.
    """
    name, options = virtual_backend(backend, schedule=schedule)
    return anyio.run(fail_on_deadlock(async_fn), *args, backend=name, backend_options=options)


def run_on_both(async_fn: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts) -> tuple[T, T]:
    """`run_virtual` on asyncio, then on trio; both results. Made for Hypothesis properties."""
    return run_virtual(async_fn, *args, backend="asyncio"), run_virtual(async_fn, *args, backend="trio")


def virtual_backend(backend: Backend, *, schedule: Schedule | None = None) -> tuple[str, dict[str, Any]]:
    """A backend in virtual time, as `anyio.run` and the `anyio_backend` fixture take it.

    Make a new one for each test: the pair holds trio's clock, and how far the `schedule` has come.
    A test that may deadlock needs `fail_on_deadlock` as well. Raises `ScheduleUnavailable` where a
    schedule is given and cannot be kept.
    """
    if schedule is not None:
        from ._schedules.backends import scheduled_backend

        return scheduled_backend(backend, schedule)
    if backend == "asyncio":
        return "asyncio", {"loop_factory": VirtualLoop}
    if backend == "trio":
        require_trio()
        from ._clock.virtual_clock import ClockKeeper

        keeper = ClockKeeper()
        return "trio", {"clock": keeper.clock, "instruments": [keeper]}
    raise ValueError(f"'backend' must be 'asyncio' or 'trio', not {backend!r}")


async def wait_for_abandoned_threads() -> None:
    """Wait until every worker thread that the runtime abandoned in this event loop has ended.

    Such threads do not hold virtual time back, so a test that wants to see what their end brings
    waits for it here; virtual time stands still meanwhile.
    """
    token = current_token().native_token
    while abandoned_threads(token):
        await run_in_thread(_nap)


def _nap() -> None:
    threading.Event().wait(0.001)
