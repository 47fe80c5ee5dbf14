"""CPU cost of the working tree and of another commit, measured in turn on the same machine.

    python -m benchmarks.before_after BASE [--only NAME] [--quick] [--backend asyncio|trio]

BASE is any commit, tag or branch. Each scenario runs in child processes of the same interpreter:
first the working tree, then BASE, then again, so that both meet the machine in the same minutes.
Other work on the machine adds to a figure and takes nothing from it, so compare the best of the
repetitions; the medians say how noisy it was. Figures are µs of CPU time a call, where a name says
nothing else. A ratio below 1 means that the working tree costs less.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from pathlib import Path

from .driver.environments import ROOT
from .scenarios import SCENARIOS, Figures

BACKENDS = ("asyncio", "trio")
PATIENCE = 600.0


class FailedError(Exception):
    """A scenario failed; the text is the last line of its error output."""


@contextlib.contextmanager
def tree_of(commit: str) -> Generator[Path]:
    """Check a commit out into a temporary worktree, with the benchmarks of this tree."""
    with tempfile.TemporaryDirectory(prefix="before-after-") as folder:
        tree = Path(folder) / "tree"
        git("worktree", "add", "--detach", str(tree), commit)
        try:
            shutil.rmtree(tree / "benchmarks", ignore_errors=True)
            (tree / "benchmarks").symlink_to(ROOT / "benchmarks")
            yield tree
        finally:
            git("worktree", "remove", "--force", str(tree))


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def measure(tree: Path, scenario: str, backend: str, quick: bool) -> Figures:
    """Run a scenario on the package of a tree, in a new process."""
    command = [sys.executable, "-m", "benchmarks.scenarios", scenario, backend, *(["quick"] if quick else [])]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        raise FailedError(f"no answer within {PATIENCE:g} s") from None
    if done.returncode:
        raise FailedError((done.stderr.strip().splitlines() or ["no error output"])[-1])
    figures: Figures = json.loads(done.stdout)
    return figures


def compare(
    trees: dict[str, Path], scenario: str, backend: str, repetitions: int, quick: bool
) -> dict[str, list[Figures]]:
    """Return the figures of each tree, one for each repetition."""
    found: dict[str, list[Figures]] = {name: [] for name in trees}
    for _ in range(repetitions):
        for name, tree in trees.items():
            try:
                found[name].append(measure(tree, scenario, backend, quick))
            except FailedError as failure:
                print(f"{scenario} on {backend}, {name}: {failure}", file=sys.stderr, flush=True)
    return found


def rows(found: dict[str, list[Figures]]) -> list[list[str]]:
    """Return a row for each figure that a tree has, with a dash where the other one has none."""
    names = dict.fromkeys(name for figures in found.values() for each in figures for name in each)
    return [row(name, *([each[name] for each in found[tree]] for tree in ("base", "now"))) for name in names]


def row(name: str, base: Sequence[float], now: Sequence[float]) -> list[str]:
    cells = [name]
    for middle in (min, statistics.median):
        pair = [middle(values) if values else None for values in (base, now)]
        cells += ["-" if value is None else f"{value:.2f}" for value in pair]
        cells.append(f"{pair[1] / pair[0]:.2f}" if pair[0] and pair[1] else "-")
    return cells


def table(heading: str, body: Sequence[Sequence[str]]) -> str:
    columns = [heading, "base best", "now best", "ratio", "base median", "now median", "ratio"]
    width = max(len(cells[0]) for cells in (columns, *body))
    lines = [[f"{cells[0]:<{width}}", *(f"{cell:>11}" for cell in cells[1:])] for cells in (columns, *body)]
    return "\n".join(" ".join(line) for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.before_after", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("base", help="the commit to compare with")
    parser.add_argument("--only", default="", metavar="NAME", help=f"some of {', '.join(SCENARIOS)}")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, two repetitions")
    parser.add_argument("--backend", choices=BACKENDS, help="one backend instead of both")
    parser.add_argument("--repetitions", type=int, help="instead of 5, or 2 with --quick")
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else list(SCENARIOS)
    if unknown := set(wanted) - SCENARIOS.keys():
        parser.error(f"no scenario {', '.join(sorted(unknown))}; there are {', '.join(SCENARIOS)}")
    repetitions = options.repetitions or (2 if options.quick else 5)
    started = time.monotonic()
    base = git("rev-parse", "--short", options.base)
    here = git("describe", "--always", "--dirty")
    print(f"base {base}, now {here}; µs of CPU a call, {repetitions} repetitions", flush=True)
    with tree_of(options.base) as tree:
        for backend in [options.backend] if options.backend else BACKENDS:
            for scenario in wanted:
                found = compare({"now": ROOT, "base": tree}, scenario, backend, repetitions, options.quick)
                print(f"\n{table(f'{backend}: {scenario}', rows(found))}", flush=True)
    print(f"\n{(time.monotonic() - started) / 60:.0f} minutes", flush=True)


if __name__ == "__main__":
    main()
