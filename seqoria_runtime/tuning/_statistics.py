"""The statistics of a report."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, median, quantiles


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
        known = list(values)
        if not known:
            return cls(0.0, 0.0, 0.0, 0.0)
        cuts = quantiles(known, n=100, method="inclusive") if len(known) > 1 else known * 99
        return cls(fmean(known), cuts[49], cuts[94], cuts[98])
