"""Write the report of a run in Markdown. Pure."""

from collections.abc import Mapping
from typing import Any

from .families import FAMILIES
from .goals import verdicts
from .results import Results
from .tables import price_table, section, table


def report(results: Results, facts: Mapping[str, Any], plots: Mapping[str, str]) -> str:
    """Return the report; `plots` has the paths of plots by the key of their family."""
    parts = [
        "## The run",
        _facts(facts),
        "## Goals",
        _goals(results),
        "## Results",
        "Medians of the repetitions; ± is half the range over the median. `cpu` is user and system time of "
        "the contestant's whole process.",
        *(section(results, family, plots.get(family.key)) for family in FAMILIES),
    ]
    if "primitives" in results:
        parts += ["## Price list of the primitives", price_table(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _facts(facts: Mapping[str, Any]) -> str:
    versions = facts["versions"]
    lines = [
        f"* {facts['date']}, {facts['minutes']:.0f} minutes; {facts['size']} run.",
        f"* {facts['machine']}.",
        f"* Load average {facts['load_before']:.2f} before, {facts['load_after']:.2f} after.",
        *(f"* {who}: {', '.join(found)}" for who, found in versions.items()),
        *(f"* {who} was not installed: {reason}" for who, reason in facts["missing"].items()),
    ]
    if facts["load_before"] > facts["quiet_load"]:
        lines.append("* **The machine was not quiet: these figures are provisional.**")
    batches = [f"* {who}: {how}" for who, how in facts["how_batches_run"].items() if how]
    return "\n".join(lines) + "\n\nHow a batch is run:\n\n" + "\n".join(batches)


def _goals(results: Results) -> str:
    found = verdicts(results)
    known = [verdict for verdict in found if verdict.value is not None]
    reached = sum(verdict.reached for verdict in known)
    left_out = f" {len(found) - len(known)} were not measured." if len(known) < len(found) else ""
    heading = ["work", "event loop", "goal", "found", ""]
    rows = [verdict.row() for verdict in known]
    return f"{reached} of {len(known)} are reached.{left_out}\n\n{table(heading, rows)}"
