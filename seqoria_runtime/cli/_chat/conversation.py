"""A conversation: its history, and the loop of questions and turns."""

import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from seqoria_runtime.cli._command import FAILURE, INTERRUPTED, SUCCESS
from seqoria_runtime.cli._interrupts import Interrupts
from seqoria_runtime.cli._text import make_console
from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.client._turn import TURN_LIMIT_TEXT
from seqoria_runtime.models import AssistantMessage, LLMUsage
from seqoria_runtime.providers import AsyncOpenAICompatibleProvider
from seqoria_runtime.toolbox import LocalToolbox

from .lines import LineReader
from .view import ChatView


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """The user's options; `once` is the only question, or `None` for a conversation."""

    toolboxes: Sequence[LocalToolbox] = ()
    context: Mapping[str, Any] = field(default_factory=dict)
    tool_choice: str = "auto"
    system_prompt: str | None = None
    max_turns: int = 5
    once: str | None = None


async def converse(provider: AsyncOpenAICompatibleProvider, options: ChatOptions) -> int:
    """Answer one question, or talk until the input ends or is interrupted; return the exit code.

    A cancelled caller ends the conversation.
    """
    view = ChatView(make_console(), make_console(stderr=True))
    interrupts = Interrupts()
    client = AsyncAIClient(
        [provider],
        local_toolbox=list(options.toolboxes),
        system_prompt=options.system_prompt,
        logger=_quiet_logger(),
    )
    async with anyio.create_task_group() as group:
        await group.start(interrupts.watch)
        async with provider, client:
            conversation = _Chat(client, options, view, interrupts)
            if options.once is not None:
                code = await conversation.turn(options.once)
            else:
                tools = len(client.list_tools())
                view.note(f"{provider.model_id}, {tools} tool{'' if tools == 1 else 's'}. {_KEYS}")
                code = await conversation.talk(LineReader(sys.stdin.fileno()), prompt=sys.stdin.isatty())
        group.cancel_scope.cancel("the conversation is over")
    return code


def _quiet_logger() -> logging.Logger:
    """Return a logger without warnings, such as that there are no tools: the user can see that."""
    logger = logging.getLogger(__name__)
    logger.setLevel(logging.ERROR)
    return logger


def _is_turn_limit(event: object) -> bool:
    """Return whether the client ended the turn at its limit."""
    return isinstance(event, AssistantMessage) and event.finish_reason == "turn_limit"


_KEYS = "Ctrl-C stops an answer; Ctrl-D or Ctrl-C here ends."


class _Chat:
    def __init__(
        self, client: AsyncAIClient, options: ChatOptions, view: ChatView, interrupts: Interrupts
    ) -> None:
        self._client = client
        self._options = options
        self._view = view
        self._interrupts = interrupts
        self._history: list[Any] = []
        self._usage: LLMUsage | None = None

    async def talk(self, lines: LineReader, *, prompt: bool) -> int:
        """Ask each line that is not blank, until the lines end or Ctrl-C; return the exit code."""
        while True:
            if prompt:
                self._view.prompt()
            with self._interrupts.interruptible() as scope:
                question = await lines.line()
            if scope.cancelled_caught or question is None:
                self._view.usage(self._usage, of="in all")
                return INTERRUPTED if scope.cancelled_caught else SUCCESS
            if question.strip():
                await self.turn(question)

    async def turn(self, question: str) -> int:
        """Run one turn and show it; return an exit code. The history stays valid, even after a failure."""
        code = INTERRUPTED
        with self._interrupts.interruptible(on_stop=self._note_stopping):
            try:
                code = await self._run(question)
            except BrokenPipeError:
                raise
            except Exception as error:  # noqa: BLE001 - one bad turn must not end the conversation
                self._view.error(error)
                code = FAILURE
        self._view.end_turn()
        return code

    def _note_stopping(self) -> None:
        self._view.note("Stopping; Ctrl-C again leaves at once.")

    async def _run(self, question: str) -> int:
        options = self._options
        code = SUCCESS
        async with self._client.stream_chat(
            question,
            history=self._history,
            context=options.context,
            max_turns=options.max_turns,
            tool_choice=options.tool_choice,
            keep_partial=True,
            tool_events=True,
        ) as turn:
            async for event in turn:
                if _is_turn_limit(event):
                    self._view.note(TURN_LIMIT_TEXT)
                    code = FAILURE
                    continue
                self._view.event(event)
                if isinstance(event, AssistantMessage):
                    self._count(event.usage)
        return code

    def _count(self, usage: LLMUsage | None) -> None:
        self._view.usage(usage, of="this turn")
        if usage is not None:
            self._usage = usage if self._usage is None else self._usage + usage
