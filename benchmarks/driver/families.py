"""The tables of the report: their columns, units and references. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """One metric of one cell."""

    heading: str
    cell: str
    metric: str


@dataclass(frozen=True)
class Family:
    """`floor` is the reference of the runtime in a table of ratios, `plot` the axis of a plot."""

    key: str
    title: str
    text: str
    columns: tuple[Column, ...]
    ratio: bool = True
    plot: str = ""
    floor: str = "workers"


def _both(heading: str, cell: str, *, clocks: tuple[str, ...] = ("cpu", "wall")) -> tuple[Column, ...]:
    return tuple(Column(f"{heading}{', ' if heading else ''}{clock}", cell, clock) for clock in clocks)


BATCH_SIZES = (1, 16, 256, 4096)
DAGS = ("lanes", "diamonds", "scattered", "spine", "wide")


def _batch(tool: str, clock: str) -> tuple[Column, ...]:
    return tuple(Column(f"N = {size:,}", f"batch/{tool}/{size}", clock) for size in BATCH_SIZES)


FAMILIES: tuple[Family, ...] = (
    Family(
        "batch-cpu",
        "A batch of no-ops: CPU per call, µs",
        "An async tool that adds two validated integers, at most 16 calls at once, a timeout of 30 s.",
        _batch("add", "cpu"),
        plot="µs of CPU per call",
    ),
    Family("batch-wall", "The same: wall time per call, µs", "", _batch("add", "wall"), ratio=False),
    Family(
        "later-cpu",
        "A batch whose tool suspends once: CPU per call, µs",
        "",
        _batch("add_later", "cpu"),
        plot="µs of CPU per call",
    ),
    Family("later-wall", "The same: wall time per call, µs", "", _batch("add_later", "wall"), ratio=False),
    Family(
        "makespan",
        "Makespan of tool DAGs over the lower bound",
        "Wall time over max(critical path, work / 16). `wide` has more ready calls than slots; without "
        "knowing the durations in advance, nothing can reach its bound.",
        tuple(Column(dag, f"makespan/{dag}", "to_bound") for dag in DAGS),
        ratio=False,
        plot="wall time / lower bound",
    ),
    Family(
        "dag-cost",
        "A DAG of 1,000 no-ops, ms",
        "",
        _both("", "dag_cost"),
    ),
    Family(
        "turns",
        "Turns, ms per turn",
        "Three rounds of five no-op calls and a text; the model answers in process and at once.",
        (*_both("one at a time", "turns/one"), *_both("many at once", "turns/many")),
        plot="ms per turn",
    ),
    Family(
        "turns-per-second",
        "The same: turns per second of wall time",
        "",
        (
            Column("one at a time", "turns/one", "per_second"),
            Column("many at once", "turns/many", "per_second"),
        ),
        ratio=False,
    ),
    Family(
        "added-latency",
        "What is added to the model's time, ms per turn",
        "The model takes 250 ms each of four times, so the ideal turn is 1,000 ms.",
        (
            Column("p50", "added_latency", "p50"),
            Column("p99", "added_latency", "p99"),
            Column("cpu", "added_latency", "cpu"),
        ),
        plot="ms added to a turn",
    ),
    Family(
        "memory",
        "Memory, KiB",
        "A turn that waits for its model's second response, after one round: as resident memory of the "
        "process with 1,000 such turns, and as traced by tracemalloc. Then a queued call of a batch with 16 "
        "running (all, without a cap), and that batch's peak with all results, traced.",
        (
            Column("waiting turn, resident", "waiting_memory", "resident"),
            Column("waiting turn, traced", "waiting_memory", "held"),
            Column("queued call", "queued_memory", "held"),
            Column("call at the peak", "queued_memory", "peak"),
        ),
        plot="KiB",
    ),
    Family(
        "deltas",
        "Streamed deltas over loopback, s per 100,000",
        "Chat Completions chunks, each in its own HTTP chunk, from a server in another process.",
        _both("", "deltas"),
        plot="s of CPU per 100,000 deltas",
        floor="httpx lines",
    ),
    Family(
        "cancel",
        "Cancelling 1,000 calls until all are gone, ms",
        "All in flight; and 16 in flight with 984 queued. `left` is how many calls still ran when the "
        "cancelled batch had returned.",
        (
            *_both("in flight", "cancel/in_flight"),
            Column("left", "cancel/in_flight", "left"),
            *_both("queued", "cancel/queued"),
        ),
        plot="ms",
    ),
    Family(
        "throughput",
        "Throughput at the cap, share of the ideal",
        "Calls of 5 ms, 16 at once: batches of 16 one after the other, and batches of 320.",
        (
            Column("16 calls", "throughput/16", "share"),
            Column("320 calls", "throughput/320", "share"),
        ),
        ratio=False,
        plot="share of the ideal",
    ),
    Family(
        "fairness",
        "A single call of 5 ms next to a batch of 1,000 of them",
        "Its latency in ms, and how many calls of the batch started after the request for it and ended "
        "before it started. Without a cap, all run at once.",
        (Column("latency, ms", "fairness", "wall"), Column("overtaken by", "fairness", "overtaken")),
        ratio=False,
    ),
    Family(
        "growth",
        "Growth: CPU per call of one large batch, µs",
        "",
        tuple(Column(f"N = {n:,}", f"growth/{n}", "cpu") for n in (1_000, 4_000, 16_000, 64_000)),
        plot="µs of CPU per call",
    ),
    Family(
        "imports",
        "Import and size",
        "CPU seconds of the import in a fresh process, distributions and MB of the environment.",
        (
            Column("CPU s", "imports", "cpu"),
            Column("distributions", "imports", "distributions"),
            Column("MB", "imports", "megabytes"),
        ),
        ratio=False,
    ),
)
