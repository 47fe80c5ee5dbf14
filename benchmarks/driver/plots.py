"""Draw bar charts as SVG; needs matplotlib."""

from pathlib import Path
from typing import Any

from .families import Column, Family
from .results import Results
from .statistics import median, spread
from .tables import columns_of, measured, samples

COLOURS = {"seqoria_runtime": "#c0392b", "workers": "#7f8c8d", "task group": "#bdc3c7", "anyio": "#95a5a6"}
PEER = "#2c6fad"


def plot(results: Results, family: Family, folder: Path) -> Path:
    """Draw the bars of a family, on a logarithmic scale if they span more than a decade."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": family.key, "svg.fonttype": "none"}
    from matplotlib import pyplot

    columns = [column for column in columns_of(results, family) if column.metric not in {"wall", "left"}]
    figure, axes = pyplot.subplots(
        1, len(columns), figsize=(3.2 * len(columns) + 1.8, 0.27 * len(measured(results, family)) + 1.3),
        sharey=True, squeeze=False,
    )  # fmt: skip
    for axis, column in zip(axes[0], columns, strict=True):
        _bars(axis, results, family, column)
    figure.supxlabel(family.plot, fontsize=9)
    figure.suptitle(family.title, fontsize=10)
    figure.tight_layout()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{family.key}.svg"
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return path


def _bars(axis: Any, results: Results, family: Family, column: Column) -> None:
    names = measured(results, family)[::-1]
    found = [samples(results, column, who) for who in names]
    heights = [median(values) if values else 0.0 for values in found]
    errors = [
        spread(values) * height if values else 0.0 for values, height in zip(found, heights, strict=True)
    ]
    colours = [COLOURS.get(who.partition(", ")[0], PEER) for who in names]
    axis.barh(names, heights, xerr=errors, color=colours, error_kw={"linewidth": 0.8})
    positive = [height for height in heights if height > 0]
    if positive and max(positive) > 10 * min(positive):
        axis.set_xscale("log")
    axis.set_title(column.heading, fontsize=9)
    axis.tick_params(labelsize=7)
    axis.grid(axis="x", linewidth=0.3)
