"""Owns the arguments of `seqoria-runtime check`, and how its report is written."""

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from seqoria_runtime._checks import positive_int
from seqoria_runtime.cli._command import FAILURE, SUCCESS, Command, CommandError, key_and_value

if TYPE_CHECKING:
    from seqoria_runtime.testing import Backend
    from seqoria_runtime.testing.toolbox_check import ToolboxReport


def _add_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("toolbox", metavar="MODULE:NAME", help="the LocalToolbox to check, such as my_app.tools:tools")
    add(
        "--examples",
        type=_positive,
        default=50,
        metavar="N",
        help="examples of each property (default: 50)",
    )
    add("--seed", type=int, metavar="N", help="make the same examples again (default: drawn, and told)")
    add("--json", type=Path, metavar="FILE", help="write the report as JSON, too")
    add(
        "--backend",
        choices=["asyncio", "trio", "both"],
        default="both",
        help="what to run on (default: both)",
    )
    add(
        "--context",
        action="append",
        default=[],
        type=key_and_value,
        metavar="NAME=VALUE",
        help="a trusted value for hidden parameters; may be given several times",
    )
    add(
        "--allow",
        action="append",
        default=[],
        metavar="EXCEPTION",
        help="a class of exceptions that tools raise on purpose; may be given several times",
    )


def _positive(text: str) -> int:
    try:
        return positive_int("N", int(text))
    except ValueError:
        raise ArgumentTypeError(f"must be a positive integer, not {text!r}") from None


def _run(arguments: Namespace) -> int:
    if find_spec("hypothesis") is None:
        raise CommandError("hypothesis is not installed: pip install 'seqoria-runtime[testing]'")
    from seqoria_runtime.cli._text import make_console, printable
    from seqoria_runtime.cli._toolbox import load_toolbox
    from seqoria_runtime.testing.toolbox_check import check_toolbox

    toolbox = load_toolbox(arguments.toolbox, argument="MODULE:NAME")
    if not toolbox.tools:
        raise CommandError(f"MODULE:NAME: {arguments.toolbox} has no tools to check")
    report = check_toolbox(
        toolbox,
        examples=arguments.examples,
        seed=arguments.seed,
        backends=_backends(arguments.backend),
        context=dict(arguments.context),
        allow=arguments.allow,
    )
    make_console(plain=True).print(printable(str(report)), soft_wrap=True)
    if arguments.json is not None:
        _write(report, arguments.json)
    return SUCCESS if report.ok else FAILURE


def _backends(chosen: str) -> "Sequence[Backend]":
    has_trio = find_spec("trio") is not None
    if chosen == "trio" and not has_trio:
        raise CommandError("trio is not installed: pip install 'seqoria-runtime[trio]'")
    if chosen == "asyncio" or not has_trio:
        return ("asyncio",)
    return ("trio",) if chosen == "trio" else ("asyncio", "trio")


def _write(report: "ToolboxReport", file: Path) -> None:
    try:
        file.write_text(json.dumps(report.as_json(), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--json: cannot write {file}: {error.strerror}") from error


CHECK = Command(
    name="check",
    summary="Property-test a toolbox: valid and invalid arguments, batches, timeouts, cancellation, leaks.",
    add_arguments=_add_arguments,
    run=_run,
)
