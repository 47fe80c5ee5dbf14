"""Owns the record of what tool calls did over time, and its picture as SVG.

Knows nothing of clients; it is told of events.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from seqoria_runtime._base import checks as _checks
from seqoria_runtime.client import CallEvent
from seqoria_runtime.models import ToolCallError, ToolCallOutcome

_ROW, _LEFT, _WIDTH = 20, 190, 900
_MOST_NAME = 24
_COLOURS = {"result": "#2e7d32", "failed": "#b3261e", "skipped": "#9a9a9a", "cancelled": "#c9620a"}


@dataclass(frozen=True, slots=True)
class CallSpan:
    """A call's times, in seconds of the event loop's clock.

    `started` is `None` for a call that never ran, `ended` and `outcome` for one that has not ended.
    """

    batch: int
    position: int
    tool: str
    queued: float
    started: float | None = None
    ended: float | None = None
    outcome: ToolCallOutcome | None = None

    @property
    def state(self) -> str:
        """`waiting`, `running`, `result`, `failed`, `skipped` or `cancelled`."""
        if self.outcome is None:
            return "waiting" if self.started is None else "running"
        if not isinstance(self.outcome, ToolCallError):
            return "result"
        if self.outcome.kind in {"skipped", "cyclic_dependency"}:
            return "skipped"
        return "cancelled" if self.outcome.kind == "cancelled" else "failed"


class Timeline:
    """An observer that keeps what it is told: `AsyncAIClient(..., observers=[timeline])`.

    It keeps the last `most` calls, by default 10,000. Raises `ValueError`, which names the option.
    """

    def __init__(self, most: int = 10_000) -> None:
        self._most = _checks.positive_int("most", most)
        self._spans: dict[tuple[int, int], CallSpan] = {}

    def __call__(self, event: CallEvent) -> None:
        """Take note of an event."""
        key = event.batch, event.position
        if event.kind == "queued":
            self._spans[key] = CallSpan(event.batch, event.position, event.request.name, event.time)
            while len(self._spans) > self._most:
                del self._spans[next(iter(self._spans))]
            return
        span = self._spans.get(key)
        if span is None:
            return
        started = event.time if event.kind == "started" else span.started
        ended = None if event.kind == "started" else event.time
        self._spans[key] = CallSpan(
            span.batch, span.position, span.tool, span.queued, started, ended, event.outcome
        )

    @property
    def spans(self) -> tuple[CallSpan, ...]:
        """The calls so far, in the order in which they were asked for."""
        return tuple(self._spans.values())

    def clear(self) -> None:
        """Forget all calls."""
        self._spans.clear()

    def svg(self) -> str:
        """The calls as a picture: a row each, pale while it waits and full while it runs."""
        return _svg(self.spans)


def _svg(spans: Iterable[CallSpan]) -> str:
    known = list(spans)
    times = [time for span in known for time in (span.queued, span.started, span.ended) if time is not None]
    first, last = (min(times), max(times)) if times else (0.0, 1.0)
    scale = (_WIDTH - _LEFT - 20) / ((last - first) or 1.0)
    height = 40 + _ROW * len(known) + 30
    rows = [
        _row(span, 40 + _ROW * place, first=first, last=last, scale=scale) for place, span in enumerate(known)
    ]
    marks = [_mark(first, last, part, height) for part in range(5)]
    legend = "".join(
        f'<text x="{_LEFT + 90 * place}" y="22" fill="{colour}">{name}</text>'
        for place, (name, colour) in enumerate(_COLOURS.items())
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'height="{height}" font-family="sans-serif" font-size="12"><rect width="100%" height="100%" '
        f'fill="white"/>{legend}{"".join(marks)}{"".join(rows)}</svg>\n'
    )


def _row(span: CallSpan, top: int, *, first: float, last: float, scale: float) -> str:
    colour = _COLOURS.get(span.state, "#2563a8")
    ended = last if span.ended is None else span.ended
    began = ended if span.started is None else span.started
    name = span.tool if len(span.tool) <= _MOST_NAME else span.tool[: _MOST_NAME - 1] + "…"
    waited, ran = (began - span.queued) * scale, (ended - began) * scale
    at = _LEFT + (span.queued - first) * scale
    tip = f"{span.tool}: waited {began - span.queued:.3g} s, ran {ended - began:.3g} s, {span.state}"
    run = (
        ""
        if span.started is None
        else f'<rect x="{at + waited:.1f}" y="{top + 3}" width="{max(ran, 1.5):.1f}" height="{_ROW - 6}" '
        f'fill="{colour}"/>'
    )
    return (
        f"<g><title>{escape(tip)}</title>"
        f'<text x="{_LEFT - 8}" y="{top + 14}" text-anchor="end">{escape(name)}</text>'
        f'<rect x="{at:.1f}" y="{top + 8}" width="{max(waited, 1.0):.1f}" height="{_ROW - 16}" '
        f'fill="{colour}" opacity="0.4"/>{run}</g>'
    )


def _mark(first: float, last: float, part: int, height: int) -> str:
    at = _LEFT + (_WIDTH - _LEFT - 20) * part / 4
    time = (last - first) * part / 4
    return (
        f'<line x1="{at:.1f}" x2="{at:.1f}" y1="34" y2="{height - 24}" stroke="#e3e3e3"/>'
        f'<text x="{at:.1f}" y="{height - 8}" text-anchor="middle" fill="#555">{time:.3g} s</text>'
    )
