"""Every workload at its smallest, by the adapters of the runtime and of a floor; figures are not judged."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.contestants.floors import FloorAdapter
from benchmarks.contestants.runtime import RuntimeAdapter
from benchmarks.worker.adapter import Adapter, CannotDo
from benchmarks.worker.loop import Run, loop_of
from benchmarks.worker.tools import record
from benchmarks.worker.workloads import WORKLOADS, run_workload
from tests.support.chat_server import Answer, serve

SMALL: dict[str, dict[str, Any]] = {
    "batch": {"tool": "add_later", "calls": 20, "seconds": 1e-6},
    "makespan": {"dag": "lanes"},
    "dag_cost": {"calls": 40, "seconds": 1e-6},
    "turns": {"conversations": 3, "seconds": 1e-6},
    "added_latency": {"conversations": 4, "delay": 0.25, "over": 0.1},
    "waiting_memory": {"conversations": 4, "traced": 2},
    "queued_memory": {"calls": 40},
    "throughput": {"calls": 40, "seconds": 1e-6},
    "fairness": {"calls": 100},
    "growth": {"calls": 40},
    "primitives": {"seconds": 1e-6, "times": 3},
}


def contestant(name: str, backend: str) -> Adapter:
    record.loop = loop_of(backend)
    return RuntimeAdapter(record.loop, "-") if name == "runtime" else FloorAdapter(record.loop, name)


@pytest.mark.parametrize("who", ["runtime", "workers"])
@pytest.mark.parametrize("name", SMALL)
async def test_a_workload_runs(name: str, who: str, anyio_backend_name: str) -> None:
    if name == "waiting_memory" and not Path("/proc/self/statm").exists():
        pytest.skip("resident memory is read from /proc")
    async with contestant(who, anyio_backend_name) as adapter:
        sample = await run_workload(adapter, name, SMALL[name])
    assert sample
    assert all(isinstance(value, (int, float)) for value in sample.values())


@pytest.mark.parametrize("who", ["runtime", "workers"])
@pytest.mark.parametrize("capped", [True, False])
async def test_what_was_cancelled_is_gone_when_the_batch_is(
    capped: bool, who: str, anyio_backend_name: str
) -> None:
    async with contestant(who, anyio_backend_name) as adapter:
        sample = await run_workload(adapter, "cancel", {"calls": 40, "capped": capped})
    assert sample["left"] == 0


async def test_nothing_overtakes_a_single_call_of_the_runtime(anyio_backend_name: str) -> None:
    async with contestant("runtime", anyio_backend_name) as runtime:
        assert (await run_workload(runtime, "fairness", {"calls": 200}))["overtaken"] == 0


async def test_calls_overtake_a_single_one_where_slots_are_first_come(anyio_backend_name: str) -> None:
    async with contestant("anyio", anyio_backend_name) as floor:
        assert (await run_workload(floor, "fairness", {"calls": 200}))["overtaken"] > 100


async def test_a_contestant_without_a_cap_is_not_asked_to_keep_one(anyio_backend_name: str) -> None:
    async with contestant("tasks", anyio_backend_name) as floor:
        with pytest.raises(CannotDo, match="has no cap"):
            await run_workload(floor, "throughput", {"calls": 40, "seconds": 1e-6})
        with pytest.raises(CannotDo, match="has no order of calls"):
            await run_workload(floor, "makespan", {"dag": "lanes"})


async def test_too_few_results_fail_a_workload(anyio_backend_name: str) -> None:
    class Forgetful(Adapter):
        async def batch(self, tool: str, count: int, cap: int | None = None) -> Run:
            async def run() -> int:
                return count - 1

            return run

    with pytest.raises(AssertionError, match="returned 19 results, not 20"):
        await run_workload(Forgetful(loop_of(anyio_backend_name), "-"), "batch", SMALL["batch"])


@pytest.mark.real_time
async def test_deltas_of_a_stream_are_counted(anyio_backend_name: str) -> None:
    with serve(lambda _: Answer(text=["a", "b", "c"])) as server:
        async with contestant("runtime", anyio_backend_name) as runtime:
            await run_workload(runtime, "deltas", {"url": server.url, "deltas": 3})
            with pytest.raises(AssertionError, match="3 deltas came, not 4"):
                await run_workload(runtime, "deltas", {"url": server.url, "deltas": 4})


def test_every_workload_is_tested() -> None:
    assert {*SMALL, "cancel", "deltas"} == set(WORKLOADS)
