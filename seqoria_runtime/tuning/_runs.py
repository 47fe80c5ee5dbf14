"""The record of one run of a workload under one limit, and its figures."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from seqoria_runtime.models import ToolErrorKind


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call. Times are seconds of the loop's clock; `started` is `None` for a call that never ran.

    `kind` is that of its error, or `None` for a call with a result.
    """

    queued: float
    started: float | None
    ended: float
    kind: ToolErrorKind | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """All calls of a workload, in its order, in one repetition under `limit`."""

    limit: int
    repetition: int
    calls: Sequence[CallRecord]

    @property
    def seconds(self) -> float:
        """The time from the first call to the last outcome."""
        return max(call.ended for call in self.calls) - min(call.queued for call in self.calls)

    @property
    def throughput(self) -> float:
        """Calls with a result per second."""
        done = sum(call.kind is None for call in self.calls)
        return done / self.seconds if self.seconds > 0 else 0.0

    @property
    def failures(self) -> Counter[ToolErrorKind]:
        """The number of calls without a result, by the kind of error."""
        return Counter(call.kind for call in self.calls if call.kind is not None)

    @property
    def busy(self) -> tuple[float, float]:
        """The time in which there was always a call waiting to start: from the first start to the last."""
        starts = [call.started for call in self.calls if call.started is not None]
        return (min(starts), max(starts)) if starts else (0.0, 0.0)

    @property
    def in_flight(self) -> float:
        """How many calls ran at once on average, while there was always one waiting to start."""
        return self._at_once([call for call in self.calls if call.started is not None])

    @property
    def productive(self) -> float:
        """How many of the calls in flight were to have a result; the others did no useful work."""
        ran = [call for call in self.calls if call.started is not None]
        return self._at_once([call for call in ran if call.kind is None], of=len(ran))

    def _at_once(self, calls: Sequence[CallRecord], of: int | None = None) -> float:
        since, until = self.busy
        if until <= since:
            share = len(calls) / of if of else 1.0
            return share * min(of or len(calls), self.limit)
        return sum(min(call.ended, until) - (call.started or 0.0) for call in calls) / (until - since)
