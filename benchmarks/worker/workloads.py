"""The workloads, the same for every contestant; each call returns one sample.

`cpu` and `wall` are in the unit of the docstring; other keys are further figures.
"""

import contextlib
import gc
import statistics
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from .adapter import CAP, Adapter
from .dags import dag_named
from .measure import Sample, Watch, checked, once, repeated, resident_bytes, scaled
from .primitives import price_list
from .script import Gate, Script
from .tools import NAP, record

MICRO, MILLI = 1e6, 1e3
Workload: TypeAlias = Callable[..., Awaitable[Sample]]


async def batch(adapter: Adapter, *, tool: str, calls: int, seconds: float) -> Sample:
    """Microseconds per call."""
    run = await adapter.batch(tool, calls)
    return scaled(await repeated(run, expected=calls, seconds=seconds), MICRO / calls)


async def makespan(adapter: Adapter, *, dag: str) -> Sample:
    """Milliseconds of one run of a DAG, and its wall time over the lower bound."""
    graph = dag_named(dag)
    sample = await once(await adapter.known_dag(graph), len(graph.nodes))
    return {**scaled(sample, MILLI), "to_bound": sample["wall"] / graph.lower_bound()}


async def dag_cost(adapter: Adapter, *, calls: int, seconds: float) -> Sample:
    """Milliseconds for a DAG of no-ops."""
    run = await adapter.known_dag(dag_named(f"no_ops:{calls}"))
    return scaled(await repeated(run, expected=calls, seconds=seconds), MILLI)


async def turns(adapter: Adapter, *, conversations: int, seconds: float) -> Sample:
    """Milliseconds per turn, with that many conversations at once."""
    script = Script(adapter.loop)
    run = await adapter.turn(script)

    async def all_at_once() -> int:
        done: list[int] = []

        async def one() -> None:
            done.append(await run())

        await adapter.loop.together([one] * conversations)
        return sum(done)

    work = run if conversations == 1 else all_at_once
    sample = await repeated(work, expected=script.total * conversations, seconds=seconds)
    return scaled(sample, MILLI / conversations)


async def added_latency(adapter: Adapter, *, conversations: int, delay: float, over: float) -> Sample:
    """Milliseconds that a turn adds to its model's time; conversations start spread `over` seconds."""
    script = Script(adapter.loop)
    run = await adapter.turn(script)
    await checked(run, script.total)
    script.delay = delay
    ideal = delay * 4
    added: list[float] = []

    def conversation(number: int) -> Callable[[], Awaitable[None]]:
        async def converse() -> None:
            await adapter.loop.sleep(over * number / conversations)
            began = time.perf_counter()
            await checked(run, script.total)
            added.append(time.perf_counter() - began - ideal)

        return converse

    gc.collect()
    watch = Watch()
    await adapter.loop.together([conversation(number) for number in range(conversations)])
    hundredths = statistics.quantiles(added, n=100)
    spent = scaled(watch.read(), MILLI / conversations)
    return {"cpu": spent["cpu"], "p50": hundredths[49] * MILLI, "p99": hundredths[98] * MILLI}


async def waiting_memory(adapter: Adapter, *, conversations: int, traced: int) -> Sample:
    """KiB that a turn holds while its model is asked a second time, after one round.

    As resident memory of the process, with `conversations` turns, and as counted by tracemalloc,
    which is slow, with `traced` turns.
    """
    script = Script(adapter.loop)
    run = await adapter.turn(script)
    await checked(run, script.total)

    async def held(count: int, memory: Callable[[], int]) -> float:
        gate = script.gate = Gate()

        async def all_at_once() -> int:
            await adapter.loop.together([run] * count)
            return count

        gc.collect()
        before = memory()
        async with adapter.loop.background(all_at_once) as job:
            while gate.waiting < count:
                await adapter.loop.sleep(0.001)
            gc.collect()
            found = (memory() - before) / count / 1024
            tracemalloc.stop()
            job.cancel()
            with contextlib.suppress(Exception):  # `cancel` measures how a contestant takes its cancellation.
                await job.ended()
        return found

    resident = await held(conversations, resident_bytes)
    tracemalloc.start()
    return {"resident": resident, "held": await held(traced, traced_bytes)}


def traced_bytes() -> int:
    return tracemalloc.get_traced_memory()[0]


async def queued_memory(adapter: Adapter, *, calls: int) -> Sample:
    """KiB per call of a batch while the first `CAP` run (all, without a cap), and at the batch's peak."""
    run = await adapter.batch("hold", calls)
    record.reset()
    assert record.release is not None
    in_flight = calls if "cap" in adapter.cannot else min(CAP, calls)
    gc.collect()
    tracemalloc.start()
    try:
        before = traced_bytes()
        async with adapter.loop.background(run) as job:
            while record.begun < in_flight:
                await adapter.loop.sleep(0.001)
            gc.collect()
            held = traced_bytes() - before
            record.release.set()
            await job.ended()
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    return {"held": held / calls / 1024, "peak": peak / calls / 1024}


async def deltas(adapter: Adapter, *, url: str, deltas: int) -> Sample:
    """Seconds per 100,000 deltas."""
    run = await adapter.known_stream(url)
    gc.collect()
    watch = Watch()
    got = await run()
    if got < deltas:
        raise AssertionError(f"{got} deltas came, not {deltas}")
    return scaled(watch.read(), 100_000 / deltas)


async def cancel(adapter: Adapter, *, calls: int, capped: bool) -> Sample:
    """Milliseconds from the cancellation of a batch until all its calls are gone.

    `left` is how many were still running after the cancelled batch returned.
    """
    run = await (adapter.capped_batch("hold", calls) if capped else adapter.batch("hold", calls, None))
    record.reset()
    in_flight = CAP if capped else calls
    async with adapter.loop.background(run) as job:
        while record.begun < in_flight:
            await adapter.loop.sleep(0.001)
        gc.collect()
        watch = Watch()
        job.cancel()
        await job.ended()
        left = record.running
        while record.running:
            await adapter.loop.sleep(0)
        sample = watch.read()
    return {**scaled(sample, MILLI), "left": left}


async def throughput(adapter: Adapter, *, calls: int, seconds: float) -> Sample:
    """Share of the ideal throughput of `CAP` slots, with calls that take `NAP`."""
    run = await (adapter.capped_batch("nap", calls) if calls > CAP else adapter.batch("nap", calls))
    await checked(run, calls)
    watch, runs = Watch(), 0
    while not runs or watch.read()["wall"] < seconds:
        await checked(run, calls)
        runs += 1
    spent = watch.read()
    return {"share": calls / CAP * NAP * runs / spent["wall"], "cpu": spent["cpu"] / runs / calls * MICRO}


async def fairness(adapter: Adapter, *, calls: int) -> Sample:
    """Milliseconds of a single call next to a batch, and how many calls of the batch overtook it."""
    many, one = await adapter.batch("nap", calls), await adapter.batch("single", 1)
    await checked(one, 1)
    record.reset()
    async with adapter.loop.background(many) as job:
        while record.begun < CAP:
            await adapter.loop.sleep(0.0005)
        record.single_waits = True
        watch = Watch()
        await checked(one, 1)
        sample = watch.read()
        await job.ended()
    return {"wall": sample["wall"] * MILLI, "overtaken": record.overtook}


async def growth(adapter: Adapter, *, calls: int) -> Sample:
    """Microseconds per call of one large batch."""
    run = await adapter.batch("add", calls)
    await checked(await adapter.batch("add", 1_000), 1_000)
    return scaled(await once(run, calls), MICRO / calls)


async def primitives(adapter: Adapter, *, seconds: float, times: int = 2_000) -> Sample:
    """Microseconds of CPU of each primitive."""
    return await price_list(adapter.loop, seconds, times)


WORKLOADS: dict[str, Workload] = {
    work.__name__: work
    for work in (
        batch,
        makespan,
        dag_cost,
        turns,
        added_latency,
        waiting_memory,
        queued_memory,
        deltas,
        cancel,
        throughput,
        fairness,
        growth,
        primitives,
    )
}


async def run_workload(adapter: Adapter, name: str, parameters: dict[str, Any]) -> Sample:
    return await WORKLOADS[name](adapter, **parameters)


__all__: Sequence[str] = ["WORKLOADS", "run_workload"]
