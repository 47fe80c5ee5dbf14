"""Owns the subcommand `bench`: how a sweep is run from the command line, and where its report goes."""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING

from seqoria_runtime.cli._command import (
    INTERRUPTED,
    SUCCESS,
    Command,
    CommandError,
    require_backend,
    run_on,
    write_report,
)
from seqoria_runtime.cli._interrupts import run_interruptibly

from ._options import add_limits_arguments, check_arguments, workload_of

if TYPE_CHECKING:
    from rich.console import Console

    from seqoria_runtime.client import LimitChange
    from seqoria_runtime.tuning import LimitReport, Progress, Run, Workload


_ENDED_BY_A_TOOL = -1


def _add_arguments(parser: ArgumentParser) -> None:
    kinds = parser.add_subparsers(metavar="what", required=True)
    summary = "Run the same calls under several limits on concurrency, and recommend one."
    limits = kinds.add_parser("limits", help=summary, description=summary)
    add_limits_arguments(limits)
    limits.set_defaults(parser=limits)


def _run(arguments: Namespace) -> int:
    from seqoria_runtime.cli._text import make_console

    from ._view import show_report

    check_arguments(arguments)
    sweep = _Sweep(arguments, workload_of(arguments), make_console(stderr=True))
    code = sweep.run()
    report = sweep.report()
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
    """Write what was asked for; what cannot be written is told, and keeps nothing else from it."""
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


class _Sweep:
    """A sweep that can be interrupted; what was measured until then stays."""

    def __init__(self, arguments: Namespace, workload: "Workload", console: "Console") -> None:
        self._arguments = arguments
        self._workload = workload
        self._console = console
        self._runs: list[Run] = []
        self._adaptive: tuple[LimitChange, ...] = ()

    def run(self) -> int:
        code = _ENDED_BY_A_TOOL
        try:
            code = self._run()
        except* SystemExit:  # asyncio lets it end the event loop at once
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
        """What was found so far, if anything."""
        from seqoria_runtime.tuning import report_of

        return report_of(self._runs).with_adaptive(self._adaptive) if self._runs else None

    async def _measure_or_end(self) -> int:
        # Where one of these ends a task, asyncio writes its traceback, whoever catches it later.
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
        from ._view import show_progress

        self._runs.append(progress.run)
        show_progress(self._console, progress)


BENCH = Command(
    name="bench",
    summary="Measure your own tools: which limit on concurrency suits them.",
    add_arguments=_add_arguments,
    run=_run,
)
