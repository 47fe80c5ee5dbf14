"""Shows a turn while it runs: as an animated table, or as plain lines."""

import json
from collections.abc import Callable
from typing import TypeAlias

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from seqoria_runtime.cli._text import Labelled, one_line, printable
from seqoria_runtime.models import ChatChunk, ToolCallError, ToolCallResult

from .board import Board, DemoCall
from .summary import STYLES


def outcome_text(call: DemoCall) -> str:
    if isinstance(call.outcome, ToolCallResult):
        return one_line(_compact(call.outcome.result))
    if isinstance(call.outcome, ToolCallError):
        text = one_line(call.outcome.error).removeprefix(f"Tool {call.name!r} ")
        return text.removeprefix("failed: ").removeprefix("timed out ")
    return ""


def _compact(text: str) -> str:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False)
    except ValueError:
        return text


def _paragraphs(thinking: str, text: str) -> RenderableType:
    lines = []
    if thinking:
        lines.append(Labelled("thinking", printable(thinking), style="italic dim"))
    if text:
        lines.append(Labelled("assistant", printable(text), style="bold"))
    return Group(*lines)


class PlainView:
    """Prints a line for each event."""

    def __init__(self, console: Console, board: Board) -> None:
        self._console = console
        self._board = board
        self._thinking = ""
        self._text = ""
        self._early: list[tuple[DemoCall, Text]] = []
        self._calls_shown = False

    def chunk(self, chunk: ChatChunk) -> None:
        self._thinking += chunk.thinking or ""
        self._text += chunk.content

    def changed(self, call: DemoCall) -> None:
        if call.thread_ended_at is not None and call.settled_at is not None:
            self._print(_event(call, call.thread_ended_at, "thread", "has ended; its slot is free again"))
        elif call.started_at is not None and call.outcome is None:
            after = f"after {', '.join(call.waits_for)}" if call.waits_for else ""
            self._early.append((call, _event(call, call.started_at, "running", after)))
        else:
            self._print(_event(call, call.settled_at, call.state, outcome_text(call)))
        self._print_started()

    def pause(self) -> None:
        self._print_text()
        self._end_calls()

    def tick(self) -> None:
        pass

    def _print_started(self) -> None:
        # A call starts a moment before the turn's consumer gets the outcome that the call waited for.
        for call, line in list(self._early):
            if not self._board.unsettled_before(call):
                self._print_text()
                self._early.remove((call, line))
                self._print(line)

    def _print_text(self) -> None:
        if self._thinking or self._text:
            self._end_calls()
            self._console.print(_paragraphs(self._thinking, self._text))
            self._console.print()
        self._thinking = self._text = ""

    def _print(self, line: Text) -> None:
        self._calls_shown = True
        self._console.print(line, no_wrap=True, overflow="ellipsis", crop=True)

    def _end_calls(self) -> None:
        if self._calls_shown:
            self._console.print()
        self._calls_shown = False


def _event(call: DemoCall, at: float | None, word: str, text: str) -> Text:
    return Text(f"  {at or 0.0:5.2f} s  {call.name:<9} {word:<10} {text}".rstrip())


class LiveView:
    """Shows text as it grows, and a table of the calls that is redrawn in place."""

    def __init__(self, console: Console, board: Board) -> None:
        self._console = console
        self._board = board
        self._live: Live | None = None
        self._shown: Callable[[], RenderableType] | None = None
        self._wanted: Callable[[], RenderableType] | None = None
        self._thinking = ""
        self._text = ""
        self._spinner = Spinner("dots" if not console.options.ascii_only else "line", style="cyan")

    def chunk(self, chunk: ChatChunk) -> None:
        self._wanted = self._paragraphs
        self._thinking += chunk.thinking or ""
        self._text += chunk.content
        self.tick()

    def changed(self, call: DemoCall) -> None:
        # Drawn at the next tick, since drawing takes a while and calls are just starting.
        if call.thread_ended_at is None:
            self._wanted = self._calls

    def pause(self) -> None:
        self._show(self._wanted)
        self._show(None)
        self._wanted = None
        self._thinking = self._text = ""

    def tick(self) -> None:
        self._show(self._wanted)
        if self._live is not None:
            self._live.refresh()

    def _show(self, wanted: Callable[[], RenderableType] | None) -> None:
        if self._shown == wanted:
            return
        if self._live is not None:
            self._live.stop()
            self._console.print()
        self._live = (
            None if wanted is None else Live(console=self._console, auto_refresh=False, get_renderable=wanted)
        )
        self._shown = wanted
        if self._live is not None:
            self._live.start()

    def _paragraphs(self) -> RenderableType:
        return _paragraphs(self._thinking, self._text)

    def _calls(self) -> RenderableType:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, expand=True, header_style="dim")
        table.add_column("call", no_wrap=True)
        table.add_column("waits for", no_wrap=True, min_width=24)
        table.add_column("state", no_wrap=True, min_width=9)
        table.add_column("", width=1)
        table.add_column("time", no_wrap=True, min_width=6, justify="right")
        table.add_column("what came of it", no_wrap=True, overflow="ellipsis", ratio=1)
        for call in self._board.calls.values():
            table.add_row(*self._row(call))
        return table

    def _row(self, call: DemoCall) -> list[RenderableType]:
        unsettled = self._board.unsettled_before(call)
        waits_for = Text(", ").join(
            Text(name, style="" if name in unsettled else "dim") for name in call.waits_for
        )
        if call.state == "waiting" and not unsettled:
            waits_for = Text("a slot")
        return [
            Text(call.name),
            waits_for,
            Text(call.state, style=STYLES.get(call.state, "")),
            self._spinner if call.state == "running" else "",
            Text(self._time(call)),
            Text(outcome_text(call), style="dim"),
        ]

    def _time(self, call: DemoCall) -> str:
        if call.started_at is None:
            return ""
        end = self._board.now if call.settled_at is None else call.settled_at
        return f"{end - call.started_at:.2f} s"


View: TypeAlias = PlainView | LiveView
"""Shows the chunks of a turn and the calls that change. At a `pause`, what is shown is complete."""
