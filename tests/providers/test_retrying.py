"""Requests that failed for a temporary reason are repeated."""

import logging
from collections.abc import Awaitable, Callable
from itertools import pairwise

import anyio
import pytest

from seqoria_runtime.models.errors import (
    AuthenticationError,
    InvalidRequestError,
    LLMError,
    MaxRetriesExceededError,
    OverloadedError,
    ProviderConnectionError,
    ProviderProtocolError,
    ProviderTimeoutError,
    QuotaExceededError,
    RateLimitError,
    ServerError,
)
from seqoria_runtime.providers._http.retry import RetryPolicy, is_transient, retrying


def failing(*failures: LLMError) -> tuple[Callable[[], Awaitable[str]], list[float]]:
    """An attempt that fails with each of these and then succeeds, and the times of the attempts."""
    left, times = list(failures), list[float]()

    async def attempt() -> str:
        times.append(anyio.current_time())
        if left:
            raise left.pop(0)
        return "done"

    return attempt, times


def policy(attempts: int = 3) -> RetryPolicy:
    return RetryPolicy(max_attempts=attempts, backoff_base=1.0, random=lambda: 1.0)


def waits(times: list[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(times)]


@pytest.mark.clause("C93")
@pytest.mark.parametrize(
    ("error", "transient"),
    [
        *((kind("x"), True) for kind in (ProviderConnectionError, ProviderTimeoutError, RateLimitError)),
        *((kind("x"), True) for kind in (ServerError, OverloadedError)),
        *((kind("x"), False) for kind in (LLMError, AuthenticationError, InvalidRequestError)),
        *((kind("x"), False) for kind in (QuotaExceededError, ProviderProtocolError)),
    ],
)
def test_connections_rate_limits_and_server_failures_are_worth_another_attempt(
    error: LLMError, transient: bool
) -> None:
    assert is_transient(error) is transient


@pytest.mark.clause("C93")
async def test_by_default_nothing_is_repeated_and_nothing_sleeps() -> None:
    attempt, times = failing(RateLimitError("slow down", retry_after=5.0))
    with pytest.raises(RateLimitError) as caught:
        await retrying(RetryPolicy(), attempt)
    assert caught.value.retry_after == 5.0
    assert len(times) == 1
    assert anyio.current_time() == times[0]


@pytest.mark.clause("C93")
async def test_attempts_are_made_after_growing_waits() -> None:
    attempt, times = failing(ServerError("a"), ProviderConnectionError("b"))
    assert await retrying(policy(), attempt) == "done"
    assert waits(times) == pytest.approx([1.0, 2.0])


@pytest.mark.case("J2")
@pytest.mark.clause("C93")
@pytest.mark.parametrize("asked", [0.0, 0.25, 1.5, 59.0])
async def test_the_wait_that_the_server_asks_for_is_honoured(asked: float) -> None:
    attempt, times = failing(RateLimitError("slow down", retry_after=asked))
    assert await retrying(policy(), attempt) == "done"
    assert waits(times) == pytest.approx([asked])


@pytest.mark.case("J2")
async def test_a_server_that_asks_for_too_long_a_wait_fails_now() -> None:
    attempt, times = failing(RateLimitError("slow down", retry_after=90.0))
    with pytest.raises(RateLimitError) as caught:
        await retrying(policy(), attempt)
    assert caught.value.retry_after == 90.0
    assert waits(times) == []


async def test_when_all_attempts_failed_the_last_failure_is_the_cause() -> None:
    last = RateLimitError("slow down", provider="p", status_code=429, request_id="r", retry_after=2.0)
    attempt, _ = failing(ServerError("a"), last)
    with pytest.raises(MaxRetriesExceededError, match=r"^slow down \(after 2 attempts\)$") as caught:
        await retrying(policy(2), attempt)
    error = caught.value
    assert error.__cause__ is last
    assert (error.provider, error.status_code, error.request_id, error.retry_after) == ("p", 429, "r", 2.0)


async def test_a_failure_that_no_attempt_can_help_is_raised_as_it_is() -> None:
    attempt, times = failing(ServerError("a"), InvalidRequestError("b"))
    with pytest.raises(InvalidRequestError):
        await retrying(policy(), attempt)
    assert len(times) == 2


async def test_a_bug_is_no_failure_to_repeat() -> None:
    async def attempt() -> None:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        await retrying(policy(), attempt)


@pytest.mark.case("J2")
async def test_a_cancelled_caller_is_let_go_in_the_middle_of_a_wait() -> None:
    attempt, times = failing(RateLimitError("slow down", retry_after=50.0))
    with anyio.move_on_after(10) as scope:
        await retrying(policy(), attempt)
    assert scope.cancelled_caught
    assert anyio.current_time() - times[0] == pytest.approx(10)
    assert len(times) == 1


async def test_the_sleep_may_be_the_applications() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    attempt, _ = failing(ServerError("a"))
    assert await retrying(
        RetryPolicy(max_attempts=2, backoff_base=4, random=lambda: 0.0, sleep=sleep), attempt
    )
    assert slept == [2.0]


async def test_a_repeated_attempt_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    attempt, _ = failing(ServerError("busy"))
    with caplog.at_level(logging.DEBUG, "seqoria_runtime.providers"):
        await retrying(policy(), attempt)
    assert caplog.messages == ["Attempt 1 of 3 failed: busy"]
