"""The report of a sweep: a row for each limit, the recommendation, and its reason as text."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from seqoria_runtime.client import LimitChange

from ._knee import CALLS_A_SLOT, Knee, by_limit, capacities, knee
from ._runs import Run
from ._statistics import Percentiles, Spread

_TO_COMPARE = 2
_FAR_MORE = 1.25
_MUCH_THE_SAME = 1.1


@dataclass(frozen=True, slots=True)
class LimitRow:
    """What was measured under one limit, over all repetitions. Times are seconds.

    `throughput` counts calls with a result per second. `wait` is the time until a call has its slot,
    `latency` the time from there to its outcome. For `work` and `slowdown` see `Capacity`. `failures`
    counts the errors by their kind, `timed_out` included.
    """

    limit: int
    runs: int
    calls: int
    throughput: Spread
    wait: Percentiles
    latency: Percentiles
    slowdown: Spread
    work: Spread
    failures: dict[str, int]

    @property
    def certain(self) -> bool:
        """Whether there were enough calls for each slot for `work` and `slowdown` to mean anything."""
        return self.calls >= CALLS_A_SLOT * self.limit * self.runs

    @property
    def timeouts(self) -> int:
        """The number of calls that timed out."""
        return self.failures.get("timed_out", 0)

    @property
    def failed(self) -> int:
        """The number of calls that failed in another way."""
        return sum(self.failures.values()) - self.timeouts


@dataclass(frozen=True, slots=True)
class LimitReport:
    """The result of a sweep: `knee` has the recommended limit, `adaptive` the changes of an adaptive one."""

    rows: tuple[LimitRow, ...]
    knee: Knee
    adaptive: tuple[LimitChange, ...] = ()

    @property
    def recommended(self) -> int | None:
        """The limit to use; `None` if there is nothing to compare."""
        return None if self._nothing_to_compare else self.knee.limit

    def with_adaptive(self, history: Sequence[LimitChange]) -> "LimitReport":
        """Return this report with the changes of an adaptive limit on the same workload."""
        return replace(self, adaptive=tuple(history))

    @property
    def reason(self) -> str:
        """Why this limit, in two sentences."""
        least = self.rows[0].limit
        if self._nothing_to_compare:
            return self._nothing_to_compare
        if not self.knee.saturated:
            return (
                f"More calls at once got more done up to the limit {self.knee.best_limit}, the highest one "
                "measured with at least five calls for each slot: the knee lies above it. Measure "
                "higher limits, with more calls."
            )
        if self.recommended == least > 1:
            return (
                f"More calls at once than {least} got no more done. That is the lowest limit measured, so "
                "the knee may lie below it. Measure lower limits, from 1 on."
            )
        return (
            f"The tools do the work of at most {self.knee.most_work:.1f} calls at once (under the limit "
            f"{self.knee.best_limit}, against latencies under {least}): a lower limit leaves them idle, a "
            "higher one makes calls wait in the tools instead of in the queue. That is where the bounds "
            "of the throughput meet, N* = X_max · R_0 (Denning and Buzen, 1978)."
        )

    @property
    def _nothing_to_compare(self) -> str:
        if not self.knee.most_work:
            return "No call gave a result under any limit, so there is nothing to compare."
        if len(self.rows) == 1:
            limit = self.rows[0].limit
            return f"Only the limit {limit} was measured, so there is nothing to compare it with."
        if not any(row.latency.mean for row in self.rows):
            return (
                "The calls took no time, so there is nothing to compare. In virtual time only waiting for "
                "timers takes time, not work and not blocking in threads."
            )
        second = self.rows[1].limit
        if sum(row.certain for row in self.rows) < _TO_COMPARE:
            return (
                f"There are too few calls to compare limits: make at least {CALLS_A_SLOT * second} for the "
                f"limit {second}, five for each slot, and more for higher ones."
            )
        better = self._better_row
        if better is not None:
            return (
                f"The limit {better.limit} got {better.throughput.median:.4g} results a second, and calls "
                "took no longer than under lower ones. There are too few to be sure: make at least "
                f"{CALLS_A_SLOT * better.limit}."
            )
        return ""

    @property
    def _better_row(self) -> LimitRow | None:
        """The row that refutes the recommendation: far more results than it can have, and as fast."""
        limit = self.knee.limit
        near = max((row for row in self.rows if row.limit <= limit), key=lambda row: row.limit)
        possible = near.throughput.median * limit / near.limit
        for row in reversed(self.rows):
            as_fast = all(
                getattr(row.latency, name) <= _MUCH_THE_SAME * getattr(near.latency, name)
                for name in ("p50", "p95")
            )
            if row.limit > limit and row.throughput.median > _FAR_MORE * possible and as_fast:
                return row
        return None

    def as_json(self) -> dict[str, Any]:
        """Return the report as values for JSON."""
        return {
            "recommended": self.recommended,
            "saturated": self.knee.saturated,
            "most_work": self.knee.most_work,
            "best_limit": self.knee.best_limit,
            "method": "asymptotic bounds: N* = X_max * R_0 (Denning and Buzen, 1978)",
            "reason": self.reason,
            "limits": [
                {**asdict(row), "certain": row.certain, "timeouts": row.timeouts, "failed": row.failed}
                for row in self.rows
            ],
            "adaptive": [{"time": time, "limit": limit} for time, limit in self.adaptive],
        }


def report_of(runs: Iterable[Run]) -> LimitReport:
    """Return the report of these runs; raises `ValueError` if there are none."""
    known = list(runs)
    if not known:
        raise ValueError("there are no runs to report")
    # A repetition that was interrupted before the lowest limit has nothing to compare with.
    least = min(run.limit for run in known)
    whole = {run.repetition for run in known if run.limit == least}
    known = [run for run in known if run.repetition in whole]
    measured = capacities(known)
    rows = []
    for (limit, group), capacity in zip(by_limit(known).items(), measured, strict=True):
        calls = [call for run in group for call in run.calls]
        ran = [(call, call.started) for call in calls if call.started is not None]
        failures = sum((run.failures for run in group), Counter[Any]())
        rows.append(
            LimitRow(
                limit=limit,
                runs=len(group),
                calls=len(calls),
                throughput=Spread.of(run.throughput for run in group),
                wait=Percentiles.of(started - call.queued for call, started in ran),
                latency=Percentiles.of(call.ended - started for call, started in ran),
                slowdown=capacity.slowdown,
                work=capacity.work,
                failures={str(kind): number for kind, number in sorted(failures.items())},
            )
        )
    return LimitReport(tuple(rows), knee(measured))
