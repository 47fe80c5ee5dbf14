"""Shows a conversation: answers on one console and everything else on another, in complete lines."""

from rich.console import Console
from rich.text import Text

from seqoria_runtime.cli._text import one_line, printable
from seqoria_runtime.models import (
    AssistantMessage,
    ChatChunk,
    LLMUsage,
    ToolCallError,
    ToolCallRequest,
    ToolMessages,
    ToolOutcome,
    ToolProgress,
)


class ChatView:
    """Prints text as it comes. `answers` and `notes` may be the same terminal."""

    def __init__(self, answers: Console, notes: Console) -> None:
        self._answers = answers
        self._notes = notes
        self._open: tuple[Console, str] | None = None
        self._streamed = False

    def event(self, event: ChatChunk | ToolOutcome | ToolProgress | ToolMessages | AssistantMessage) -> None:
        """Show an event of a turn."""
        match event:
            case ChatChunk():
                self._write(self._notes, event.thinking or "", "dim italic")
                self._write(self._answers, event.content, "")
                self._streamed = self._streamed or bool(event.content)
            case ToolOutcome():
                self._outcome(event)
            case ToolMessages():
                self._streamed = False
            case AssistantMessage():
                if not self._streamed:
                    self._write(self._answers, event.content, "")
                self.end_turn()

    def end_turn(self) -> None:
        """End the line after a turn, however that ended."""
        self._end_line()
        self._streamed = False

    def prompt(self) -> None:
        self._notes.out("> ", end="", highlight=False)
        self._open = None

    def note(self, text: str, *, style: str = "dim") -> None:
        self._end_line()
        # A file or another program needs complete lines.
        self._notes.print(Text(printable(text), style=style), soft_wrap=not self._notes.is_terminal)

    def error(self, error: Exception) -> None:
        self.note(f"{type(error).__name__}: {one_line(str(error))}", style="red")

    def usage(self, usage: LLMUsage | None, *, of: str) -> None:
        if usage is not None:
            self.note(f"{of}: {usage.prompt_tokens} prompt + {usage.completion_tokens} completion tokens")

    def _outcome(self, event: ToolOutcome) -> None:
        self._end_line()
        outcome = event.outcome
        failed = isinstance(outcome, ToolCallError)
        text = outcome.error if isinstance(outcome, ToolCallError) else outcome.result
        line = Text.assemble(
            (f"{_call(event.request)}: ", "dim"), (one_line(text), "red" if failed else "dim")
        )
        self._notes.print(line, no_wrap=True, overflow="ellipsis")

    def _write(self, console: Console, text: str, style: str) -> None:
        text = printable(text)
        if not text:
            return
        if self._open != (console, style):
            self._end_line()
        if style:
            console.out(text, style=style, highlight=False, end="")
        else:  # rich would replace tabs by spaces
            console.file.write(text)
            console.file.flush()
        self._open = None if text.endswith("\n") else (console, style)

    def _end_line(self) -> None:
        if self._open is not None:
            self._open[0].out("", highlight=False)
        self._open = None


def _call(request: ToolCallRequest) -> str:
    return one_line(f"{request.name}({', '.join(f'{k}={v!r}' for k, v in request.arguments.items())})")
