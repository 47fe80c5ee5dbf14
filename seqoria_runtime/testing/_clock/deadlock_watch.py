"""Turns a deadlock in virtual time into `VirtualTimeDeadlock`."""

import functools
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeAlias, TypeVar

import anyio
from anyio.lowlevel import current_token

from seqoria_runtime.models.errors import MissingExtraError

from .deadlock import VirtualTimeDeadlock
from .virtual_loop import VirtualLoop

if TYPE_CHECKING:
    from .virtual_clock import VirtualClock

P = ParamSpec("P")
T = TypeVar("T")
Backend: TypeAlias = Literal["asyncio", "trio"]


def fail_on_deadlock(async_fn: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Make `async_fn` raise `VirtualTimeDeadlock` where it would wait forever in virtual time.

    It is cancelled first, and everything in it has ended when the error is raised. In real time, and
    for a cancelled caller, nothing changes.
    """

    @functools.wraps(async_fn)
    async def watched(*args: P.args, **kwargs: P.kwargs) -> T:
        clock = current_virtual_clock()
        if clock is None:
            return await async_fn(*args, **kwargs)
        reports: list[str] = []
        cause: Exception | None = None
        with anyio.CancelScope() as scope:

            def stop(report: str) -> None:
                reports.append(report)
                scope.cancel("deadlock in virtual time")

            clock.on_deadlock = stop
            try:
                result = await async_fn(*args, **kwargs)
            except Exception as error:
                if not reports:
                    raise
                cause = error
            finally:
                clock.on_deadlock = None
        if reports:
            raise VirtualTimeDeadlock(reports[0]) from cause
        return result

    return watched


def current_virtual_clock() -> "VirtualLoop | VirtualClock | None":
    """Return what keeps virtual time in the running event loop, or `None` in real time."""
    native: object = current_token().native_token
    if isinstance(native, VirtualLoop):
        return native
    if hasattr(native, "run_sync_soon"):
        from .virtual_clock import current_clock

        return current_clock()
    return None


def require_trio() -> None:
    """Raise `MissingExtraError` unless trio is installed; does not load it."""
    if find_spec("trio") is None:
        raise MissingExtraError("runs on trio", "trio")
