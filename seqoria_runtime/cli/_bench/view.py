"""Shows a sweep over limits: a line for each run, then a table, a plot and the recommendation."""

from collections.abc import Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from seqoria_runtime.tuning import LimitReport, LimitRow, Progress

_LEVELS = " ▁▂▃▄▅▆▇█"
_ASCII_LEVELS = " .:-=+*#@"
_PARTS = " ▏▎▍▌▋▊▉█"
_ASCII_PARTS = "        #"
_BAR_WIDTH = 40
_NEXT_TO_BAR = 36
_COLUMNS = (
    "limit",
    "results/s",
    "",
    "work",
    "wait p50",
    "p95",
    "call p50",
    "p95",
    "p99",
    "timeouts",
    "failed",
)
# The columns to leave out, in this order, if the terminal is too narrow for all.
_DISPENSABLE = (5, 7, 2, 8, 4, 6, 3)


def show_progress(console: Console, progress: Progress) -> None:
    """Print the line of one run."""
    run = progress.run
    failed = sum(run.failures.values())
    tail = f", {failed} without a result" if failed else ""
    console.print(
        f"[{progress.done}/{progress.planned}] limit {run.limit}, repetition {run.repetition + 1}: "
        f"{len(run.calls)} calls in {duration(run.seconds)}, {run.throughput:.4g} results a second{tail}",
        soft_wrap=True,
    )


def show_report(console: Console, report: LimitReport, *, interrupted: bool = False) -> None:
    """Print the table, the plot and the recommendation."""
    if interrupted:
        console.print("Interrupted: this is what was measured until then.", style="bold")
    console.print(_table(report, console))
    console.print()
    for row in report.rows:
        console.print(_bar(row, report, console))
    if len(report.adaptive) > 1:
        console.print()
        console.print(f"An adaptive limit on the same calls: {_spark(report, console)}")
    console.print()
    recommended = report.recommended
    advice = "No limit to recommend" if recommended is None else f"Recommended limit: {recommended}"
    console.print(Text(advice, style="bold"))
    reason = report.reason.replace(" · ", " * ") if console.options.ascii_only else report.reason
    console.print(reason, soft_wrap=not console.is_terminal)


def duration(seconds: float) -> str:
    """Return a duration with three digits, in a suitable unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size * 0.9995:
            return f"{_figures(seconds / size)} {unit}"
    return "0" if not seconds else f"{_figures(seconds / 1e-6)} us"


def _figures(value: float) -> str:
    return f"{value:.3g}" if f"{value:.3g}".isdigit() else f"{value:#.3g}".rstrip(".")


def _table(report: LimitReport, console: Console) -> Table:
    """Return a table with as many columns as fit: a missing number is better than a truncated one."""
    failed = any(row.failures for row in report.rows)
    shown = list(range(len(_COLUMNS) if failed else len(_COLUMNS) - 2))
    table = _table_of(report, shown, console)
    for column in _DISPENSABLE:
        if Measurement.get(console, console.options.update(width=1000), table).maximum <= console.width:
            break
        shown.remove(column)
        table = _table_of(report, shown, console)
    return table


def _table_of(report: LimitReport, shown: Sequence[int], console: Console) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    for column in shown:
        table.add_column(_COLUMNS[column], justify="right", no_wrap=True)
    for row in report.rows:
        style = "bold green" if row.limit == _nearest(report) else ""
        cells = _cells(row, plus_minus="+-" if console.options.ascii_only else "±")
        table.add_row(*(cells[column] for column in shown), style=style)
    return table


def _cells(row: LimitRow, *, plus_minus: str) -> Sequence[str]:
    spread = row.throughput.most - row.throughput.least
    share = spread / (2 * row.throughput.median) if row.throughput.median else 0.0
    return (
        str(row.limit),
        f"{row.throughput.median:.4g}",
        f"{plus_minus}{share:.0%}" if row.runs > 1 else "",
        f"{row.work.median:.1f}" if row.certain else "-",
        duration(row.wait.p50),
        duration(row.wait.p95),
        duration(row.latency.p50),
        duration(row.latency.p95),
        duration(row.latency.p99),
        str(row.timeouts),
        str(row.failed),
    )


def _nearest(report: LimitReport) -> int | None:
    recommended = report.recommended
    if recommended is None:
        return None
    return min((row.limit for row in report.rows), key=lambda limit: abs(limit - recommended))


def _bar(row: LimitRow, report: LimitReport, console: Console) -> Text:
    parts = _ASCII_PARTS if console.options.ascii_only else _PARTS
    width = max(1, min(_BAR_WIDTH, console.width - _NEXT_TO_BAR))
    if not row.certain:
        return Text(f"{row.limit:>5} too few calls", style="dim")
    most = max(one.work.median for one in report.rows if one.certain) or 1.0
    eighths = round(row.work.median / most * width * 8)
    bar = parts[8] * (eighths // 8) + (parts[eighths % 8] if eighths % 8 else "")
    text = Text(f"{row.limit:>5} ")
    text.append(bar.ljust(width + 1), style="green" if row.limit == _nearest(report) else "cyan")
    text.append(f"{row.work.median:.1f} at once, {row.slowdown.median:.2f}x as long")
    return text


def _spark(report: LimitReport, console: Console) -> str:
    levels = _ASCII_LEVELS if console.options.ascii_only else _LEVELS
    limits = [limit for _, limit in report.adaptive]
    step = max(1, len(limits) // 60)
    shown = limits[::step]
    most = max(shown)
    blocks = "".join(levels[max(1, round(limit / most * 8))] for limit in shown)
    return f"{limits[0]} {blocks} {limits[-1]}"
