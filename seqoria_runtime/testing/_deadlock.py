"""Owns the error that virtual time raises where a test would hang, and the words of its report."""

import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any, TypeAlias

OnDeadlock: TypeAlias = Callable[[str], None]

_GRACE = 0.5
_NOTHING = "no timer and no thread can wake the tasks any more (virtual time does not wait for real I/O):"
SPINNING = "tasks go on for ever without time moving:"
_BACKENDS = {"anyio", "asyncio", "trio"}
_SUSPENDED = (("cr", "cr_await"), ("ag", "ag_await"), ("gi", "gi_yieldfrom"))


class VirtualTimeDeadlock(RuntimeError):
    """Every task waits, and no timer and no thread is left that could wake one of them.

    The text names the tasks and the lines where they wait.
    """


def grace() -> float:
    """Real seconds in which a thread that nobody waits for may still wake a loop with nothing to do."""
    me = threading.current_thread()
    # trio renames a cached thread while it works for a task.
    alone = all(thread is me or thread.name.startswith("Trio thread ") for thread in threading.enumerate())
    return 0 if alone else _GRACE


def describe(tasks: Iterable[tuple[str, Any]], what: str = _NOTHING) -> str:
    """Name the tasks, given as names and coroutines, and say where each waits."""
    lines = sorted(f"  {name}: {place(coroutine)}" for name, coroutine in tasks)
    return "\n".join([what, *lines])


def place(coroutine: Any) -> str:
    """The line of the program at which a suspended coroutine waits."""
    frames = list(_frames(coroutine))
    ours = [
        frame for frame in frames if frame.f_globals.get("__name__", "").partition(".")[0] not in _BACKENDS
    ]
    if not frames:
        return "not in Python code"
    frame = (ours or frames)[-1]
    return f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"


def _frames(awaitable: Any) -> Iterator[FrameType]:
    while awaitable is not None:
        inner = None
        for kind, link in _SUSPENDED:
            if (frame := getattr(awaitable, f"{kind}_frame", None)) is not None:
                yield frame
                inner = getattr(awaitable, link)
        awaitable = inner
