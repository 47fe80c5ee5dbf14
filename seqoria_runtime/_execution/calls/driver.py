"""Steps one call's coroutine inside a worker's task, in the context of that call.

Knows nothing of tools or outcomes: it drives any coroutine, and records the cancellations that reached it,
so that its caller can tell a real one from one that the coroutine made itself.
"""

import math
import signal
import sys
import types
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from functools import partial
from typing import Any

from anyio import current_effective_deadline, get_cancelled_exc_class
from anyio.lowlevel import checkpoint


class Driver:
    """Drives coroutines one after another in the task that made it; no cancellation may be pending then.

    `begin` starts a coroutine, and `finish` awaits the rest of one that suspends. `delivered` and
    `disturbed` are about the last coroutine: the last exception that the event loop threw into it, if
    any; and whether that happened, or it cancelled its own task.
    """

    __slots__ = (
        "_cancel_count", "_cancels_before", "_self_cancels", "_task", "_trap", "_uncancel",
        "delivered", "disturbed",
    )  # fmt: skip

    def __init__(self) -> None:
        self._task = _asyncio_task()
        self._cancel_count = _never if self._task is None else self._task.cancelling
        self._uncancel = _never if self._task is None else self._task.uncancel
        self._cancels_before = self._cancel_count()
        self._self_cancels = 0
        self._trap: Any = None
        self.disturbed = False
        self.delivered: BaseException | None = None

    @property
    def natively_cancelled(self) -> bool:
        """Whether other code has called asyncio's `Task.cancel` on the task since the driver was made.

        Also true while a cancel scope around the call is cancelled, so check the scopes first.
        """
        return self._cancel_count() > self._cancels_before

    def forget(self) -> None:
        """Forget the coroutine driven last."""
        self._begin(self._cancel_count())

    def _begin(self, cancels: int) -> None:
        self.disturbed = False
        self.delivered = None
        self._self_cancels = 0
        # Never more than when the driver was made: a cancellation between two calls is real, and must still
        # count for the second one.
        self._cancels_before = min(self._cancels_before, cancels)

    def begin(self, coroutine: Coroutine[Any, Any, Any], context: Context) -> tuple[bool, Any]:
        """Run `coroutine` in `context` up to its first suspension.

        Return whether it has ended, and its value; if it has not, await `finish` next.
        """
        before = self._cancel_count()
        if self.disturbed or before < self._cancels_before:
            self._begin(before)
        try:
            self._trap = context.run(coroutine.send, None)
        except StopIteration as done:
            return True, done.value
        finally:
            if self._cancel_count() > before:
                self._note_self_cancels(self._cancel_count() - before)
        return False, None

    @types.coroutine
    def finish(self, coroutine: Coroutine[Any, Any, Any], context: Context) -> Generator[Any, Any, Any]:
        """Await the rest of a coroutine that `begin` left suspended, each step of it run in `context`."""
        # Do not hold what was waited for, such as a future: its result may be large.
        trap, self._trap = self._trap, None
        run = context.run
        cancel_count = self._cancel_count
        step: Callable[[Any], Any]
        while True:
            try:
                value = yield trap
            except BaseException as exc:  # noqa: BLE001 - what the loop throws is for the coroutine
                self.delivered = value = exc
                self.disturbed = True
                step = coroutine.throw
            else:
                step = coroutine.send
            before = cancel_count()
            try:
                trap = run(step, value)
            except StopIteration as done:
                return done.value  # noqa: B901 - a generator-based coroutine returns its value this way
            finally:
                del value, step  # else an exception thrown in would be held by a frame of its own traceback
                if cancel_count() > before:
                    self._note_self_cancels(cancel_count() - before)

    def _note_self_cancels(self, count: int) -> None:
        self._self_cancels += count
        self.disturbed = True

    def take_self_cancels(self) -> int:
        """Take back the native cancels that the coroutine requested of its own task; return how many.

        Only asyncio lets a task cancel itself. One cancellation may still be pending: the caller has to
        absorb it (`absorb_native_cancellation`).
        """
        count, self._self_cancels = self._self_cancels, 0
        if count and _interrupted(self._task):
            count -= 1
        for _ in range(min(count, self._cancel_count() - self._cancels_before)):
            self._uncancel()
        return count


async def absorb_native_cancellation() -> None:
    """Absorb the native cancellation that may still be pending after its request was taken back."""
    try:
        await checkpoint()
    except get_cancelled_exc_class():
        if current_effective_deadline() == -math.inf:
            raise


def _asyncio_task() -> Any:
    # anyio does not offer asyncio's Task.cancelling(). Without that, a tool that cancels the task it runs
    # in would leave its worker marked as cancelled. If asyncio was never imported, it cannot be what runs
    # this code.
    asyncio = sys.modules.get("asyncio")
    try:
        return None if asyncio is None else asyncio.current_task()
    except RuntimeError:
        return None


def _interrupted(task: Any) -> bool:
    """Whether Ctrl-C has cancelled this task; that can happen in the middle of a coroutine's step."""
    handler = signal.getsignal(signal.SIGINT)
    if not isinstance(handler, partial) or handler.keywords.get("main_task") is not task:
        return False
    # asyncio shows an interrupt in no other way. Taken for a cancel by the tool, a Ctrl-C would be lost.
    return getattr(getattr(handler.func, "__self__", None), "_interrupt_count", 0) > 0


def _never() -> int:
    return 0
