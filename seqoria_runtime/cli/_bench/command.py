"""The subcommand `bench`: measurements of an application's own tools."""

import json
import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from seqoria_runtime._base.checks import positive_int, positive_seconds
from seqoria_runtime.cli._command import (
    INTERRUPTED,
    SUCCESS,
    CommandError,
    Subcommand,
    add_backend_argument,
    add_context_argument,
    load_toolbox,
    positive,
    require_backend,
    run_on,
    write_report,
)
from seqoria_runtime.cli._interrupts import run_interruptibly

if TYPE_CHECKING:
    from rich.console import Console

    from seqoria_runtime.client import LimitChange
    from seqoria_runtime.tuning import LimitReport, Progress, ResourceSpec, Run, Workload

_RESOURCE_MODELS: tuple[Literal["sharing"], Literal["queueing"], Literal["thrashing"]] = (
    "sharing",
    "queueing",
    "thrashing",
)

_DEFAULT_LIMITS = "1,2,4,8,16,32,64,128"
_ENDED_BY_A_TOOL = -1


def _add_arguments(parser: ArgumentParser) -> None:
    kinds = parser.add_subparsers(metavar="what", required=True)
    summary = "Run the same calls under several limits on concurrency, and recommend one."
    limits = kinds.add_parser("limits", help=summary, description=summary)
    _add_limits_arguments(limits)
    limits.set_defaults(parser=limits)


def _run(arguments: Namespace) -> int:
    from seqoria_runtime.cli._text import make_console

    from .view import show_report

    _check_arguments(arguments)
    run = _BenchRun(arguments, _workload_of(arguments), make_console(stderr=True))
    code = run.start()
    report = run.report()
    if report is None:
        make_console(stderr=True).print(
            "Interrupted before the first run had ended: there is nothing to show."
        )
        return code
    failures = _write_files(arguments, report)  # before the output, whose reader may have gone
    show_report(make_console(), report, interrupted=code == INTERRUPTED)
    if failures:
        raise CommandError("; ".join(failures))
    return code


def _write_files(arguments: Namespace, report: "LimitReport") -> list[str]:
    """Write the files; return the failures, which do not keep the other file from being written."""
    from seqoria_runtime.tuning import svg_of

    texts: dict[str, Callable[[], str]] = {
        "json": lambda: json.dumps(report.as_json(), indent=2) + "\n",
        "plot": lambda: svg_of(report),
    }
    failures = []
    for name, text in texts.items():
        file = getattr(arguments, name)
        try:
            if file is not None:
                write_report(f"--{name}", file, text())
        except CommandError as error:
            failures.append(str(error))
    return failures


class _BenchRun:
    """A sweep that can be interrupted and keeps what it has measured."""

    def __init__(self, arguments: Namespace, workload: "Workload", console: "Console") -> None:
        self._arguments = arguments
        self._workload = workload
        self._console = console
        self._runs: list[Run] = []
        self._adaptive: tuple[LimitChange, ...] = ()

    def start(self) -> int:
        code = _ENDED_BY_A_TOOL
        try:
            code = self._run()
        except* SystemExit:  # on asyncio it leaves the event loop at once
            pass
        if code == _ENDED_BY_A_TOOL:
            raise CommandError("a tool raised SystemExit, which ends the program: it cannot be measured")
        return code

    def _run(self) -> int:
        arguments = self._arguments
        if not arguments.virtual:
            return run_on(arguments.backend, run_interruptibly, self._measure_or_end)
        from seqoria_runtime.testing import VirtualTimeDeadlock, run_virtual

        require_backend(arguments.backend)
        code = INTERRUPTED
        deadlock = ""
        try:
            code = run_virtual(self._measure_or_end, backend=arguments.backend)
        except* KeyboardInterrupt:
            pass
        except* VirtualTimeDeadlock as group:
            deadlock = str(group.exceptions[0])
        if deadlock:
            raise CommandError(
                "--virtual: the tools wait for something that virtual time does not wait for, such as a "
                f"socket or a process: {deadlock}"
            )
        return code

    def report(self) -> "LimitReport | None":
        """Return the report so far, if there is anything to report."""
        from seqoria_runtime.tuning import report_of

        return report_of(self._runs).with_adaptive(self._adaptive) if self._runs else None

    async def _measure_or_end(self) -> int:
        # If one of these ended the main task, asyncio would log its traceback, even if it is caught later.
        code = SUCCESS
        try:
            await self._measure()
        except* KeyboardInterrupt:
            code = INTERRUPTED
        except* SystemExit:
            code = _ENDED_BY_A_TOOL
        return code

    async def _measure(self) -> None:
        from seqoria_runtime.client import AdaptiveLimit
        from seqoria_runtime.tuning import measure_adaptive, measure_limits

        arguments = self._arguments
        await measure_limits(
            self._workload,
            limits=arguments.limits,
            repetitions=arguments.repetitions,
            refine=not arguments.no_refine,
            tool_timeout=arguments.timeout,
            on_progress=self._note,
        )
        if arguments.adaptive:
            limit = AdaptiveLimit(min(arguments.limits), max(arguments.limits))
            self._adaptive = await measure_adaptive(
                self._workload, limit, repetitions=arguments.repetitions, tool_timeout=arguments.timeout
            )

    def _note(self, progress: "Progress") -> None:
        from .view import show_progress

        self._runs.append(progress.run)
        show_progress(self._console, progress)


def _add_limits_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--toolbox", metavar="MODULE:NAME", help="a LocalToolbox of yours, such as my_app.tools:tools")
    add("--calls", type=Path, metavar="FILE", help="its calls: JSON lines, each a call or a list of calls")
    add_context_argument(parser)
    add(
        "--synthetic",
        metavar="DURATIONS",
        help="synthetic calls instead of --toolbox: constant,value=..., uniform,low=...,high=..., "
        "exponential,mean=... or lognormal,median=50ms,p99=2s",
    )
    add(
        "--resource",
        metavar="MODEL,N",
        help="what synthetic calls use: sharing, queueing or thrashing, and how many calls it serves at full "
        "speed (default: sharing,16)",
    )
    add("--count", type=positive, metavar="N", help="the number of synthetic calls (default: 400)")
    add(
        "--limits",
        type=_limits,
        default=_DEFAULT_LIMITS,
        metavar="N,N,...",
        help=f"the limits to try; the lowest stands for no load (default: {_DEFAULT_LIMITS})",
    )
    add("--no-refine", action="store_true", help="do not also try limits around the knee")
    add("--repetitions", type=positive, default=3, metavar="N", help="runs under each limit (default: 3)")
    add("--timeout", type=_seconds, metavar="SECONDS", help="the timeout of one call (default: none)")
    add("--adaptive", action="store_true", help="also show what an adaptive limit does with the same calls")
    add("--virtual", action="store_true", help="run in virtual time: hours take seconds")
    add(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="the seed of the durations of synthetic calls (default: 0)",
    )
    add("--json", type=Path, metavar="FILE", help="also write the report as JSON")
    add("--plot", type=Path, metavar="FILE.svg", help="also write the report as a picture")
    add_backend_argument(parser)


def _check_arguments(arguments: Namespace) -> None:
    """Raise `CommandError` for arguments that do not fit together."""
    if bool(arguments.toolbox) == bool(arguments.synthetic):
        raise CommandError("either --toolbox with --calls or --synthetic is required")
    if arguments.toolbox and arguments.calls is None:
        raise CommandError("--toolbox needs --calls: the file with the calls to make")
    foreign = ("resource", "count") if arguments.toolbox else ("calls", "context")
    for name in foreign:
        if getattr(arguments, name):
            other = "--synthetic" if arguments.toolbox else "--toolbox"
            raise CommandError(f"--{name} goes with {other} only")
    _check_files(arguments)


def _check_files(arguments: Namespace) -> None:
    # A sweep may take hours, so check before it what would fail after it.
    if arguments.plot is not None and arguments.plot.suffix.lower() != ".svg":
        raise CommandError(
            f"--plot: {arguments.plot} must end in .svg, the only format; browsers show it, and tools such "
            "as rsvg-convert make a PNG of it"
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


def _workload_of(arguments: Namespace) -> "Workload":
    """Return what to run; raises `CommandError`, which names the argument."""
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
    for model in _RESOURCE_MODELS:
        if model == name and capacity.isdecimal() and int(capacity):
            return ResourceSpec(model, int(capacity))
    raise CommandError(
        f"--resource: must be one of {', '.join(_RESOURCE_MODELS)} and how many calls it serves at full "
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


BENCH = Subcommand(
    name="bench",
    summary="Measure your own tools: which limit on concurrency suits them.",
    add_arguments=_add_arguments,
    run=_run,
)
