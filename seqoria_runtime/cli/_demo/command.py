"""The subcommand `demo`, and its arguments."""

import math
from argparse import ArgumentParser, ArgumentTypeError, Namespace

from seqoria_runtime.cli._command import Subcommand, add_backend_argument, run_on


def _add_arguments(parser: ArgumentParser) -> None:
    add_backend_argument(parser)
    parser.add_argument("--speed", type=_speed, default=1.0, help="2 is twice as fast (default: 1)")
    parser.add_argument("--plain", action="store_true", help="plain lines, without colours and motion")


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not 0 < speed < math.inf:
        raise ArgumentTypeError(f"must be a positive number, not {text!r}")
    return speed


def _run(arguments: Namespace) -> int:
    from seqoria_runtime.cli._interrupts import run_interruptibly
    from seqoria_runtime.cli._text import can_animate, make_console

    from .play import Pace, play

    console = make_console(plain=arguments.plain)
    animated = not arguments.plain and can_animate(console)
    return run_on(arguments.backend, run_interruptibly, play, console, Pace(arguments.speed), animated)


DEMO = Subcommand(
    name="demo",
    summary="Run one streamed turn with a graph of tools on a scripted model: no network, no keys.",
    add_arguments=_add_arguments,
    run=_run,
)
