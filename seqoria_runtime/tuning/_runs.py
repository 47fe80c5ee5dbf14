"""Owns what is known of one run of a workload under one limit, and what follows from it. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from seqoria_runtime.models import ToolErrorKind


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call. Times are seconds of the loop's clock; `started` is `None` for a call that never did.

    `kind` says why it gave no result, and is `None` for one that did.
    """

    queued: float
    started: float | None
    ended: float
    kind: ToolErrorKind | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """All calls of a workload, in its order, as they went under `limit` in one repetition."""

    limit: int
    repetition: int
    calls: Sequence[CallRecord]

    @property
    def seconds(self) -> float:
        """From the first call asked for to the last one answered."""
        return max(call.ended for call in self.calls) - min(call.queued for call in self.calls)

    @property
    def throughput(self) -> float:
        """Calls with a result in a second."""
        done = sum(call.kind is None for call in self.calls)
        return done / self.seconds if self.seconds > 0 else 0.0

    @property
    def failures(self) -> Counter[ToolErrorKind]:
        """How many calls gave no result, by the kind of their errors."""
        return Counter(call.kind for call in self.calls if call.kind is not None)

    @property
    def busy(self) -> tuple[float, float]:
        """The time in which there was always a call to start: from the first start to the last one."""
        starts = [call.started for call in self.calls if call.started is not None]
        return (min(starts), max(starts)) if starts else (0.0, 0.0)

    @property
    def in_flight(self) -> float:
        """How many calls ran at once on average, as long as there was always one to start."""
        return self._at_once([call for call in self.calls if call.started is not None])

    @property
    def productive(self) -> float:
        """How many of the calls in flight were to give a result; the others, long or short, did no work."""
        ran = [call for call in self.calls if call.started is not None]
        return self._at_once([call for call in ran if call.kind is None], of=len(ran))

    def _at_once(self, calls: Sequence[CallRecord], of: int | None = None) -> float:
        since, until = self.busy
        if until <= since:
            share = len(calls) / of if of else 1.0
            return share * min(of or len(calls), self.limit)
        return sum(min(call.ended, until) - (call.started or 0.0) for call in calls) / (until - since)
