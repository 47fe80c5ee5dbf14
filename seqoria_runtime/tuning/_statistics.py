"""The statistics of a report."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over the repetitions: its median, minimum and maximum."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """Return the spread of at least one value."""
        known = list(values)
        return cls(median(known), min(known), max(known))


@dataclass(frozen=True, slots=True)
class Percentiles:
    """The mean and three percentiles of durations, in seconds."""

    mean: float
    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Percentiles":
        """Return those of `values`; all zero if there are none."""
        ordered = sorted(values)
        if not ordered:
            return cls(0.0, 0.0, 0.0, 0.0)
        return cls(
            fmean(ordered), percentile(ordered, 0.5), percentile(ordered, 0.95), percentile(ordered, 0.99)
        )


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which this `share` of the sorted values lies, by linear interpolation."""
    place = share * (len(ordered) - 1)
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    return below + (above - below) * (place - math.floor(place))
