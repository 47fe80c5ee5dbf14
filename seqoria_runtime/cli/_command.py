"""What a subcommand is, and how one runs its asynchronous part.

Knows none of the subcommands.
"""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TypeVarTuple, Unpack

import anyio

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


def key_and_value(text: str) -> tuple[str, str]:
    """Read an argument of the form NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ArgumentTypeError(f"must be NAME=VALUE, not {text!r}")
    return name, value


def run_on(backend: str, async_fn: Callable[[Unpack[Ts]], Awaitable[int]], *args: *Ts) -> int:
    """Run `async_fn(*args)` in an event loop of its own; give its exit code, or that of an interruption.

    Raises `CommandError` if the backend is not installed, and `BrokenPipeError` alone, not in a
    group, if the output cannot be written because its reader has gone.
    """
    if backend == "trio" and find_spec("trio") is None:
        raise CommandError("trio is not installed: pip install 'seqoria-runtime[trio]'")
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
