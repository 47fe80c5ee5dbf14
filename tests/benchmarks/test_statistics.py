import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.driver.statistics import exponent, ratios, rounded, spread

positive = st.floats(min_value=1e-3, max_value=1e6)


@given(factor=positive, power=st.floats(min_value=0.5, max_value=2.0))
def test_the_exponent_of_a_power_law_is_its_power(factor: float, power: float) -> None:
    costs = {size: factor * size**power / size for size in (1_000, 4_000, 64_000)}
    assert exponent(costs) == pytest.approx(power, abs=1e-6)


def test_a_ratio_is_taken_within_its_repetition() -> None:
    assert ratios([2.0, 40.0], [1.0, 10.0]) == [2.0, 4.0]


def test_repetitions_that_one_side_lacks_have_no_ratio() -> None:
    assert ratios([2.0, 40.0, 9.0], [1.0, 10.0]) == [2.0, 4.0]
    assert ratios([2.0], [0.0]) == []


@given(middle=positive, half=st.floats(min_value=0.0, max_value=0.9))
def test_the_spread_is_half_the_range_over_the_median(middle: float, half: float) -> None:
    values = [middle * (1 - half), middle, middle * (1 + half)]
    assert spread(values) == pytest.approx(half, abs=1e-9)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.01234, "0.0123"), (1.0, "1.00"), (19.64, "19.6"), (271.4, "271"), (3505.0, "3,505")],
)
def test_figures_have_three_digits(value: float, text: str) -> None:
    assert rounded(value) == text


def test_what_is_no_number_has_no_figure() -> None:
    assert rounded(math.inf) == "-"
