import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.driver.contestants import Contestant
from benchmarks.driver.environments import Environment
from benchmarks.driver.plan import Cell
from benchmarks.driver.process import Worker
from benchmarks.driver.run import run_cell

FLOOR = Contestant("task group", "asyncio", "floor", "benchmarks.contestants.floors", "tasks")
MISSING = Contestant("nobody", "asyncio", "floor", "benchmarks.contestants.nobody")
PATIENCE = 60.0


def worker_of(who: Contestant, logs: Path) -> Worker:
    return Worker(who, Environment(sys.executable, "import this"), logs)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    made = worker_of(FLOOR, tmp_path)
    yield made
    made.close()


def test_a_worker_tells_of_itself_and_answers(worker: Worker) -> None:
    assert "cpu" in worker.ask("growth", {"calls": 5}, PATIENCE)["sample"]
    assert worker.hello["versions"]["anyio"]
    assert worker.ask("makespan", {"dag": "lanes"}, PATIENCE) == {"cannot": "has no order of calls"}
    assert worker.ask("juggling", {}, PATIENCE) == {"failed": "KeyError: 'juggling'"}


def test_a_worker_that_does_not_answer_in_time_is_replaced(worker: Worker) -> None:
    worker.ask("growth", {"calls": 5}, PATIENCE)
    late = worker.ask("throughput", {"calls": 16, "seconds": 600.0}, 0.0)
    assert late == {"failed": "no answer within 0 s"}
    assert "sample" in worker.ask("growth", {"calls": 5}, PATIENCE)


def test_a_worker_that_does_not_start_says_why(tmp_path: Path) -> None:
    answer = worker_of(MISSING, tmp_path).ask("growth", {"calls": 5}, PATIENCE)
    assert answer["failed"].startswith("its process did not start: ModuleNotFoundError")


def test_a_cell_asks_each_as_often_as_it_says_and_who_failed_only_once(
    worker: Worker, tmp_path: Path
) -> None:
    workers = {FLOOR: worker, MISSING: worker_of(MISSING, tmp_path)}
    found = run_cell(Cell("growth/5", "growth", {"calls": 5}, 3, patience=PATIENCE), workers)
    assert len(found[FLOOR.name]["samples"]) == 3
    assert found[MISSING.name]["samples"] == []
    assert "did not start" in found[MISSING.name]["failed"]


def test_a_cell_leaves_out_whom_it_does_not_ask(worker: Worker) -> None:
    cell = Cell("growth/5", "growth", {"calls": 5}, 1, asked=lambda who: who.kind == "peer")
    assert run_cell(cell, {FLOOR: worker}) == {}
