"""Compute medians, ratios, spreads and exponents of samples. Pure."""

import math
import statistics
from collections.abc import Mapping, Sequence


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def spread(values: Sequence[float]) -> float:
    """Return half the range over the median: 0.1 if the samples lie within 10 % of their middle."""
    middle = statistics.median(values)
    return (max(values) - min(values)) / 2 / middle if middle else 0.0


def ratios(values: Sequence[float], reference: Sequence[float]) -> list[float]:
    """Return each value over the reference of the same repetition, where both exist."""
    return [value / base for value, base in zip(values, reference, strict=False) if base]


def exponent(sizes_and_costs: Mapping[int, float]) -> float:
    """Return the slope of log(whole cost) over log(size), from costs of one piece; 1.0 is linear."""
    sizes = sorted(sizes_and_costs)
    logs = [math.log(size) for size in sizes]
    totals = [math.log(size * sizes_and_costs[size]) for size in sizes]
    return statistics.linear_regression(logs, totals).slope


def rounded(value: float) -> str:
    """Return the value with three significant digits and a thousands separator."""
    if not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}" if abs(value) < 1e15 else f"{value:.3g}"
