"""Draws a finished turn: a timeline of the calls, the history, and what the model saw of a tool."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.console import RenderableType
from rich.text import Text

from seqoria_runtime.cli._text import Labelled, one_line
from seqoria_runtime.models import (
    AssistantMessage,
    ChatMessage,
    ToolCallError,
    ToolCallRequest,
    ToolCallResult,
    UserMessage,
)
from seqoria_runtime.providers import ModelRequest

from .board import Board, DemoCall

STYLES = {
    "waiting": "dim",
    "running": "cyan",
    "done": "green",
    "failed": "red",
    "timed out": "yellow",
    "skipped": "magenta",
}
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_MIN_TICK = 8


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters for a call that runs, waits for calls, waits for a slot, and for an abandoned thread."""

    runs: str
    waits: str
    queues: str
    thread: str


BLOCKS = Glyphs("█", "·", "░", "▒")
ASCII = Glyphs("#", ".", "-", "=")


def timeline(board: Board, *, width: int, glyphs: Glyphs) -> Text:
    """Draw all calls over one time axis, `width` columns wide, with a legend."""
    names = max(len(name) for name in board.calls) + 2
    states = max(len(_ending(call)) for call in board.calls.values()) + 2
    columns = max(width - names - states, 10)
    span = board.end or 1.0
    lines = []
    for call in board.calls.values():
        bar = _bar(board, call, columns, span, glyphs)
        ending = Text(f"  {_ending(call)}", style=STYLES.get(call.state, ""))
        lines.append(Text.assemble(call.name.ljust(names), bar, ending))
    lines += [Text(" " * names + _axis(columns, span), style="dim"), _legend(glyphs)]
    return Text("\n").join(lines)


def _ending(call: DemoCall) -> str:
    if call.started_at is None or call.settled_at is None:
        return call.state
    return f"{call.state} {call.settled_at - call.started_at:.2f} s"


def _bar(board: Board, call: DemoCall, columns: int, span: float, glyphs: Glyphs) -> Text:
    bar = Text()
    phases = list(_phases(board, call, glyphs))
    for column in range(columns):
        moment = (column + 0.5) * span / columns
        glyph, style = next(
            ((glyph, style) for start, end, glyph, style in phases if start <= moment < end), (" ", "")
        )
        bar.append(glyph, style)
    return bar


def _phases(board: Board, call: DemoCall, glyphs: Glyphs) -> Iterator[tuple[float, float, str, str]]:
    settled = board.end if call.settled_at is None else call.settled_at
    started = settled if call.started_at is None else call.started_at
    free = settled if call.started_at is None else min(board.free_to_start_at(call), started)
    yield 0.0, free, glyphs.waits, "dim"
    yield free, started, glyphs.queues, "dim"
    yield started, settled, glyphs.runs, STYLES.get(call.state, "")
    if call.in_thread:
        yield settled, call.thread_ended_at or board.end, glyphs.thread, "dim yellow"


def _axis(columns: int, span: float) -> str:
    step = next((step for step in _STEPS if step * columns / span >= _MIN_TICK), span)
    axis = ""
    for tick in range(round(span / step) + 1):
        column, label = round(tick * step * columns / span), f"|{tick * step:g}"
        if column + len(label) <= columns:
            axis = axis.ljust(column) + label
    return axis


def _legend(glyphs: Glyphs) -> Text:
    entries = (
        (glyphs.runs, "ran"),
        (glyphs.waits, "waited for calls"),
        (glyphs.queues, "waited for a slot"),
        (glyphs.thread, "thread ran on"),
    )
    return Text("   ".join(f"{glyph} {meaning}" for glyph, meaning in entries), style="dim")


def hidden_parameter(request: ModelRequest, call: DemoCall) -> Iterator[RenderableType]:
    """Show which parameters of the call's tool the model saw, and with which arguments it ran."""
    [shown] = [tool for tool in request.tools if tool.name == call.name]
    parameters = ", ".join(shown.parameters["properties"])
    arguments = ", ".join(f"{name}={value!r}" for name, value in (call.arguments or {}).items())
    yield Labelled("model sees", f"{call.name}({parameters})")
    yield Labelled("tool gets", f"{call.name}({arguments})")


def history_summary(history: Sequence[ChatMessage]) -> Iterator[RenderableType]:
    """Show the history in a few lines: its messages in order, and that each call has its answer."""
    answered = sum(
        isinstance(call, ToolCallRequest)
        and isinstance(outcome, ToolCallResult | ToolCallError)
        and outcome.tool_call_id == call.id
        for call, outcome in pairwise(history)
    )
    asked = sum(isinstance(message, ToolCallRequest) for message in history)
    for message in history:
        if isinstance(message, UserMessage | AssistantMessage):
            yield Labelled(message.role, one_line(str(message.content)))
        if isinstance(message, AssistantMessage) and message is not history[-1]:
            yield Labelled("calls", f"{asked} calls with {answered} answers: {_answers(history)}")
    size = len(json.dumps([message.model_dump(mode="json") for message in history]))
    yield Labelled("", f"{len(history)} messages, {size} characters as JSON")


def usage(message: AssistantMessage) -> RenderableType:
    used = message.usage
    if used is None:
        return Labelled("usage", "unknown")
    return Labelled("usage", f"{used.prompt_tokens} + {used.completion_tokens} tokens in both rounds")


def _answers(history: Sequence[ChatMessage]) -> str:
    counts = Counter(
        message.kind if isinstance(message, ToolCallError) else "done"
        for message in history
        if isinstance(message, ToolCallResult | ToolCallError)
    )
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())
