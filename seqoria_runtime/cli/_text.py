"""Owns what the command writes: its consoles, and text from outside made safe for a terminal."""

import re
import sys
from collections.abc import Iterator

from rich.console import Console, ConsoleOptions
from rich.text import Text

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LABEL_WIDTH = 11
_SPACE = re.compile(r"\s+")


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let the command end by the error; rich's own `SystemExit` does not get out of a task group.

        The console does not fall silent: where a tool's call swallows the error, the next line raises.
        """
        raise BrokenPipeError


def make_console(*, stderr: bool = False, plain: bool = False) -> Console:
    """A console without rich's own interpretation of text; `plain` takes colours and motion away."""
    return _Console(
        stderr=stderr,
        highlight=False,
        markup=False,
        emoji=False,
        force_terminal=False if plain else None,
        color_system=None if plain else "auto",
    )


def can_animate(console: Console) -> bool:
    """Whether lines that were written can be written again: on a terminal that is not a dumb one."""
    return console.is_interactive and sys.stdout.isatty()


def printable(text: str) -> str:
    """Text without control characters, which could do anything to a terminal; line ends and tabs stay."""
    return _CONTROL.sub("", text)


def one_line(text: str) -> str:
    return _SPACE.sub(" ", printable(text)).strip()


class Labelled:
    """A paragraph beside its label, for rich to print."""

    def __init__(self, label: str, text: str, *, style: str = "") -> None:
        self._label = label
        self._text = Text(text, style=style)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        width = max(options.max_width - _LABEL_WIDTH, _LABEL_WIDTH)
        for number, line in enumerate(self._text.wrap(console, width)):
            line.rstrip()
            yield Text.assemble((("" if number else self._label).ljust(_LABEL_WIDTH), "dim"), line)
