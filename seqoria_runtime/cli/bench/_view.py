"""Shows a sweep over limits: a line for each run while it goes on, then a table, a plot and the result."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from seqoria_runtime.tuning import LimitReport, LimitRow, Progress

_LEVELS = " ▁▂▃▄▅▆▇█"
_PARTS = " ▏▎▍▌▋▊▉█"
_BAR_WIDTH = 40


def show_progress(console: Console, progress: Progress) -> None:
    """One run has ended."""
    run = progress.run
    failed = sum(run.failures.values())
    tail = f", {failed} without a result" if failed else ""
    console.print(
        f"[{progress.done}/{progress.planned}] limit {run.limit}, repetition {run.repetition + 1}: "
        f"{len(run.calls)} calls in {duration(run.seconds)}, {run.throughput:.4g} results a second{tail}"
    )


def show_report(console: Console, report: LimitReport, *, interrupted: bool = False) -> None:
    """The table, the plot and the recommendation."""
    if interrupted:
        console.print("Interrupted: this is what was measured until then.", style="bold")
    console.print(_table(report))
    console.print()
    for row in report.rows:
        console.print(_bar(row, report))
    if len(report.adaptive) > 1:
        console.print()
        console.print(f"An adaptive limit on the same calls: {_spark(report)}")
    console.print()
    console.print(Text(f"Recommended limit: {report.recommended}", style="bold"))
    console.print(report.reason, soft_wrap=not console.is_terminal)


def duration(seconds: float) -> str:
    """A duration with three figures, in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size * 0.9995:
            return f"{_figures(seconds / size)} {unit}"
    return "0" if not seconds else f"{_figures(seconds / 1e-6)} us"


def _figures(value: float) -> str:
    return f"{value:.3g}" if f"{value:.3g}".isdigit() else f"{value:#.3g}".rstrip(".")


def _table(report: LimitReport) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    names = ["limit", "results/s", "", "work", "wait p50", "p95", "call p50", "p95", "p99"]
    failed = any(row.failures for row in report.rows)
    for name in [*names, *(("timeouts", "failed") if failed else ())]:
        table.add_column(name, justify="right", no_wrap=True)
    for row in report.rows:
        style = "bold green" if row.limit == _nearest(report) else ""
        tail = (str(row.timeouts), str(row.failed)) if failed else ()
        table.add_row(*_cells(row), *tail, style=style)
    return table


def _cells(row: LimitRow) -> Sequence[str]:
    spread = row.throughput.most - row.throughput.least
    share = spread / (2 * row.throughput.median) if row.throughput.median else 0.0
    return (
        str(row.limit),
        f"{row.throughput.median:.4g}",
        f"±{share:.0%}" if row.runs > 1 else "",
        f"{row.work.median:.1f}",
        duration(row.wait.p50),
        duration(row.wait.p95),
        duration(row.latency.p50),
        duration(row.latency.p95),
        duration(row.latency.p99),
    )


def _nearest(report: LimitReport) -> int:
    return min((row.limit for row in report.rows), key=lambda limit: abs(limit - report.recommended))


def _bar(row: LimitRow, report: LimitReport) -> Text:
    most = max(one.work.median for one in report.rows) or 1.0
    eighths = round(row.work.median / most * _BAR_WIDTH * 8)
    bar = "█" * (eighths // 8) + (_PARTS[eighths % 8] if eighths % 8 else "")
    text = Text(f"{row.limit:>5} ")
    text.append(bar.ljust(_BAR_WIDTH + 1), style="green" if row.limit == _nearest(report) else "cyan")
    text.append(f"{row.work.median:.1f} at once, {row.slowdown.median:.2f}x as long")
    return text


def _spark(report: LimitReport) -> str:
    limits = [limit for _, limit in report.adaptive]
    step = max(1, len(limits) // 60)
    shown = limits[::step]
    most = max(shown)
    blocks = "".join(_LEVELS[max(1, round(limit / most * 8))] for limit in shown)
    return f"{limits[0]} {blocks} {limits[-1]}"
