"""Owns slots whose number changes while calls run, and the samples that say how.

Synchronous; the rule is the controller's. Knows nothing of tasks.
"""

from collections.abc import Callable

from seqoria_runtime._execution.batches.observing import CallEvent
from seqoria_runtime.models import ToolCallError, ToolCallResult

from .adaptive import AdaptiveController, Sample
from .slots import CallLease, Lane, Slot, Slots

_OVERLOAD = frozenset({"timed_out", "unavailable"})


class AdaptiveSlots(Slots):
    """Slots whose number is what a controller makes of the calls that run in them."""

    def __init__(self, controller: AdaptiveController, now: Callable[[], float]) -> None:
        super().__init__(controller.limit, now)
        self.controller = controller
        self._surplus = 0
        self._started: dict[tuple[int, int], tuple[float, int]] = {}
        self._calling: set[str] = set()

    def note(self, event: CallEvent) -> None:
        """Take a call's start or end into account, and have as many slots as that makes."""
        call = event.batch, event.position
        if event.kind == "started":
            self._started[call] = event.time, self.total + self._surplus - self.free
            return
        started = self._started.pop(call, None)
        outcome = event.outcome
        if started is None or outcome is None or event.request.name in self._calling:
            return
        overload = isinstance(outcome, ToolCallError) and outcome.kind in _OVERLOAD
        if overload or isinstance(outcome, ToolCallResult):
            time, in_flight = started
            sample = Sample(event.request.name, time, event.time, in_flight, overload)
            if self.controller.add(sample):
                self.resize(self.controller.limit)

    def add_caller(self, lease: CallLease) -> None:
        # What it takes includes the waiting of these calls for slots, which says nothing of the load.
        self._calling.add(lease.tool)
        super().add_caller(lease)

    def resize(self, total: int) -> None:
        """Have this many slots. Calls that run in too many of them go on, and leave theirs at their end."""
        more, self.total = total - self.total, total
        while more < 0:
            if self.take_free() is None:
                self._surplus -= more
                break
            more += 1
        while more > 0:
            if self._surplus:
                self._surplus -= 1
            else:
                self.release(Slot())
            more -= 1
        self.judge()

    def alone(self, lane: Lane) -> bool:
        return not self._surplus and super().alone(lane)

    def release(self, slot: Slot) -> None:
        if self._surplus and slot.lender is None:
            self._surplus -= 1
            self.judge()
        else:
            super().release(slot)
