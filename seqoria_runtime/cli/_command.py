"""What a subcommand is, and how one runs its asynchronous part.

Knows none of the subcommands.
"""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVarTuple, Unpack

import anyio

from seqoria_runtime._base.checks import positive_int

Ts = TypeVarTuple("Ts")

SUCCESS = 0
FAILURE = 1
WRONG_USE = 2
INTERRUPTED = 130
"""The exit code of a program that ends by SIGINT, as shells have it."""
OUTPUT_CLOSED = 141
"""The same for SIGPIPE: the reader of the output, such as `head`, has gone."""


class CommandError(Exception):
    """A command cannot do what it was asked for; the text is the one line that its user reads."""


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand: a module makes one and `_main` lists it.

    `run` gives the exit code. It may raise `CommandError`, and must not import `rich` before it is
    called, so that a missing one is an error in words.
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
        help="a trusted value for hidden parameters; may be given several times",
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
    """Write what `argument` asked for. Raises `CommandError` if that is not possible."""
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{argument}: cannot write {file}: {error.strerror}") from error


def has_trio() -> bool:
    return find_spec("trio") is not None


def require_backend(backend: str) -> None:
    """Raise `CommandError` if this backend is not installed."""
    if backend == "trio" and not has_trio():
        raise CommandError("trio is not installed: pip install 'seqoria-runtime[trio]'")


def run_on(backend: str, async_fn: Callable[[Unpack[Ts]], Awaitable[int]], *args: *Ts) -> int:
    """Run `async_fn(*args)` in an event loop of its own; give its exit code, or that of an interruption.

    Raises `CommandError` if the backend is not installed, and `BrokenPipeError` alone, not in a
    group, if the output cannot be written because its reader has gone.
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
