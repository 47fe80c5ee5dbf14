"""Check the results against the goals. Pure.

Each is a bound on one figure of the runtime, or on its ratio to another contestant on the same
event loop within the same repetition.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from .families import Column
from .results import Results
from .statistics import median, rounded
from .tables import RUNTIME, growth_exponents, ratio, samples

BOTH = ("asyncio", "trio")
FLOOR = "workers"


@dataclass(frozen=True)
class Goal:
    """`bound` is an upper bound, or a lower one if `at_least` is set.

    With a `reference`, the name of a family or of a peer, the bound is on the ratio to it.
    """

    work: str
    cell: str
    metric: str
    bound: float
    reference: str | None = None
    at_least: bool = False
    loops: tuple[str, ...] = BOTH


def _batches() -> Iterator[Goal]:
    for size, bound in ((1, 0.5), (16, 0.8), (256, 1.0), (4096, 1.0)):
        yield Goal(f"per call, N = {size:,}", f"batch/add/{size}", "cpu", bound, FLOOR)
    for size in (256, 4096):
        yield Goal(
            f"per call, N = {size:,}", f"batch/add/{size}", "cpu", 0.3, "seqoria-agent", loops=("asyncio",)
        )


def _dags() -> Iterator[Goal]:
    for dag in ("lanes", "diamonds", "scattered", "spine"):
        yield Goal(f"DAG makespan, {dag}", f"makespan/{dag}", "to_bound", 1.04)
    yield Goal("DAG makespan, wider than the cap", "makespan/wide", "to_bound", 1.35)
    yield Goal("DAG of 1,000 no-ops", "dag_cost", "cpu", 1.2, FLOOR)


def _turns() -> Iterator[Goal]:
    for key, name in (("one", "alone"), ("many", "many at once")):
        yield Goal(f"turn, {name}", f"turns/{key}", "cpu", 1.0, FLOOR)
        yield Goal(f"turn, {name}", f"turns/{key}", "cpu", 1 / 1.5, "seqoria-agent", loops=("asyncio",))
        yield Goal(f"turn, {name}", f"turns/{key}", "cpu", 1 / 7, "agno", loops=("asyncio",))


GOALS: tuple[Goal, ...] = (
    *_batches(),
    *_dags(),
    *_turns(),
    Goal("added p99, model of 250 ms", "added_latency", "p99", 1.2, "anyio"),
    Goal("memory of a waiting turn, KiB", "waiting_memory", "resident", 20.0),
    Goal("memory of a queued call, KiB", "queued_memory", "held", 0.5),
    Goal("streamed delta", "deltas", "cpu", 1.5, "httpx lines"),
    Goal("cancel 1,000 in flight", "cancel/in_flight", "cpu", 1.1, "anyio"),
    Goal("cancel 16 with 984 queued", "cancel/queued", "cpu", 2.0, FLOOR),
    Goal("throughput at the cap", "throughput/320", "share", 0.92, at_least=True, loops=("asyncio",)),
    Goal("throughput at the cap", "throughput/320", "share", 0.95, at_least=True, loops=("uvloop",)),
    Goal("throughput at the cap", "throughput/320", "share", 0.88, at_least=True, loops=("trio",)),
    Goal("calls that overtake a single one", "fairness", "overtaken", 1.0),
    Goal("growth, exponent", "growth", "exponent", 1.05),
    Goal("import, CPU s", "imports", "cpu", 0.25, loops=("",)),
    Goal("import, of httpx, mcp and trio loaded", "imports", "loaded", 0.0, loops=("",)),
)


@dataclass(frozen=True)
class Verdict:
    """`value` is `None` if the run did not measure it."""

    goal: Goal
    loop: str
    value: float | None

    @property
    def reached(self) -> bool:
        if self.value is None:
            return False
        return self.value >= self.goal.bound if self.goal.at_least else self.value <= self.goal.bound

    @property
    def words(self) -> str:
        """Say by how many per cent of the goal it was missed."""
        if self.value is None:
            return "not measured"
        if self.reached:
            return "reached"
        if not self.goal.bound:
            return "missed"
        return f"missed by {abs(self.value / self.goal.bound - 1):.0%}"

    def row(self) -> list[str]:
        sign = "≥" if self.goal.at_least else "≤"
        of = f" × {self.goal.reference}" if self.goal.reference else ""
        value = "-" if self.value is None else rounded(self.value)
        return [self.goal.work, self.loop or "-", f"{sign} {rounded(self.goal.bound)}{of}", value, self.words]


def verdicts(results: Results) -> list[Verdict]:
    return [Verdict(goal, loop, value_of(results, goal, loop)) for goal in GOALS for loop in goal.loops]


def value_of(results: Results, goal: Goal, loop: str) -> float | None:
    who = f"{RUNTIME}, {loop}" if loop else RUNTIME
    if goal.metric == "exponent":
        return growth_exponents(results).get(who)
    column = Column("", goal.cell, goal.metric)
    if goal.reference is None:
        found = samples(results, column, who)
    else:
        same_loop = f"{goal.reference}, {loop}"
        known = results.get(goal.cell, {})
        found = ratio(results, column, who, same_loop if same_loop in known else goal.reference)
    return median(found) if found else None
