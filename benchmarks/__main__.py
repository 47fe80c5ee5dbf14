"""Measure all contestants in one interleaved run; write the results as JSON and a report with plots.

python -m benchmarks [--quick] [--publish] [--only batch,turns] [--contestants runtime,workers]
python -m benchmarks --report benchmarks/results/FILE.json [--publish]
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .driver.contestants import CONTESTANTS, Contestant
from .driver.environments import ROOT
from .driver.families import FAMILIES
from .driver.imports import weigh
from .driver.page import publish
from .driver.plan import FULL, QUICK, Size, cells
from .driver.plots import plot
from .driver.report import report
from .driver.results import Results
from .driver.run import Field, field, run_cell
from .driver.tables import measured
from .streamed_deltas import server

RESULTS = ROOT / "benchmarks" / "results"
QUIET_LOAD = 0.5


def machine() -> str:
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if "model name" in line), model)
    return f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.release()}"


def chosen(words: str) -> list[Contestant]:
    """Return the contestants with a family, kind or environment among the words; all if there are none."""
    wanted = set(words.split(",")) if words else set()
    return [each for each in CONTESTANTS if not wanted or wanted & {each.family, each.kind, each.environment}]


def measure(size: Size, contestants: Sequence[Contestant], only: str, facts: dict[str, Any]) -> Results:
    results: Results = {}
    wanted = tuple(only.split(",")) if only else ("",)
    with server(size.deltas) as url, field(contestants, RESULTS / "logs") as asked:
        facts["missing"] = asked.missing
        for cell in cells(size, url):
            if cell.key.startswith(wanted):
                # A cell may be asked of some more often than of others.
                results.setdefault(cell.key, {}).update(run_cell(cell, asked.workers))
        if "imports".startswith(wanted):
            results["imports"] = weigh(contestants, size.imports)
        facts |= reported(asked)
    return results


def reported(asked: Field) -> dict[str, Any]:
    """Return the versions and the way to run batches that the contestants report."""
    versions: dict[str, list[str]] = {}
    batches: dict[str, str] = {}
    for contestant, worker in asked.workers.items():
        if worker.hello:
            name = contestant.family if contestant.kind == "peer" else "seqoria_runtime and floors"
            versions.setdefault(name, [f"{key} {value}" for key, value in worker.hello["versions"].items()])
            batches.setdefault(contestant.family, worker.hello["how_batches_run"])
    return {"versions": versions, "how_batches_run": batches}


def run(options: argparse.Namespace) -> dict[str, Any]:
    started = time.monotonic()
    facts: dict[str, Any] = {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "machine": machine(),
        "size": "quick" if options.quick else "full",
        "load_before": os.getloadavg()[0],
        "quiet_load": QUIET_LOAD,
    }
    size = QUICK if options.quick else FULL
    if options.repetitions:
        size = replace(size, repetitions=options.repetitions, few=options.repetitions)
    results = measure(size, chosen(options.contestants), options.only, facts)
    facts["load_after"] = os.getloadavg()[0]
    facts["minutes"] = (time.monotonic() - started) / 60
    return {"facts": facts, "results": results}


def draw(results: Results, folder: Path) -> dict[str, Path]:
    """Draw the plots; return their paths by the key of their family."""
    drawn = [family for family in FAMILIES if family.plot and measured(results, family)]
    return {family.key: plot(results, family, folder) for family in drawn}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller run of about four minutes")
    parser.add_argument("--repetitions", type=int, help="how often to measure each, instead of 5 or 3 times")
    parser.add_argument("--only", default="", help="prefixes of cell names, separated by commas")
    parser.add_argument(
        "--contestants", default="", help="families, kinds or environments, separated by commas"
    )
    parser.add_argument("--publish", action="store_true", help="put the report into docs/performance.md")
    parser.add_argument("--report", type=Path, help="write the report of an earlier run again")
    options = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    if options.report:
        found, name = json.loads(options.report.read_text(encoding="utf-8")), options.report.stem
    else:
        found, name = run(options), f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
        (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
    plots = draw(found["results"], RESULTS / name)
    text = report(
        found["results"], found["facts"], {key: f"{name}/{path.name}" for key, path in plots.items()}
    )
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
    if options.only:
        print(text)
    if options.publish:
        publish(found, plots, ROOT / "docs")
    print(f"benchmarks/results/{name}.md", file=sys.stderr)


if __name__ == "__main__":
    main()
