"""Records what tool calls do over time, and draws it as SVG."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from seqoria_runtime._base import checks as _checks
from seqoria_runtime.client import CallEvent
from seqoria_runtime.models import ToolCallError, ToolCallOutcome

from ._svg import bar, document, line, text

_ROW, _LEFT, _WIDTH = 20, 190, 900
_MAX_NAME = 24
_COLOURS = {"result": "#2e7d32", "failed": "#b3261e", "skipped": "#9a9a9a", "cancelled": "#c9620a"}


@dataclass(frozen=True, slots=True)
class CallSpan:
    """A call's times, in seconds of the event loop's clock.

    `started` is `None` for a call that has not run, `ended` and `outcome` for one that has not ended.
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
    """An observer that keeps the last `maxlen` calls: `AsyncAIClient(..., observers=[Timeline()])`.

    Raises `ValueError`, which names the option.
    """

    def __init__(self, maxlen: int = 10_000) -> None:
        self._maxlen = _checks.positive_int("maxlen", maxlen)
        self._spans: dict[tuple[int, int], CallSpan] = {}

    def __call__(self, event: CallEvent) -> None:
        """Record an event."""
        key = event.batch, event.position
        if event.kind == "queued":
            self._spans[key] = CallSpan(event.batch, event.position, event.request.name, event.time)
            while len(self._spans) > self._maxlen:
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
        """The calls so far, in the order in which they were queued."""
        return tuple(self._spans.values())

    def clear(self) -> None:
        """Forget all calls."""
        self._spans.clear()

    def svg(self) -> str:
        """Return the calls as a picture, with a row for each: pale while it waits, full while it runs."""
        return _svg(self.spans)


def _svg(spans: Sequence[CallSpan]) -> str:
    times = [time for span in spans for time in (span.queued, span.started, span.ended) if time is not None]
    first, last = (min(times), max(times)) if times else (0.0, 1.0)
    height = 40 + _ROW * len(spans) + 30
    scale = (_WIDTH - _LEFT - 20) / ((last - first) or 1.0)

    def x(time: float) -> float:
        return _LEFT + (time - first) * scale

    parts = [text(_LEFT + 90 * n, 22, name, colour=_COLOURS[name]) for n, name in enumerate(_COLOURS)]
    for time in (first + (last - first) * part / 4 for part in range(5)):
        parts.append(line([(x(time), 34), (x(time), height - 24)], "#e3e3e3"))
        parts.append(text(x(time), height - 8, f"{time - first:.3g} s", colour="#555", anchor="middle"))
    parts += (_row(span, 40 + _ROW * n, x, last) for n, span in enumerate(spans))
    return document(_WIDTH, height, *parts)


def _row(span: CallSpan, top: int, x: Callable[[float], float], last: float) -> str:
    colour = _COLOURS.get(span.state, "#2563a8")
    ended = last if span.ended is None else span.ended
    started = ended if span.started is None else span.started
    name = span.tool if len(span.tool) <= _MAX_NAME else span.tool[: _MAX_NAME - 1] + "…"
    tip = f"{span.tool}: waited {started - span.queued:.3g} s, ran {ended - started:.3g} s, {span.state}"
    waited = bar(x(span.queued), top + 8, x(started) - x(span.queued), _ROW - 16, colour, 0.4)
    ran = "" if span.started is None else bar(x(started), top + 3, x(ended) - x(started), _ROW - 6, colour)
    return f"<g><title>{escape(tip)}</title>{text(_LEFT - 8, top + 14, name, anchor='end')}{waited}{ran}</g>"
