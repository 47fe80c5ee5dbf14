"""The error that virtual time raises instead of hanging, and the text of its report."""

import gc
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any, TypeAlias

from anyio import TaskHandle

from seqoria_runtime._execution.calls.driver import Driver

OnDeadlock: TypeAlias = Callable[[str], None]

_GRACE = 0.5
_NOTHING = "no timer and no thread can wake the tasks any more (virtual time does not wait for real I/O):"
SPINNING = "tasks go on forever without time moving:"
_BACKENDS = frozenset({"anyio", "asyncio", "trio"})
_LIBRARIES = _BACKENDS | sys.stdlib_module_names | {__name__.partition(".")[0]}
_SUSPENDED = (("cr", "cr_await"), ("ag", "ag_await"), ("gi", "gi_yieldfrom"))
_OPAQUE = {"anext_awaitable", "async_generator_asend", "async_generator_athrow", "coroutine_wrapper"}


class VirtualTimeDeadlock(RuntimeError):
    """Every task waits, and no timer and no thread is left that could wake one of them.

    The text names the tasks and the lines where they wait.
    """


def grace() -> float:
    """Return the real seconds to wait for a thread that may still wake a loop with nothing to do."""
    me = threading.current_thread()
    # trio renames a cached thread while it works for a task.
    alone = all(thread is me or thread.name.startswith("Trio thread ") for thread in threading.enumerate())
    return 0 if alone else _GRACE


def describe(tasks: Iterable[tuple[str, Any]], what: str = _NOTHING) -> str:
    """Return a report of tasks, given as names and coroutines, with the line where each waits."""
    lines = sorted(f"  {name}: {place(coroutine)}" for name, coroutine in tasks)
    return "\n".join([what, *lines])


def place(coroutine: Any) -> str:
    """Return the line of the program at which a suspended coroutine waits.

    This is the innermost line outside of the event loop, the standard library and the runtime; if
    there is none, the innermost of the runtime, or else the function that runs.
    """
    frames = list(_frames(coroutine))
    if not frames:
        return "not in Python code"
    for libraries in (_LIBRARIES, _BACKENDS):
        for frame in reversed(frames):
            if _library(frame) not in libraries:
                return _named(frame)
    return _named(next((frame for frame in frames if _started_by(frame) is None), frames[0]))


def _named(frame: FrameType) -> str:
    return f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"


def _library(frame: FrameType) -> str:
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0]


def _frames(awaitable: Any) -> Iterator[FrameType]:
    """Yield the frames of what is awaited, the outermost first."""
    while awaitable is not None:
        inner = None
        for kind, link in _SUSPENDED:
            if (frame := getattr(awaitable, f"{kind}_frame", None)) is not None:
                yield frame
                inner = getattr(awaitable, link) or _driven(frame) or _started_by(frame)
        if type(awaitable).__name__ in _OPAQUE:
            # Only the garbage collector knows what they wait for.
            inner = next((one for one in gc.get_referents(awaitable) if _can_wait(one)), None)
        awaitable = inner


def _can_wait(thing: object) -> bool:
    return type(thing).__name__ in _OPAQUE or any(hasattr(thing, link) for _, link in _SUSPENDED)


def _driven(frame: FrameType) -> Any:
    """Return the coroutine of a call, which the runtime steps by hand."""
    return frame.f_locals.get("coroutine") if frame.f_code is Driver.finish.__code__ else None


def _started_by(frame: FrameType) -> Any:
    """Return the coroutine of a task, if the frame is the one that anyio puts around it."""
    handle = frame.f_locals.get("self")
    return handle.coro if isinstance(handle, TaskHandle) else None
