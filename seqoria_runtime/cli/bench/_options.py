"""Owns the arguments of `seqoria-runtime bench limits`, and what is made of them."""

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from seqoria_runtime._base.checks import positive_int, positive_seconds
from seqoria_runtime.cli._command import (
    CommandError,
    add_backend_argument,
    add_context_argument,
    positive,
)
from seqoria_runtime.cli._toolbox import load_toolbox

if TYPE_CHECKING:
    from seqoria_runtime.tuning import ResourceSpec, Workload

RESOURCE_MODELS: tuple[Literal["sharing"], Literal["queueing"], Literal["thrashing"]] = (
    "sharing",
    "queueing",
    "thrashing",
)

DEFAULT_LIMITS = "1,2,4,8,16,32,64,128"


def add_limits_arguments(parser: ArgumentParser) -> None:
    """The arguments of `bench limits`."""
    add = parser.add_argument
    add("--toolbox", metavar="MODULE:NAME", help="a LocalToolbox of yours, such as my_app.tools:tools")
    add("--calls", type=Path, metavar="FILE", help="its calls: JSON lines, each a call or a list of calls")
    add_context_argument(parser)
    add(
        "--synthetic",
        metavar="DURATIONS",
        help="made-up calls instead of --toolbox: constant,value=..., uniform,low=...,high=..., "
        "exponential,mean=... or lognormal,median=50ms,p99=2s",
    )
    add(
        "--resource",
        metavar="MODEL,N",
        help="what made-up calls use: sharing, queueing or thrashing, and how many calls it serves at full "
        "speed (default: sharing,16)",
    )
    add("--count", type=positive, metavar="N", help="how many made-up calls (default: 400)")
    add(
        "--limits",
        type=_limits,
        default=DEFAULT_LIMITS,
        metavar="N,N,...",
        help=f"the limits to try; the lowest stands for no load (default: {DEFAULT_LIMITS})",
    )
    add("--no-refine", action="store_true", help="do not try limits between those around the knee as well")
    add(
        "--repetitions",
        type=positive,
        default=3,
        metavar="N",
        help="runs under each limit (default: 3)",
    )
    add("--timeout", type=_seconds, metavar="SECONDS", help="the time of one call (default: no limit)")
    add("--adaptive", action="store_true", help="show what an adaptive limit does with the same calls, too")
    add("--virtual", action="store_true", help="run in virtual time: hours take seconds")
    add("--seed", type=int, default=0, metavar="N", help="of the durations of made-up calls (default: 0)")
    add("--json", type=Path, metavar="FILE", help="write the report as JSON, too")
    add("--plot", type=Path, metavar="FILE.svg", help="write a picture of it, too")
    add_backend_argument(parser)


def check_arguments(arguments: Namespace) -> None:
    """Raise `CommandError` for arguments that do not go together."""
    if bool(arguments.toolbox) == bool(arguments.synthetic):
        raise CommandError("either --toolbox with --calls, or --synthetic has to be given")
    if arguments.toolbox and arguments.calls is None:
        raise CommandError("--toolbox needs --calls: the file with the calls to make")
    foreign = ("resource", "count") if arguments.toolbox else ("calls", "context")
    for name in foreign:
        if getattr(arguments, name):
            other = "--synthetic" if arguments.toolbox else "--toolbox"
            raise CommandError(f"--{name} goes with {other} only")
    _check_files(arguments)


def _check_files(arguments: Namespace) -> None:
    # A sweep may take hours, so what would stand in the way in the end is told before.
    if arguments.plot is not None and arguments.plot.suffix.lower() != ".svg":
        raise CommandError(
            f"--plot: {arguments.plot} must end in .svg, the one form that is written; browsers show it, and "
            "tools such as rsvg-convert make a PNG of it"
        )
    if arguments.json is not None and arguments.json == arguments.plot:
        raise CommandError(f"--json and --plot: both name {arguments.json}")
    for name in ("json", "plot"):
        file = getattr(arguments, name)
        if file is not None:
            _check_file(f"--{name}", file)


def _check_file(argument: str, file: Path) -> None:
    if not file.parent.is_dir():
        raise CommandError(f"{argument}: there is no folder {file.parent} to write {file.name} into")
    if file.is_dir():
        raise CommandError(f"{argument}: {file} is a folder")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise CommandError(f"{argument}: cannot write {file}: permission denied")


def workload_of(arguments: Namespace) -> "Workload":
    """What is to be run; raises `CommandError` that names the argument."""
    return _application(arguments) if arguments.toolbox else _synthetic(arguments)


def _application(arguments: Namespace) -> "Workload":
    from seqoria_runtime.tuning import CallsFileError, ToolboxWorkload, read_calls

    toolbox = load_toolbox(arguments.toolbox)
    try:
        lines = arguments.calls.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise CommandError(f"--calls: cannot read {arguments.calls}: {reason}") from error
    try:
        batches = read_calls(lines, {tool.name for tool in toolbox.tools})
    except CallsFileError as error:
        raise CommandError(f"--calls: {arguments.calls}: {error}") from error
    return ToolboxWorkload(toolbox, batches, dict(arguments.context))


def _synthetic(arguments: Namespace) -> "Workload":
    from seqoria_runtime.tuning import Durations, SyntheticWorkload

    try:
        durations = Durations.parse(arguments.synthetic)
    except ValueError as error:
        raise CommandError(f"--synthetic: {error}") from error
    spec = _resource(arguments.resource or "sharing,16")
    return SyntheticWorkload(durations, spec, arguments.count or 400, arguments.seed)


def _resource(text: str) -> "ResourceSpec":
    from seqoria_runtime.tuning import ResourceSpec

    name, _, capacity = text.partition(",")
    for model in RESOURCE_MODELS:
        if model == name and capacity.isdecimal() and int(capacity):
            return ResourceSpec(model, int(capacity))
    raise CommandError(
        f"--resource: must be one of {', '.join(RESOURCE_MODELS)} and how many calls it serves at full "
        f"speed, such as sharing,16, not {text!r}"
    )


def _seconds(text: str) -> float:
    try:
        return positive_seconds("SECONDS", float(text))
    except ValueError:
        raise ArgumentTypeError(f"must be a positive number of seconds, not {text!r}") from None


def _limits(text: str) -> Iterable[int]:
    try:
        return sorted({positive_int("N", int(part)) for part in text.split(",")})
    except ValueError:
        raise ArgumentTypeError(f"must be positive integers, such as 1,2,4,8, not {text!r}") from None
