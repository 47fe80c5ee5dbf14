"""Tracks which worker threads of a scheduled run have not yet reached the event loop with their end.

Between two steps of a scheduled run no thread works, so that the order covers threads as well: each is
waited for until its end has reached the event loop, or until it waits for the loop itself.
"""

import time
from collections.abc import Callable
from typing import Any

from seqoria_runtime._execution.calls.threads import ThreadCall
from seqoria_runtime.testing._clock.worker_threads import running_threads

PATIENCE = 1.0
"""Real seconds after which a thread that does not end becomes loose: the run goes on without it."""


class ThreadWatch:
    """The threads of one event loop. `foreign` counts those that the runtime did not start.

    A thread's end has reached the loop when the task that waits for it is ready; `is_ready` returns
    that for a task's number.
    """

    def __init__(self, *, foreign: Callable[[], int], is_ready: Callable[[int], bool]) -> None:
        self._foreign = foreign
        self._is_ready = is_ready
        self._native_token: object = None
        self._owners: dict[ThreadCall[Any], int] = {}
        self._foreign_before = 0
        # The tasks that asked for a foreign thread, and whether they wait for it by now.
        self._in_foreign: dict[int, bool] = {}
        self._loose: set[ThreadCall[Any]] = set()
        self._since = 0.0
        self.loose = 0

    def start(self, native_token: object) -> None:
        """Name the event loop, as `anyio.lowlevel.current_token().native_token` does."""
        self._native_token = native_token

    def before_step(self) -> None:
        """Note that a task is about to make a step."""
        self._foreign_before = self._foreign()

    def after_step(self, number: int) -> None:
        """Note that the task of this number has made a step, in which it may have started to wait."""
        running = running_threads(self._native_token)
        if running or self._owners:
            self._owners = {call: self._owners.get(call, number) for call in running}
            self._loose &= running.keys()
        foreign = self._foreign()
        if foreign > self._foreign_before:
            self._in_foreign.setdefault(number, False)
        elif foreign < self._foreign_before:
            self._in_foreign.pop(number, None)

    @property
    def unsettled(self) -> bool:
        """Whether a thread works whose end has not reached the loop. Starts the wait for it."""
        unsettled = self._is_unsettled()
        if not unsettled:
            self._since = 0.0
        elif not self._since:
            self._since = time.monotonic()
        return unsettled

    @property
    def abandoned(self) -> bool:
        """Whether an unsettled thread is one that no task waits for, so that time could move."""
        return any(call.abandoned and call not in self._loose for call in self._running())

    @property
    def patience(self) -> float:
        """Real seconds that the unsettled threads may still take."""
        return self._since + PATIENCE - time.monotonic()

    def give_up(self) -> None:
        """Stop waiting for the threads that are unsettled now."""
        loose = {call for call in self._running() if call not in self._loose}
        self.loose += len(loose) + len(self._in_foreign)
        self._loose |= loose
        self._in_foreign.clear()
        self._since = 0.0

    def _running(self) -> list[ThreadCall[Any]]:
        threads = running_threads(self._native_token)
        return [call for call, thread in threads.items() if not thread.in_loop]

    def _is_unsettled(self) -> bool:
        for number, waiting in tuple(self._in_foreign.items()):
            if not self._is_ready(number):
                self._in_foreign[number] = True
            elif waiting:
                del self._in_foreign[number]
        if any(self._in_foreign.values()):
            return True
        return any(self._works(call) for call in self._running() if call not in self._loose)

    def _works(self, call: ThreadCall[Any]) -> bool:
        owner = self._owners.get(call)
        return call.abandoned or owner is None or not self._is_ready(owner)
