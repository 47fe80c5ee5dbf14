"""The subcommand `check`: property tests of an application's own toolbox."""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ._command import (
    FAILURE,
    SUCCESS,
    CommandError,
    Subcommand,
    add_context_argument,
    has_trio,
    load_toolbox,
    positive,
    require_backend,
    write_report,
)

if TYPE_CHECKING:
    from seqoria_runtime.testing import Backend


def _add_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("toolbox", metavar="MODULE:NAME", help="the LocalToolbox to check, such as my_app.tools:tools")
    add("--examples", type=positive, default=50, metavar="N", help="examples of each property (default: 50)")
    add("--seed", type=int, metavar="N", help="the seed of the examples (default: drawn, and reported)")
    add("--json", type=Path, metavar="FILE", help="also write the report as JSON")
    add(
        "--backend",
        choices=["asyncio", "trio", "both"],
        default="both",
        help="what to run on (default: both)",
    )
    add_context_argument(parser)
    add(
        "--allow",
        action="append",
        default=[],
        metavar="EXCEPTION",
        help="a class of exceptions that tools raise on purpose; may be repeated",
    )


def _run(arguments: Namespace) -> int:
    if find_spec("hypothesis") is None:
        raise CommandError("hypothesis is not installed: pip install 'seqoria-runtime[testing]'")
    from seqoria_runtime.testing.toolbox_check import check_toolbox

    from ._text import make_console, printable

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
        write_report("--json", arguments.json, json.dumps(report.as_json(), indent=2) + "\n")
    return SUCCESS if report.ok else FAILURE


def _backends(chosen: str) -> "Sequence[Backend]":
    if chosen == "trio":
        require_backend(chosen)
        return ("trio",)
    return ("asyncio", "trio") if chosen == "both" and has_trio() else ("asyncio",)


CHECK = Subcommand(
    name="check",
    summary="Property-test a toolbox: valid and invalid arguments, batches, timeouts, cancellation, leaks.",
    add_arguments=_add_arguments,
    run=_run,
)
