import math
import subprocess
import sys

import pytest

from benchmarks import before_after, scenarios
from benchmarks.driver.environments import ROOT


@pytest.mark.parametrize("backend", before_after.BACKENDS)
def test_a_scenario_runs_on_a_tree(backend: str) -> None:
    figures = before_after.measure(ROOT, "turn", backend, quick=True)
    assert figures["a turn with one round"] > 0


def test_a_scenario_that_fails_says_why() -> None:
    with pytest.raises(before_after.FailedError, match="KeyError: 'juggling'"):
        before_after.measure(ROOT, "juggling", "asyncio", quick=True)


def test_a_row_compares_the_best_and_the_medians() -> None:
    found = {"base": [{"turn": 4.0}, {"turn": 2.0}], "now": [{"turn": 3.0}, {"turn": 5.0}]}
    assert before_after.rows(found) == [["turn", "2.00", "3.00", "1.50", "3.00", "4.00", "1.33"]]


def test_a_figure_that_one_tree_lacks_has_no_ratio() -> None:
    found = {"base": [], "now": [{"turn": 3.0}]}
    assert before_after.rows(found) == [["turn", "-", "3.00", "-", "-", "3.00", "-"]]


def test_the_exponent_is_that_of_the_two_largest_sizes() -> None:
    assert scenarios.exponent({10: 99.0, 100: 1.0, 200: 2.0}) == pytest.approx(2.0)
    assert math.isclose(scenarios.exponent({400: 5.0, 200: 5.0}), 1.0)


def test_an_unknown_scenario_is_an_error_that_names_those_there_are() -> None:
    command = [sys.executable, "-m", "benchmarks.before_after", "HEAD", "--only", "juggling"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 2
    assert "no scenario juggling; there are batches" in done.stderr
