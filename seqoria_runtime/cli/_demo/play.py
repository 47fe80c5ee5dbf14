"""Plays the demo: opens a client on the scripted model, runs the turn and shows it."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.lowlevel import current_token
from rich.console import Console, RenderableType
from rich.text import Text

from seqoria_runtime.cli._command import SUCCESS
from seqoria_runtime.cli._text import Labelled
from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.models import AssistantMessage, ChatChunk, ToolMessages, ToolOutcome
from seqoria_runtime.testing import ScriptedProvider

from .board import Board
from .summary import ASCII, BLOCKS, hidden_parameter, history_summary, timeline, usage
from .tools import QUESTION, SLOTS, USER_ID, Weekend, make_toolbox, planned_calls, script
from .views import LiveView, PlainView, View

_WORD = 0.03
_TIMEOUT = 0.9
_FRAME = 0.08
_WIDEST = 120


def _block_thread(seconds: float) -> None:
    threading.Event().wait(seconds)


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the demo goes: `speed` 2 halves every time. `block` keeps a thread busy for some seconds."""

    speed: float = 1.0
    block: Callable[[float], object] = field(default=_block_thread)

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds / self.speed)

    def block_thread(self, seconds: float) -> None:
        self.block(seconds / self.speed)


async def play(console: Console, pace: Pace, animated: bool) -> int:
    """Run the turn and show it on the console; return the exit code. A cancelled caller ends the turn."""
    board = Board(planned_calls(), anyio.current_time)
    view: View = LiveView(console, board) if animated else PlainView(console, board)
    board.on_change = view.changed
    model = ScriptedProvider(script(_WORD / pace.speed))
    tools = make_toolbox(
        Weekend(pace.sleep, pace.block_thread), board, current_token(), timeout=_TIMEOUT / pace.speed
    )
    client = AsyncAIClient([model], local_toolbox=tools, max_concurrency=SLOTS, system_prompt="")
    history: list[Any] = []
    console.print(Labelled("user", QUESTION))
    async with client, anyio.create_task_group() as group:
        group.start_soon(_tick, view)
        try:
            await _turn(client, history, board, view)
        finally:
            view.pause()
            group.cancel_scope.cancel()
    glyphs = ASCII if console.options.ascii_only else BLOCKS
    picture = timeline(board, width=min(console.width, _WIDEST), glyphs=glyphs)
    _section(console, f"Who waited and who ran ({SLOTS} slots; calls that others wait for go first)", picture)
    hidden = hidden_parameter(model.requests[0], board.calls["profile"])
    _section(console, "A hidden parameter: user_id comes from the application's context", *hidden)
    left = (*history_summary(history), usage(history[-1]))
    _section(console, "The history, which is the application's own list", *left)
    console.print(Text("With a real model: seqoria-runtime chat --base-url URL --model NAME", style="dim"))
    return SUCCESS


async def _turn(client: AsyncAIClient, history: list[Any], board: Board, view: View) -> None:
    context = {"user_id": USER_ID}
    async with client.stream_chat(QUESTION, history=history, context=context, tool_events=True) as turn:
        async for event in turn:
            match event:
                case ChatChunk():
                    view.chunk(event)
                case ToolOutcome(request, outcome):
                    board.settled(request, outcome)
                case ToolMessages() | AssistantMessage():
                    view.pause()


async def _tick(view: View) -> None:
    while True:
        await anyio.sleep(_FRAME)
        view.tick()


def _section(console: Console, title: str, *lines: RenderableType) -> None:
    console.print(Text(title, style="bold"))
    for line in lines:
        console.print(line)
    console.print()
