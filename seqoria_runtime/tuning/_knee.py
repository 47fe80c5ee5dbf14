"""Recommends a limit from runs under several limits.

The method is that of asymptotic bounds (Denning and Buzen, "The Operational Analysis of Queueing Network
Models", 1978): below the knee, the work done at once grows with the limit; above it, it stays at the
capacity of the tools. The two lines meet at `N* = X_max * R_0`, the maximum throughput times the latency
without load, which is also where Kleinrock's power (1979), throughput over latency, has its maximum.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from ._runs import CallRecord, Run
from ._statistics import Spread

_NEARLY_ALL = 0.9
_STILL_RISING = 0.85
_MOST_NEW_LIMITS = 7
CALLS_A_SLOT = 5


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a limit achieves.

    `slowdown` is the latency of a call divided by its latency without load. `work` is how many calls'
    worth of progress is made at once: the relative capacity of Gunther's Universal Scalability Law. It
    is the number of calls in flight that will have a result, divided by the slowdown, relative to the
    lowest limit, since calls that fail even without load say nothing about a limit. With few
    `calls_a_slot` a run is mostly start and end, and both figures are uncertain.
    """

    limit: int
    slowdown: Spread
    work: Spread
    calls_a_slot: float


@dataclass(frozen=True, slots=True)
class Knee:
    """The recommended `limit`, and the reasons.

    `most_work` is the most work done at once, under `best_limit`. `saturated` is whether the tools
    reached their capacity; if not, the recommendation is only the highest limit tried.
    """

    limit: int
    most_work: float
    best_limit: int
    saturated: bool


def capacities(runs: Iterable[Run]) -> list[Capacity]:
    """Return the capacity under each limit, in order. The lowest limit stands for no load."""
    by_repetition: dict[int, dict[int, Run]] = defaultdict(dict)
    for run in runs:
        by_repetition[run.repetition][run.limit] = run
    slowdowns: dict[int, list[float]] = defaultdict(list)
    work: dict[int, list[float]] = defaultdict(list)
    calls: dict[int, int] = {}
    for measured in by_repetition.values():
        base = measured[min(measured)]
        scale = base.in_flight / base.productive if base.productive else 1.0
        for limit, run in measured.items():
            slower = _slowdown(base, run)
            slowdowns[limit].append(slower)
            work[limit].append(run.productive / slower * scale)
            calls[limit] = min(calls.get(limit, len(run.calls)), len(run.calls))
    return [
        Capacity(limit, Spread.of(slowdowns[limit]), Spread.of(work[limit]), calls[limit] / limit)
        for limit in sorted(work)
    ]


def knee(measured: Sequence[Capacity]) -> Knee:
    """Return the limit to recommend; `measured` is in the order of the limits, and not empty."""
    certain = _certain(measured)
    last, first = certain[-1], _first_nearly_best(certain)
    best = max((one for one in certain if one.limit <= 2 * first.limit), key=lambda one: one.work.median)
    saturated = best.work.median < _STILL_RISING * last.limit
    limit = max(1, round(best.work.median)) if saturated else best.limit
    return Knee(min(limit, last.limit), best.work.median, best.limit, saturated)


def finer_limits(measured: Sequence[Capacity]) -> list[int]:
    """Return limits between those measured that locate the knee more exactly."""
    first = measured.index(_first_nearly_best(_certain(measured)))
    low = measured[max(first - 1, 0)].limit
    high = measured[min(first + 1, len(measured) - 1)].limit
    known = {one.limit for one in measured}
    steps = (low * (high / low) ** (step / (_MOST_NEW_LIMITS + 1)) for step in range(1, _MOST_NEW_LIMITS + 1))
    return sorted({round(step) for step in steps} - known)


def _certain(measured: Sequence[Capacity]) -> Sequence[Capacity]:
    """Return those measured with enough calls, or the lowest if there are none."""
    return [one for one in measured if one.calls_a_slot >= CALLS_A_SLOT] or measured[:1]


def _first_nearly_best(measured: Sequence[Capacity]) -> Capacity:
    most = max(one.work.median for one in measured)
    return next(one for one in measured if one.work.median >= _NEARLY_ALL * most)


def _slowdown(base: Run, run: Run) -> float:
    """Return how much longer a call took than the same call in `base`: the geometric mean over the calls.

    Each call is compared with itself, so that a few long calls among many short ones do not dominate,
    and random durations cancel out. The latency of a failure says nothing, so only calls with a result
    in both runs count, if there are any.
    """
    # The first calls find the tools idle, and the last ones run with fewer others than the limit allows.
    # Choosing by their ends instead would mean choosing by their durations.
    places = [place for place, call in enumerate(run.calls) if call.started is not None]
    places.sort(key=lambda place: run.calls[place].started or 0.0)
    edge = min(run.limit, len(places) // 3)
    chosen = places[edge : len(places) - edge]
    both = [place for place in chosen if base.calls[place].kind is run.calls[place].kind is None]
    pairs = [(_latency(base.calls[place]), _latency(run.calls[place])) for place in both or chosen]
    ratios = [then / alone for alone, then in pairs if alone > 0 and then > 0]
    return geometric_mean(ratios) if ratios else 1.0


def _latency(call: CallRecord) -> float:
    return math.nan if call.started is None else call.ended - call.started


def by_limit(runs: Iterable[Run]) -> Mapping[int, list[Run]]:
    """Return the runs of each limit, in the order of the limits."""
    found: dict[int, list[Run]] = defaultdict(list)
    for run in runs:
        found[run.limit].append(run)
    return dict(sorted(found.items()))
