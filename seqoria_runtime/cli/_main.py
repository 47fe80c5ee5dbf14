"""The command line: its subcommands, and the messages and exit codes of their failures."""

import io
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec

from ._bench.command import BENCH
from ._chat.command import CHAT
from ._check import CHECK
from ._command import INTERRUPTED, OUTPUT_CLOSED, WRONG_USE, CommandError, Subcommand
from ._demo.command import DEMO

PROGRAM = "seqoria-runtime"
COMMANDS: Sequence[Subcommand] = (DEMO, CHAT, CHECK, BENCH)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default those of the process; return its exit code.

    0 is success, 1 a failure, 2 wrong use, 130 an interruption by Ctrl-C, and 141 means that the reader
    of the output has gone.
    """
    try:
        parsed = _parse(arguments)
    except SystemExit as exit_:  # --help, --version, or arguments that argparse has complained about
        return exit_.code if isinstance(exit_.code, int) else WRONG_USE
    _never_fail_to_write()
    try:
        code = _run(parsed)
        if sys.stdout is not None:  # `None` if the program was started without one
            sys.stdout.flush()
        return code
    except CommandError as error:
        print(f"{PROGRAM} {parsed.command.name}: error: {error}", file=sys.stderr)
        return WRONG_USE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return OUTPUT_CLOSED


def _parse(arguments: Sequence[str] | None) -> Namespace:
    parsed, unknown = _parser().parse_known_args(arguments)
    if unknown:  # argparse itself would show the usage of the whole program
        parsed.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return parsed


def _run(parsed: Namespace) -> int:
    command: Subcommand = parsed.command
    if find_spec("rich") is None:
        raise CommandError("rich is not installed: pip install 'seqoria-runtime[cli]'")
    return command.run(parsed)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog=PROGRAM, description="Structured execution of tool-calling assistant turns.")
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {version(PROGRAM)}")
    subparsers = parser.add_subparsers(metavar="command", required=True)
    for command in COMMANDS:
        subparser = subparsers.add_parser(command.name, help=command.summary, description=command.summary)
        command.add_arguments(subparser)
        subparser.set_defaults(command=command, parser=subparser)
    return parser


def _never_fail_to_write() -> None:
    """Write characters that the terminal's encoding lacks as `?`: a model may write anything."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _discard_output() -> None:
    """Keep the interpreter from complaining at exit about output that it cannot write."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
