"""The rule of an adaptive limit, without an event loop: samples in, a limit out."""

import math
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime._execution.places.adaptive import AdaptiveController, AdaptiveLimit, Sample

pytestmark = pytest.mark.clause("C43")


class Resource:
    """Calls take `base` seconds up to `capacity` at once, and in proportion to their number above it."""

    def __init__(self, capacity: int, base: float = 1.0) -> None:
        self.capacity = capacity
        self.base = base

    def latency(self, load: int) -> float:
        return self.base * max(1.0, load / self.capacity)


def drive(
    controller: AdaptiveController, resource: Resource, calls: int, *, start: float, load: int | None = None
) -> float:
    """Have calls run in rounds of as many as may, or of `load`; give the time of the end."""
    now = start
    while calls > 0:
        together = min(controller.limit, load or 10**6)
        ended = now + resource.latency(together)
        for _ in range(together):
            controller.add(Sample("tool", now, ended, together))
        calls -= together
        now = ended
    return now


def bounds(capacity: int) -> tuple[float, float]:
    """Where a limit comes to rest, by its rule: n = 1.1 K + sqrt(n), and at least the capacity itself."""
    root = (1 + math.sqrt(1 + 4 * 1.1 * capacity)) / 2
    return capacity, root * root + 1


def steady(controller: AdaptiveController, since: float) -> list[int]:
    """The limits from `since` on, without the windows that run with half the limit to measure."""
    limits = [change.limit for change in controller.history if change.time >= since]
    return [limit for limit, other in pairwise(limits) if limit > 0.75 * other]


@pytest.mark.parametrize("capacity", [2, 8, 30, 100])
def test_it_comes_to_rest_a_little_above_the_capacity(capacity: int) -> None:
    controller, resource = AdaptiveController(AdaptiveLimit(1, 500), 0.0), Resource(capacity)
    settled = drive(controller, resource, 60 * capacity + 2000, start=0.0)
    drive(controller, resource, 200 * capacity, start=settled)
    low, high = bounds(capacity)
    assert all(low <= limit <= high for limit in steady(controller, settled))


@pytest.mark.parametrize(("before", "after"), [(40, 8), (8, 40), (30, 2), (2, 30)])
def test_it_follows_a_capacity_that_changes(before: int, after: int) -> None:
    controller, resource = AdaptiveController(AdaptiveLimit(1, 500), 0.0), Resource(before)
    changed = drive(controller, resource, 4000, start=0.0)
    resource.capacity = after
    settled = drive(controller, resource, 60 * after + 1500, start=changed)
    drive(controller, resource, 3000, start=settled)
    low, high = bounds(after)
    assert all(low <= limit <= high for limit in steady(controller, settled))


def test_it_follows_a_latency_without_load_that_changes() -> None:
    controller, resource = AdaptiveController(AdaptiveLimit(1, 500), 0.0), Resource(20, base=1.0)
    changed = drive(controller, resource, 4000, start=0.0)
    resource.base = 3.0
    settled = drive(controller, resource, 20_000, start=changed)
    drive(controller, resource, 3000, start=settled)
    low, high = bounds(20)
    assert all(low <= limit <= high for limit in steady(controller, settled))


def test_a_limit_that_is_not_used_is_not_raised() -> None:
    controller = AdaptiveController(AdaptiveLimit(4, 100), 0.0)
    drive(controller, Resource(1000), 1000, start=0.0, load=2)
    assert controller.limit == 4


def test_without_load_it_goes_up_to_its_maximum_and_not_above() -> None:
    controller = AdaptiveController(AdaptiveLimit(1, 50), 0.0)
    drive(controller, Resource(1000), 5000, start=0.0)
    assert max(change.limit for change in controller.history) == 50


def test_a_window_with_an_overload_takes_a_tenth_off() -> None:
    controller = AdaptiveController(AdaptiveLimit(1, 100, window=10), 0.0)
    now = drive(controller, Resource(1000), 3000, start=0.0)
    before = controller.limit
    assert before == 100
    for number in range(before):
        controller.add(Sample("tool", now, now + 1, before, overload=number == 0))
    assert controller.limit == 90


def test_endless_overload_goes_down_to_the_minimum_and_not_below() -> None:
    controller = AdaptiveController(AdaptiveLimit(3, 100), 0.0)
    now = drive(controller, Resource(1000), 3000, start=0.0)
    for number in range(10_000):
        controller.add(Sample("tool", now + number, now + number + 1, 100, overload=True))
    assert controller.limit == 3


def test_calls_that_were_started_under_an_earlier_limit_do_not_count() -> None:
    controller = AdaptiveController(AdaptiveLimit(1, 100), 0.0)
    now = drive(controller, Resource(1000), 500, start=0.0)
    before = controller.history
    for _ in range(1000):
        controller.add(Sample("tool", 0.0, now + 100, 1, overload=True))
    assert controller.history == before


def test_tools_of_different_lengths_are_not_compared_with_each_other() -> None:
    controller = AdaptiveController(AdaptiveLimit(1, 50), 0.0)
    now = 0.0
    for number in range(2000):
        slow = number % 7 == 0 if number < 1000 else number % 2 == 0
        tool, latency = ("slow", 50.0) if slow else ("fast", 0.1)
        controller.add(Sample(tool, now, now + latency, controller.limit))
        now += 50
    assert max(change.limit for change in controller.history[-20:]) == 50


def test_calls_that_take_no_time_do_no_harm() -> None:
    controller = AdaptiveController(AdaptiveLimit(1, 50), 0.0)
    for number in range(2000):
        controller.add(Sample("tool", float(number), float(number), controller.limit))
    assert 1 <= controller.limit <= 50


def test_calls_that_come_to_take_no_time_do_no_harm() -> None:
    controller = AdaptiveController(AdaptiveLimit(1, 50), 0.0)
    for number in range(2000):
        controller.add(Sample("tool", number, number + (number < 100), controller.limit))
    assert controller.limit == 50


# Whole seconds as well, since they make calls that take no time likely.
samples = st.builds(
    Sample,
    st.sampled_from("ab"),
    st.floats(0, 100) | st.integers(0, 3),
    st.floats(0, 1e6) | st.integers(0, 3),
    st.integers(1, 200),
    st.booleans(),
)


@given(
    options=st.integers(1, 40).flatmap(
        lambda low: st.builds(AdaptiveLimit, st.just(low), st.integers(low, 100), st.integers(1, 5))
    ),
    given_samples=st.lists(samples, max_size=200),
)
def test_whatever_comes_the_limit_stays_in_its_bounds_and_the_history_tells_it(
    options: AdaptiveLimit, given_samples: Iterable[Sample]
) -> None:
    controller = AdaptiveController(options, 0.0)
    now = 0.0
    for sample in given_samples:
        now += sample.started
        moved = Sample(sample.tool, now, now + sample.ended, sample.in_flight, sample.overload)
        before = controller.limit
        assert controller.add(moved) == (controller.limit != before)
        assert options.min <= controller.limit <= options.max
        assert controller.history[-1].limit == controller.limit


@pytest.mark.clause("C2")
@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: AdaptiveLimit(0, 5), "'min' must be a positive integer, not 0"),
        (lambda: AdaptiveLimit(True, 5), "'min' must be a positive integer, not True"),
        (lambda: AdaptiveLimit(1, 2.5), "'max' must be a positive integer, not 2.5"),  # type: ignore[arg-type]
        (lambda: AdaptiveLimit(6, 5), "'min' must be at most 'max', 5, not 6"),
        (lambda: AdaptiveLimit(window=0), "'window' must be a positive integer, not 0"),
        (lambda: AdaptiveLimit(tolerance=0.5), "'tolerance' must be a number from 1 on, not 0.5"),
        (lambda: AdaptiveLimit(tolerance=math.nan), "'tolerance'"),
    ],
)
def test_bad_options_are_refused_by_name(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()
