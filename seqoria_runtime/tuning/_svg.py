"""Owns the picture of a report: throughput and latency over the limit, as SVG, without any library. Pure."""

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape

from ._report import LimitReport

_WIDTH, _HEIGHT = 760, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 24, 46, 46
_BLUE, _ORANGE, _RED, _GREY, _GREEN = "#2563a8", "#c9620a", "#b3261e", "#7a7a7a", "#2e7d32"

_Series = tuple[str, str, Sequence[float]]


def svg_of(report: LimitReport, *, title: str = "") -> str:
    """The report as an SVG document: work done at once, latencies, and the adaptive limit if there is one."""
    rows = report.rows
    limits = [row.limit for row in rows]
    panels = [
        _panel(
            "Work done at once (calls' worth)",
            limits,
            [
                ("if nothing slowed down", _GREY, [float(limit) for limit in limits]),
                ("measured", _BLUE, [row.work.median for row in rows]),
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
    height = 40 + _HEIGHT * len(panels)
    advice = (
        "No limit to recommend" if report.recommended is None else f"Recommended limit: {report.recommended}"
    )
    heading = escape(title or advice)
    body = "".join(
        f'<g transform="translate(0,{40 + _HEIGHT * n})">{panel}</g>' for n, panel in enumerate(panels)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'height="{height}" font-family="sans-serif" font-size="12">'
        f'<rect width="100%" height="100%" fill="white"/>'
        f'<text x="{_LEFT}" y="28" font-size="17" font-weight="bold">{heading}</text>{body}</svg>\n'
    )


def _panel(
    name: str, limits: Sequence[int], series: Sequence[_Series], *, mark: int | None, top_of: int = 0
) -> str:
    """A panel over the limits, on a logarithmic axis; `top_of` names the series that gives the height."""
    x = _scale([math.log2(limit) for limit in limits], _LEFT, _WIDTH - _RIGHT)
    counted = series[top_of:] if top_of else series
    most = _round_top(max((value for _, _, values in counted for value in values), default=0.0))
    y = _scale([0.0, most], _HEIGHT - _BOTTOM, _TOP)
    parts = [_frame(name, y, most)]
    parts += [_tick(x(math.log2(limit)), str(limit)) for limit in _spaced(limits)]
    parts.append(_text(_WIDTH - _RIGHT, _HEIGHT - 12, "max_concurrency", anchor="end"))
    if mark is not None:
        at = x(math.log2(min(max(mark, limits[0]), limits[-1])))
        parts.append(_line([(at, _TOP), (at, _HEIGHT - _BOTTOM)], _GREY, dashes="5 4"))
        parts.append(_text(at + 5, _TOP + 12, str(mark), colour=_GREY))
    for number, (label, colour, values) in enumerate(series):
        points = [
            (x(math.log2(limit)), y(value))
            for limit, value in zip(limits, values, strict=True)
            if value <= most
        ]
        parts.append(_line(points, colour))
        if label != "if nothing slowed down":
            parts += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{colour}"/>' for px, py in points]
        parts.append(_text(_WIDTH - _RIGHT - 160 * number, 30, label, colour=colour, anchor="end"))
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
        _line(points, _BLUE),
    ])


def _frame(name: str, y: Callable[[float], float], most: float) -> str:
    steps = [most * part / 4 for part in range(5)]
    grid = "".join(
        _line([(_LEFT, y(value)), (_WIDTH - _RIGHT, y(value))], "#e3e3e3")
        + _text(_LEFT - 8, y(value) + 4, f"{value:.3g}", anchor="end")
        for value in steps
    )
    return grid + _text(_LEFT, 30, name, weight="bold")


def _tick(at: float, label: str) -> str:
    bottom = _HEIGHT - _BOTTOM
    return _line([(at, bottom), (at, bottom + 5)], _GREY) + _text(at, bottom + 18, label, anchor="middle")


def _spaced(limits: Sequence[int]) -> Iterable[int]:
    """Those limits whose labels do not run into each other."""
    last = -math.inf
    span = math.log2(limits[-1] / limits[0]) or 1.0
    for limit in limits:
        place = math.log2(limit / limits[0]) / span
        if place - last >= 1 / 22:
            last = place
            yield limit


def _round_top(value: float) -> float:
    """The top of an axis for values up to this one, so that a fourth of it is a round number."""
    if value <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value / 4))
    return 4 * size * next(step for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * size * 4 >= value)


def _scale(values: Sequence[float], low: float, high: float) -> Callable[[float], float]:
    """From values to places on the paper."""
    first, last = min(values), max(values)
    span = (last - first) or 1.0
    return lambda value: low + (value - first) / span * (high - low)


def _line(points: Iterable[tuple[float, float]], colour: str, *, dashes: str = "") -> str:
    path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dashed}/>'


def _text(
    at: float, y: float, text: str, *, colour: str = "#222", anchor: str = "start", weight: str = "normal"
) -> str:
    return (
        f'<text x="{at:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )
