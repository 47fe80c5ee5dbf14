"""Tracks the runtime's worker threads of each event loop, through the runtime's `watch` hook."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from anyio.lowlevel import current_token

from seqoria_runtime._execution.calls import threads
from seqoria_runtime._execution.calls.threads import ThreadCall


class WorkerThread:
    """What one of the runtime's threads does at this moment. Used in its loop's thread only."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.in_loop = False
        """Whether it waits for work that it gave to the loop."""
        self.holds_time = False
        """Whether virtual time waits for its end even if no task does."""

    def run(self) -> Any:
        current_thread.set(self)  # in the copy of the caller's context that belongs to this run
        return self.function()


current_thread: ContextVar[WorkerThread | None] = ContextVar("seqoria_runtime_worker_thread", default=None)
"""The thread this is, or that gave the work to the loop that this is the start of."""

# A call keeps its thread alive, and nothing here may keep a call or a loop alive.
_threads: WeakKeyDictionary[object, WeakKeyDictionary[ThreadCall[Any], WorkerThread]] = WeakKeyDictionary()


def running_threads(native_token: object) -> dict[ThreadCall[Any], WorkerThread]:
    """Return the calls in this loop whose threads have not ended, with their threads.

    `native_token` is that of `anyio.lowlevel.current_token()`. Call it in that loop's thread.
    """
    calls = _threads.get(native_token)
    return {call: thread for call, thread in calls.items() if not call.exited} if calls else {}


def busy_threads(native_token: object) -> int:
    """Count the threads that hold virtual time: a task waits for them, and they do not wait for the loop."""
    return sum(
        not thread.in_loop and (thread.holds_time or not call.abandoned)
        for call, thread in running_threads(native_token).items()
    )


def abandoned_threads(native_token: object) -> int:
    """Count the threads that still run though the task that waited for them was cancelled."""
    return sum(call.abandoned for call in running_threads(native_token))


def _watch(call: ThreadCall[Any], function: Callable[[], Any]) -> Callable[[], Any]:
    thread = WorkerThread(function)
    calls = _threads.setdefault(current_token().native_token, WeakKeyDictionary())
    calls[call] = thread
    return thread.run


threads.watch = _watch
