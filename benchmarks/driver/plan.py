"""The plan of a run: workloads, contestants and repetitions, in full and quick."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .contestants import Contestant

ORDERED = ("workers", "seqoria-agent", "langgraph")
LINEAR = ("seqoria-agent",)


def everyone(contestant: Contestant) -> bool:
    return contestant.kind != "reader"


def with_an_order(contestant: Contestant) -> bool:
    return contestant.kind in {"runtime", "peer"} or contestant.family == "workers"


def quick_ones(contestant: Contestant) -> bool:
    return contestant.kind in {"runtime", "floor"} or contestant.family in LINEAR


def slow_ones(contestant: Contestant) -> bool:
    return everyone(contestant) and not quick_ones(contestant)


def streamers(contestant: Contestant) -> bool:
    return contestant.kind != "floor"


def loops(contestant: Contestant) -> bool:
    return contestant.family == "workers"


@dataclass(frozen=True)
class Cell:
    """One workload with its parameters; `key` names it in the results.

    A `fresh` cell starts in new processes: a used one has memory to spare.
    """

    key: str
    workload: str
    parameters: dict[str, Any] = field(hash=False)
    repetitions: int
    asked: Callable[[Contestant], bool] = everyone
    patience: float = 180.0
    fresh: bool = False


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    repetitions: int
    few: int
    seconds: float
    batches: tuple[int, ...]
    later: tuple[int, ...]
    dags: tuple[str, ...]
    conversations: int
    waiting: int
    queued: int
    deltas: int
    growth: tuple[int, ...]
    growth_of_all: int
    slow_growth: tuple[int, ...]
    imports: int


FULL = Size(
    repetitions=5,
    few=3,
    seconds=0.1,
    batches=(1, 16, 256, 4096),
    later=(1, 16, 256, 4096),
    dags=("lanes", "diamonds", "scattered", "spine", "wide"),
    conversations=200,
    waiting=1_000,
    queued=4_000,
    deltas=20_000,
    growth=(1_000, 4_000, 16_000, 64_000),
    growth_of_all=4_000,
    slow_growth=(16_000,),
    imports=5,
)
QUICK = Size(
    repetitions=2,
    few=1,
    seconds=0.03,
    batches=(1, 256),
    later=(256,),
    dags=("lanes", "wide"),
    conversations=50,
    waiting=100,
    queued=1_000,
    deltas=2_000,
    growth=(1_000, 4_000),
    growth_of_all=1_000,
    slow_growth=(),
    imports=1,
)


def cells(size: Size, url: str) -> Iterator[Cell]:
    """Return all cells except the imports, which need no worker; `url` is the server of streamed deltas."""
    yield from _batches(size)
    yield from _dags(size)
    yield from _turns(size)
    yield from _memory(size)
    yield Cell("deltas", "deltas", {"url": url, "deltas": size.deltas}, size.few, streamers)
    yield from _slots(size)
    yield from _growth(size)
    yield Cell("primitives", "primitives", {"seconds": size.seconds / 2}, size.few, loops)


def _batches(size: Size) -> Iterator[Cell]:
    for tool, counts in (("add", size.batches), ("add_later", size.later)):
        for count in counts:
            parameters = {"tool": tool, "calls": count, "seconds": size.seconds}
            repetitions = size.few if count > 1_000 else size.repetitions
            yield Cell(f"batch/{tool}/{count}", "batch", parameters, repetitions)


def _dags(size: Size) -> Iterator[Cell]:
    for dag in size.dags:
        yield Cell(f"makespan/{dag}", "makespan", {"dag": dag}, size.repetitions, with_an_order)
    parameters = {"calls": 1_000, "seconds": size.seconds}
    yield Cell("dag_cost", "dag_cost", parameters, size.repetitions, with_an_order)


def _turns(size: Size) -> Iterator[Cell]:
    many = size.conversations
    for count, repetitions in ((1, size.repetitions), (many, size.few)):
        parameters: dict[str, Any] = {"conversations": count, "seconds": size.seconds}
        yield Cell(f"turns/{'one' if count == 1 else 'many'}", "turns", parameters, repetitions)
    parameters = {"conversations": many, "delay": 0.25, "over": many / 200}
    yield Cell("added_latency", "added_latency", parameters, size.few)


def _memory(size: Size) -> Iterator[Cell]:
    parameters = {"conversations": size.waiting, "traced": size.waiting // 5}
    yield Cell("waiting_memory", "waiting_memory", parameters, 1, fresh=True)
    yield Cell("queued_memory", "queued_memory", {"calls": size.queued}, 1)


def _slots(size: Size) -> Iterator[Cell]:
    for key, capped in (("cancel/in_flight", False), ("cancel/queued", True)):
        yield Cell(key, "cancel", {"calls": 1_000, "capped": capped}, size.repetitions)
    for key, count in (("throughput/16", 16), ("throughput/320", 320)):
        parameters = {"calls": count, "seconds": 3 * size.seconds}
        yield Cell(key, "throughput", parameters, size.repetitions)
    yield Cell("fairness", "fairness", {"calls": 1_000}, size.repetitions)


def _growth(size: Size) -> Iterator[Cell]:
    for count in size.growth:
        asked = everyone if count <= size.growth_of_all else quick_ones
        yield Cell(f"growth/{count}", "growth", {"calls": count}, size.few, asked)
    for count in size.slow_growth:
        yield Cell(f"growth/{count}", "growth", {"calls": count}, 1, slow_ones, patience=600)
