"""Virtual time on both backends: tests of hours run in milliseconds, and read the same clock.

Knows the two backends' clocks only by what they share; `_virtual_loop` and `_virtual_clock` own them.
"""

import functools
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias, TypeVar, TypeVarTuple, Unpack

import anyio
from anyio.lowlevel import current_token

from seqoria_runtime.execution import threads

from ._deadlock import VirtualTimeDeadlock
from ._schedule import Schedule
from ._virtual_loop import VirtualLoop

if TYPE_CHECKING:
    from ._virtual_clock import ClockKeeper

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Backend: TypeAlias = Literal["asyncio", "trio"]


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
        from ._scheduled import scheduled_backend

        return scheduled_backend(backend, schedule)
    if backend == "asyncio":
        return "asyncio", {"loop_factory": VirtualLoop}
    if backend == "trio":
        from ._virtual_clock import ClockKeeper

        keeper = ClockKeeper()
        return "trio", {"clock": keeper.clock, "instruments": [keeper]}
    raise ValueError(f"'backend' must be 'asyncio' or 'trio', not {backend!r}")


def fail_on_deadlock(async_fn: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Make `async_fn` raise `VirtualTimeDeadlock` where it would wait for ever in virtual time.

    It is cancelled first, and everything in it has ended when the error is raised. In real time
    nothing changes.
    """

    @functools.wraps(async_fn)
    async def watched(*args: P.args, **kwargs: P.kwargs) -> T:
        keeper = current_keeper()
        if keeper is None:
            return await async_fn(*args, **kwargs)
        reports: list[str] = []
        cause: Exception | None = None
        with anyio.CancelScope() as scope:

            def stop(report: str) -> None:
                reports.append(report)
                scope.cancel("deadlock in virtual time")

            keeper.on_deadlock = stop
            try:
                result = await async_fn(*args, **kwargs)
            except Exception as error:
                if not reports:
                    raise
                cause = error
            finally:
                keeper.on_deadlock = None
        if reports:
            raise VirtualTimeDeadlock(reports[0]) from cause
        return result

    return watched


async def wait_for_abandoned_threads() -> None:
    """Wait until every worker thread that the runtime abandoned in this event loop has ended.

    Such threads do not hold virtual time back, so a test that wants to see what their end brings
    waits for it here; virtual time stands still meanwhile.
    """
    token = current_token().native_token
    while threads.abandoned_threads(token):
        await threads.run_in_thread(_nap)


def _nap() -> None:
    threading.Event().wait(0.001)


def current_keeper() -> "VirtualLoop | ClockKeeper | None":
    """What keeps virtual time in the running event loop, or `None` where that runs in real time."""
    native: object = current_token().native_token
    if isinstance(native, VirtualLoop):
        return native
    if hasattr(native, "run_sync_soon"):
        from . import _virtual_clock

        return _virtual_clock.current_keeper()
    return None
