"""Finds calls that block an event loop in virtual time, by looking at its thread from another one."""

import sys
import threading
import time
import warnings
from types import FrameType
from typing import NamedTuple, Protocol

from .deadlock import LIBRARIES, WATCH_THREAD

_INTERVAL = 0.25
_LOOKS = 3
# On a busy machine a thread that computes may get little of the processor, but never so little.
_IDLE = 0.002


class BlockingCallWarning(RuntimeWarning):
    """A call blocked the event loop in real time; the warning's place is that of the call."""


class Watched(Protocol):
    """A loop as far as the watch needs it; both change in the loop's thread."""

    turns: int
    waiting: bool


class _Place(NamedTuple):
    file: str
    line: int
    function: str


class BlockingWatch:
    """Looks every quarter of a second whether the loop is still in the same call, while it is entered.

    A call is reported if three looks in a row find it at the same instruction, having used no time of
    the processor to speak of: computing is not. A loop that waits for threads does not block.
    """

    def __init__(self, loop: Watched) -> None:
        self._loop = loop
        self._thread_id = threading.get_ident()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name=WATCH_THREAD, daemon=True)
        self._found: dict[_Place, None] = {}

    def __enter__(self) -> "BlockingWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def warn(self) -> None:
        """Warn of each place found; raises `BlockingCallWarning` if warnings are errors."""
        for file, line, function in self._found:
            warnings.warn_explicit(
                f"{function} blocked the event loop for more than {_INTERVAL * (_LOOKS - 1):g} s of real "
                f"time ({file}:{line}): make it wait in the loop, or in a thread",
                BlockingCallWarning,
                file,
                line,
            )

    def _frame(self) -> FrameType | None:
        return sys._current_frames().get(self._thread_id)  # noqa: SLF001 - documented, despite its name

    def _look(self) -> None:
        before: tuple[object, ...] = ()
        looks, used = 0, 0.0
        while not self._over.wait(_INTERVAL):
            frame = None if self._loop.waiting else self._frame()
            now = () if frame is None else (self._loop.turns, id(frame), frame.f_lasti)
            total = _processor_seconds(self._thread_id)
            same = now and now == before and total - used < _IDLE
            looks, before, used = looks + 1 if same else 1, now, total
            if looks == _LOOKS and frame is not None:
                self._found[_place(frame)] = None
            del frame


def _processor_seconds(thread_id: int) -> float:
    """Return what a thread has computed; always 0 where the system does not say."""
    clock_of = getattr(time, "pthread_getcpuclockid", None)
    return time.clock_gettime(clock_of(thread_id)) if clock_of else 0.0


def _place(innermost: FrameType) -> _Place:
    """Return the innermost place that is not in a library, such as the standard one."""
    frame: FrameType | None = innermost
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in LIBRARIES:
        frame = frame.f_back
    shown = frame or innermost
    return _Place(shown.f_code.co_filename, shown.f_lineno, shown.f_code.co_qualname)
