from collections import Counter
from typing import Any

import pytest

from benchmarks.driver.contestants import CONTESTANTS, Contestant
from benchmarks.driver.goals import GOALS, Goal, Verdict, value_of, verdicts
from benchmarks.driver.plan import FULL, cells
from benchmarks.driver.results import Results

CEILING = Goal("turn", "turns/one", "cpu", 2.0, "workers")


def record(*values: float) -> dict[str, Any]:
    return {"samples": [{"cpu": value} for value in values]}


RESULTS: Results = {
    "turns/one": {
        "seqoria_runtime, trio": record(4.0, 9.0, 5.0),
        "workers, trio": record(2.0, 3.0, 2.0),
        "agno": record(40.0, 90.0, 50.0),
    }
}


def test_a_ratio_is_to_the_reference_on_the_same_loop() -> None:
    assert value_of(RESULTS, CEILING, "trio") == 2.5


def test_a_peer_without_a_loop_of_its_own_is_found_by_name() -> None:
    assert value_of(RESULTS, Goal("turn", "turns/one", "cpu", 0.2, "agno"), "trio") == pytest.approx(0.1)


def test_what_was_not_measured_is_not_reached() -> None:
    verdict = Verdict(CEILING, "asyncio", value_of(RESULTS, CEILING, "asyncio"))
    assert not verdict.reached
    assert verdict.words == "not measured"


@pytest.mark.parametrize(
    ("goal", "value", "words"),
    [
        (CEILING, 2.0, "reached"),
        (CEILING, 2.5, "missed by 25%"),
        (Goal("share", "throughput/320", "share", 0.8, at_least=True), 0.9, "reached"),
        (Goal("share", "throughput/320", "share", 0.8, at_least=True), 0.6, "missed by 25%"),
        (Goal("loaded", "imports", "loaded", 0.0), 1.0, "missed"),
    ],
)
def test_a_goal_tells_by_how_much_it_was_missed(goal: Goal, value: float, words: str) -> None:
    assert Verdict(goal, "trio", value).words == words


def test_every_goal_is_judged_on_each_of_its_loops() -> None:
    assert len(verdicts({})) == sum(len(goal.loops) for goal in GOALS)


def test_the_full_run_measures_what_every_goal_needs() -> None:
    keys = {cell.key for cell in cells(FULL, "http://localhost")} | {"imports", "growth"}
    assert {goal.cell for goal in GOALS} <= keys


def test_no_one_is_asked_twice_for_one_figure() -> None:
    asked = Counter((cell.key, who) for cell in cells(FULL, "url") for who in CONTESTANTS if cell.asked(who))
    assert max(asked.values()) == 1


@pytest.mark.parametrize(
    "who", [who for who in CONTESTANTS if who.kind != "reader"], ids=lambda who: who.name
)
def test_everyone_is_asked_for_every_kind_of_work_but_the_streams(who: Contestant) -> None:
    kinds = {cell.workload for cell in cells(FULL, "url") if cell.asked(who)}
    rest = {cell.workload for cell in cells(FULL, "url")} - kinds
    assert rest <= {"primitives", "deltas", "makespan", "dag_cost"}
