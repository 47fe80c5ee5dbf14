"""Write results as Markdown tables. Pure."""

from collections.abc import Sequence
from typing import Any

from .contestants import CONTESTANTS, LOOPS
from .families import FAMILIES, Column, Family
from .results import Results
from .statistics import exponent, median, ratios, rounded, spread

RUNTIME = "seqoria_runtime"
REFERENCE = f"{RUNTIME}, asyncio"
ORDER = (
    [who.name for who in CONTESTANTS]
    + [who.environment for who in CONTESTANTS]
    + [RUNTIME, f"import {RUNTIME}"]
)


def samples(results: Results, column: Column, who: str) -> list[float]:
    """Return the samples of one metric in the order of the repetitions; empty if there are none."""
    record = results.get(column.cell, {}).get(who, {})
    if column.metric == "per_second":
        return [1e3 / sample["wall"] for sample in record.get("samples", ()) if "wall" in sample]
    return [sample[column.metric] for sample in record.get("samples", ()) if column.metric in sample]


def measured(results: Results, family: Family) -> list[str]:
    """Return the contestants with a figure in this family, in the order of `CONTESTANTS`."""
    found = {
        who
        for column in family.columns
        for who in results.get(column.cell, {})
        if samples(results, column, who)
    }
    return sorted(found, key=ORDER.index)


def columns_of(results: Results, family: Family) -> list[Column]:
    return [column for column in family.columns if column.cell in results]


def figure(values: Sequence[float]) -> str:
    if not values:
        return "-"
    middle = rounded(median(values))
    around = f" ±{spread(values):.0%}" if len(values) > 1 and spread(values) >= 0.005 else ""
    return middle + around


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(heading) + " |", "|---" + "|---:" * (len(heading) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def figures_table(results: Results, family: Family) -> str:
    columns = columns_of(results, family)
    rows = [
        [who, *(figure(samples(results, column, who)) for column in columns)]
        for who in measured(results, family)
    ]
    return table(["", *(column.heading for column in columns)], rows)


def reference_of(who: str, floor: str) -> str | None:
    """Return the floor on the same event loop for the runtime, and the runtime on asyncio for a peer."""
    family, _, loop = who.partition(", ")
    if family == RUNTIME:
        return f"{floor}, {loop}"
    return None if loop else REFERENCE


def ratio(results: Results, column: Column, who: str, reference: str) -> list[float]:
    return ratios(samples(results, column, who), samples(results, column, reference))


def ratios_table(results: Results, family: Family) -> str:
    columns = [column for column in columns_of(results, family) if column.metric != "left"]
    rows = []
    for who in measured(results, family):
        reference = reference_of(who, family.floor)
        if reference is not None and reference != who:
            found = [figure(ratio(results, column, who, reference)) for column in columns]
            if set(found) != {"-"}:
                rows.append([who, reference, *found])
    return table(["", "times", *(column.heading for column in columns)], rows) if rows else ""


def reasons(results: Results, family: Family) -> list[str]:
    """Return why contestants have no figure, one line for each reason."""
    found: dict[str, list[str]] = {}
    for column in family.columns:
        for who, record in results.get(column.cell, {}).items():
            reason = record.get("cannot") or (f"failed: {record['failed']}" if "failed" in record else "")
            if reason and who not in found.setdefault(reason, []):
                found[reason].append(who)
    return [f"* {', '.join(sorted(who, key=ORDER.index))}: {reason}" for reason, who in found.items()]


def growth_exponents(results: Results) -> dict[str, float]:
    family = next(family for family in FAMILIES if family.key == "growth")
    found = {}
    for who in measured(results, family):
        costs = {
            int(column.cell.partition("/")[2]): median(samples(results, column, who))
            for column in columns_of(results, family)
            if samples(results, column, who)
        }
        if len(costs) > 1:
            found[who] = exponent(costs)
    return found


def section(results: Results, family: Family, plot: str | None) -> str:
    """Return a family's part of the report; empty if nothing of it was measured."""
    if not measured(results, family):
        return ""
    parts = [f"### {family.title}", family.text]
    if plot:
        parts.append(f"![{family.title}]({plot})")
    parts.append(figures_table(results, family))
    if family.ratio and (times := ratios_table(results, family)):
        parts += ["As a ratio, within the same repetition:", times]
    if family.key == "growth":
        rows = [[who, f"{slope:.2f}"] for who, slope in growth_exponents(results).items()]
        parts += [
            "The exponent of the whole batch's cost over the sizes measured:",
            table(["", "exponent"], rows),
        ]
    if why := reasons(results, family):
        parts += ["Without a figure:", "\n".join(why)]
    return "\n\n".join(part for part in parts if part)


def price_table(results: Results) -> str:
    found: dict[str, Any] = results.get("primitives", {})
    names = [name for name in (f"workers, {loop}" for loop in LOOPS) if found.get(name, {}).get("samples")]
    keys = dict.fromkeys(key for name in names for key in found[name]["samples"][0])
    rows = [
        [key, *(figure([sample[key] for sample in found[name]["samples"]]) for name in names)] for key in keys
    ]
    return table(["µs of CPU", *(name.partition(", ")[2] for name in names)], rows)
