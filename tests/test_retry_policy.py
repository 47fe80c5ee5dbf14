"""How often and after which waits something is tried again."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime._base.retry_policy import RetryPolicy


@pytest.mark.clause("C93")
def test_the_default_is_one_attempt() -> None:
    assert RetryPolicy.parse(None) == RetryPolicy() == RetryPolicy(max_attempts=1, backoff_base=0.5)
    assert RetryPolicy().wait_after(1) is None


@pytest.mark.clause("C93")
def test_a_policy_is_made_of_a_mapping_that_may_change_afterwards() -> None:
    options = {"max_attempts": 3, "backoff_base": 0.1}
    policy = RetryPolicy.parse(options)
    options["max_attempts"] = 9
    assert policy == RetryPolicy(max_attempts=3, backoff_base=0.1)
    assert RetryPolicy.parse(policy) is policy


@pytest.mark.clause("C2")
@pytest.mark.parametrize("value", [3, "max_attempts", [("max_attempts", 3)]])
def test_what_is_no_mapping_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="a RetryPolicy or a mapping, not"):
        RetryPolicy.parse(value)


@pytest.mark.clause("C2")
def test_unknown_options_are_named() -> None:
    with pytest.raises(ValueError, match=r"^Unknown retry options: attempts, random$"):
        RetryPolicy.parse({"random": 1, "attempts": 3})


@pytest.mark.clause("C2")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("max_attempts", value) for value in (0, -1, True, 1.0, "3", None)),
        *(("backoff_base", value) for value in (-0.1, math.inf, math.nan, True, "1")),
        *(("backoff_max", value) for value in (-1, math.inf)),
        *(("max_retry_after", value) for value in (-1, math.nan)),
    ],
)
def test_a_bad_value_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        RetryPolicy.parse({name: value})


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_wait_doubles_up_to_its_cap_and_half_of_it_is_chance(share: float) -> None:
    policy = RetryPolicy(max_attempts=6, backoff_base=1.0, backoff_max=4.0, random=lambda: share)
    waits = [policy.wait_after(attempt) for attempt in range(1, 6)]
    assert waits == [full * (0.5 + 0.5 * share) for full in (1.0, 2.0, 4.0, 4.0, 4.0)]
    assert policy.wait_after(6) is None


@pytest.mark.case("J2")
def test_the_wait_that_a_server_asks_for_is_kept_up_to_the_cap_and_not_shortened_above_it() -> None:
    policy = RetryPolicy(max_attempts=3, max_retry_after=60.0)
    assert policy.wait_after(1, 60.0) == 60.0
    assert policy.wait_after(1, 0.0) == 0.0
    assert policy.wait_after(1, 60.5) is None
    assert policy.wait_after(3, 1.0) is None


@given(st.integers(1, 10**6), st.floats(0, 1e9), st.floats(0, 1e9), st.floats(0, 1, exclude_max=True))
def test_no_wait_is_longer_than_its_cap(attempt: int, base: float, cap: float, share: float) -> None:
    policy = RetryPolicy(max_attempts=10**7, backoff_base=base, backoff_max=cap, random=lambda: share)
    wait = policy.wait_after(attempt)
    assert wait is not None
    assert 0 <= wait <= cap
