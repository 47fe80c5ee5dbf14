"""The consoles of the command, and text from outside made safe for a terminal."""

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
        """Raise the error, since rich's own `SystemExit` does not get out of a task group.

        The console stays active: if a tool's call swallows the error, the next line raises it again.
        """
        raise BrokenPipeError


def make_console(*, stderr: bool = False, plain: bool = False) -> Console:
    """Return a console that does not interpret text; `plain` turns colours and motion off."""
    return _Console(
        stderr=stderr,
        highlight=False,
        markup=False,
        emoji=False,
        force_terminal=False if plain else None,
        color_system=None if plain else "auto",
    )


def can_animate(console: Console) -> bool:
    """Return whether lines can be overwritten: on a terminal that is not a dumb one."""
    return console.is_interactive and sys.stdout.isatty()


def printable(text: str) -> str:
    """Return the text without control characters, except for line ends and tabs."""
    return _CONTROL.sub("", text)


def one_line(text: str) -> str:
    return _SPACE.sub(" ", printable(text)).strip()


class Labelled:
    """A paragraph with a label at its left, for rich to print."""

    def __init__(self, label: str, text: str, *, style: str = "") -> None:
        self._label = label
        self._text = Text(text, style=style)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        width = max(options.max_width - _LABEL_WIDTH, _LABEL_WIDTH)
        for number, line in enumerate(self._text.wrap(console, width)):
            line.rstrip()
            yield Text.assemble((("" if number else self._label).ljust(_LABEL_WIDTH), "dim"), line)
