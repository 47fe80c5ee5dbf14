"""Draws a report as SVG: work, throughput and latency over the limit."""

import math
from collections.abc import Callable, Iterable, Sequence

from seqoria_runtime.observe._svg import document, line, text

from ._report import LimitReport

_WIDTH, _HEIGHT = 760, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 24, 46, 46
_BLUE, _ORANGE, _RED, _GREY, _GREEN = "#2563a8", "#c9620a", "#b3261e", "#7a7a7a", "#2e7d32"

_Series = tuple[str, str, Sequence[float]]


def svg_of(report: LimitReport, *, title: str = "") -> str:
    """Return the report as an SVG document: work done at once, throughput, latencies, adaptive limit."""
    rows = report.rows
    limits = [row.limit for row in rows]
    panels = [
        _panel(
            "Work done at once (calls' worth)",
            limits,
            [
                ("if nothing slowed down", _GREY, [float(limit) for limit in limits]),
                ("measured", _BLUE, [row.work.median if row.certain else math.nan for row in rows]),
            ],
            mark=report.recommended,
            top_of=1,
        ),
        _panel(
            "Throughput (calls with a result a second)",
            limits,
            [("measured", _BLUE, [row.throughput.median for row in rows])],
            mark=report.recommended,
        ),
        _panel(
            "Latency of a call from its slot on (seconds)",
            limits,
            [
                ("p99", _RED, [row.latency.p99 for row in rows]),
                ("p95", _ORANGE, [row.latency.p95 for row in rows]),
                ("p50", _GREEN, [row.latency.p50 for row in rows]),
            ],
            mark=report.recommended,
        ),
    ]
    if len(report.adaptive) > 1:
        panels.append(_history(report))
    advice = f"Recommended limit: {report.recommended}" if report.recommended else "No limit to recommend"
    heading = text(_LEFT, 28, title or advice, style='font-size="17" font-weight="bold"')
    placed = (f'<g transform="translate(0,{40 + _HEIGHT * n})">{panel}</g>' for n, panel in enumerate(panels))
    return document(_WIDTH, 40 + _HEIGHT * len(panels), heading, *placed)


def _panel(
    name: str, limits: Sequence[int], series: Sequence[_Series], *, mark: int | None, top_of: int = 0
) -> str:
    """Draw a panel over the limits, on a logarithmic axis; `series[top_of:]` sets the height."""
    x = _scale([math.log2(limit) for limit in limits], _LEFT, _WIDTH - _RIGHT)
    counted = series[top_of:] if top_of else series
    known = (value for _, _, values in counted for value in values if math.isfinite(value))
    most = _round_top(max(known, default=0.0))
    y = _scale([0.0, most], _HEIGHT - _BOTTOM, _TOP)
    parts = [_frame(name, y, most)]
    parts += [_tick(x(math.log2(limit)), str(limit)) for limit in _spaced(limits)]
    parts.append(text(_WIDTH - _RIGHT, _HEIGHT - 12, "max_concurrency", anchor="end"))
    if mark is not None:
        at = x(math.log2(min(max(mark, limits[0]), limits[-1])))
        parts.append(line([(at, _TOP), (at, _HEIGHT - _BOTTOM)], _GREY, dashes="5 4"))
        parts.append(text(at + 5, _TOP + 12, str(mark), colour=_GREY))
    for number, (label, colour, values) in enumerate(series):
        points = [
            (x(math.log2(limit)), y(value))
            for limit, value in zip(limits, values, strict=True)
            if value <= most
        ]
        parts.append(line(points, colour))
        if label != "if nothing slowed down":
            parts += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{colour}"/>' for px, py in points]
        parts.append(text(_WIDTH - _RIGHT - 160 * number, 30, label, colour=colour, anchor="end"))
    return "".join(parts)


def _history(report: LimitReport) -> str:
    times = [time for time, _ in report.adaptive]
    most = _round_top(max(limit for _, limit in report.adaptive))
    x = _scale([times[0], times[-1]], _LEFT, _WIDTH - _RIGHT)
    y = _scale([0.0, most], _HEIGHT - _BOTTOM, _TOP)
    points: list[tuple[float, float]] = []
    for time, limit in report.adaptive:
        if points:
            points.append((x(time), points[-1][1]))
        points.append((x(time), y(limit)))
    ticks = [times[0] + (times[-1] - times[0]) * part / 4 for part in range(5)]
    return "".join([
        _frame("An adaptive limit on the same calls, over time", y, most),
        *(_tick(x(time), f"{time:.3g} s") for time in ticks),
        line(points, _BLUE),
    ])


def _frame(name: str, y: Callable[[float], float], most: float) -> str:
    steps = [most * part / 4 for part in range(5)]
    grid = "".join(
        line([(_LEFT, y(value)), (_WIDTH - _RIGHT, y(value))], "#e3e3e3")
        + text(_LEFT - 8, y(value) + 4, f"{value:.3g}", anchor="end")
        for value in steps
    )
    return grid + text(_LEFT, 30, name, style='font-weight="bold"')


def _tick(at: float, label: str) -> str:
    bottom = _HEIGHT - _BOTTOM
    return line([(at, bottom), (at, bottom + 5)], _GREY) + text(at, bottom + 18, label, anchor="middle")


def _spaced(limits: Sequence[int]) -> Iterable[int]:
    """Yield the limits with labels that do not overlap."""
    last = -math.inf
    span = math.log2(limits[-1] / limits[0]) or 1.0
    for limit in limits:
        place = math.log2(limit / limits[0]) / span
        if place - last >= 1 / 22:
            last = place
            yield limit


def _round_top(value: float) -> float:
    """Return the top of an axis for values up to this one, so that a quarter of it is a round number."""
    if value <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value / 4))
    return 4 * size * next(step for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * size * 4 >= value)


def _scale(values: Sequence[float], low: float, high: float) -> Callable[[float], float]:
    """Return a function from values to places in the picture."""
    first, last = min(values), max(values)
    span = (last - first) or 1.0
    return lambda value: low + (value - first) / span * (high - low)
