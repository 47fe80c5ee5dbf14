"""A trio run, in guest mode, that goes on only while its main task has a job."""

import queue
from collections.abc import Callable, Mapping
from typing import Any

import trio

from ._stepper import LoopStepper


class TrioStepper(LoopStepper):
    """A stepper on trio. `options` are those of `trio.run`."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__()
        self._calls: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._ended = False
        trio.lowlevel.start_guest_run(
            self._main.serve,
            run_sync_soon_threadsafe=self._calls.put,
            done_callback=self._end,
            host_uses_signal_set_wakeup_fd=True,
            **options,
        )
        self._step()

    def close(self) -> None:
        if self._main.waits:
            self._main.start(None)
        while not self._ended:
            self._calls.get()()

    def _step(self) -> None:
        while not self._main.waits and not self._ended:
            self._calls.get()()

    def _end(self, outcome: Any) -> None:
        self._ended = True
        outcome.unwrap()
