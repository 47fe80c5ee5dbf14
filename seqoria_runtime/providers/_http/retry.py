"""Repeats a request that failed for a temporary reason, before any of its answer was passed on."""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from seqoria_runtime._base.retry_policy import RetryPolicy
from seqoria_runtime.models.errors import (
    LLMError,
    MaxRetriesExceededError,
    ProviderConnectionError,
    RateLimitError,
    ServerError,
)

__all__ = ["RetryPolicy", "is_transient", "retrying"]

_T = TypeVar("_T")
_logger = logging.getLogger("seqoria_runtime.providers")


def is_transient(error: LLMError) -> bool:
    """Whether another attempt may succeed: connection failures, 429, and failures of the server."""
    return isinstance(error, (ProviderConnectionError, RateLimitError, ServerError))


async def retrying(policy: RetryPolicy, attempt: Callable[[], Awaitable[_T]]) -> _T:
    """Attempt as often as the policy allows; a cancelled caller stops waiting at once.

    Raises a failure as it is if it is not transient, if only one attempt is allowed, or if the
    server asks for too long a wait; otherwise `MaxRetriesExceededError` from the last failure.
    """
    number = 0
    while True:
        number += 1
        try:
            return await attempt()
        except LLMError as error:
            if not is_transient(error):
                raise
            wait = policy.wait_after(number, error.retry_after)
            if wait is None and 1 < policy.max_attempts == number:
                raise _exhausted(error, number) from error
            if wait is None:
                raise
            _logger.debug("Attempt %d of %d failed: %s", number, policy.max_attempts, error)
        await policy.sleep(wait)


def _exhausted(error: LLMError, attempts: int) -> MaxRetriesExceededError:
    return MaxRetriesExceededError(
        f"{error} (after {attempts} attempts)",
        provider=error.provider,
        status_code=error.status_code,
        request_id=error.request_id,
        retry_after=error.retry_after,
    )
