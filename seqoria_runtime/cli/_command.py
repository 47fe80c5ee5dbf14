"""What all subcommands share: their arguments, their toolboxes, and how they run asynchronous code."""

import importlib
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVarTuple, Unpack

import anyio

from seqoria_runtime._base.checks import positive_int

if TYPE_CHECKING:
    from seqoria_runtime.toolbox import LocalToolbox

Ts = TypeVarTuple("Ts")

SUCCESS = 0
FAILURE = 1
WRONG_USE = 2
INTERRUPTED = 130
"""The exit code of a program that ends by SIGINT, as in shells."""
OUTPUT_CLOSED = 141
"""The same for SIGPIPE: the reader of the output, such as `head`, has gone."""


class CommandError(Exception):
    """A command cannot do its work; the text is the one line that the user reads."""


@dataclass(frozen=True, slots=True)
class Subcommand:
    """A subcommand: a module creates it, and `_main` lists it.

    `run` returns the exit code. It may raise `CommandError`. Only `run` may import `rich`, so that a
    missing `rich` is a clear error.
    """

    name: str
    summary: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]


def add_backend_argument(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--backend", choices=["asyncio", "trio"], default="asyncio", help="what to run on (default: asyncio)"
    )


def add_context_argument(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--context",
        action="append",
        default=[],
        type=key_and_value,
        metavar="NAME=VALUE",
        help="a trusted value for hidden parameters; may be repeated",
    )


def key_and_value(text: str) -> tuple[str, str]:
    """Read an argument of the form NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ArgumentTypeError(f"must be NAME=VALUE, not {text!r}")
    return name, value


def positive(text: str) -> int:
    """Read an argument that is a positive integer."""
    try:
        return positive_int("N", int(text))
    except ValueError:
        raise ArgumentTypeError(f"must be a positive integer, not {text!r}") from None


def write_report(argument: str, file: Path, text: str) -> None:
    """Write the file that `argument` names; raise `CommandError` if that is not possible."""
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{argument}: cannot write {file}: {error.strerror}") from error


def load_toolbox(place: str, *, argument: str = "--toolbox") -> "LocalToolbox":
    """Import a toolbox by `module:name`, also from the current directory.

    Raises `CommandError`, which says what is wrong with this `argument` of the command line.
    """
    from seqoria_runtime.toolbox import LocalToolbox

    module_name, colon, name = place.partition(":")
    if not colon or not module_name or not name:
        raise CommandError(f"{argument}: must be MODULE:NAME, such as my_app.tools:tools, not {place!r}")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise CommandError(
            f"{argument}: cannot import {module_name!r}: {type(error).__name__}: {error}"
        ) from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise CommandError(f"{argument}: module {module_name!r} has no {name!r}")
        found = getattr(found, part)
    if not isinstance(found, LocalToolbox):
        raise CommandError(f"{argument}: {place} must be a LocalToolbox, not {type(found).__name__}")
    return found


def has_trio() -> bool:
    return find_spec("trio") is not None


def require_backend(backend: str) -> None:
    """Raise `CommandError` if this backend is not installed."""
    if backend == "trio" and not has_trio():
        raise CommandError("trio is not installed: pip install 'seqoria-runtime[trio]'")


def run_on(backend: str, async_fn: Callable[[Unpack[Ts]], Awaitable[int]], *args: *Ts) -> int:
    """Run `async_fn(*args)` in a new event loop; return its exit code, or that of an interruption.

    Raises `CommandError` if the backend is not installed, and a `BrokenPipeError` outside of any group
    if the reader of the output has gone.
    """
    require_backend(backend)
    code = INTERRUPTED
    output_closed = False
    try:
        code = anyio.run(async_fn, *args, backend=backend)
    except* KeyboardInterrupt:
        pass
    except* BrokenPipeError:
        output_closed = True
    if output_closed:
        raise BrokenPipeError
    return code
