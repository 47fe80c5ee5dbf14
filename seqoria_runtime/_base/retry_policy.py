"""How often to try something again, and how long to wait in between."""

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from .checks import non_negative_seconds, positive_int

_OPTIONS = ("max_attempts", "backoff_base", "backoff_max", "max_retry_after")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The maximum number of attempts (including the first) and the delay between them.

    The delay before attempt n + 1 is what the server asks for. If it asks for nothing, the delay is
    between half of `backoff_base * 2 ** (n - 1)` seconds and all of it, at most `backoff_max`. If
    the server asks for more than `max_retry_after` seconds, its error is raised at once. `random`
    (in [0, 1)) and `sleep` are for tests. Raises `ValueError` that names the option.
    """

    max_attempts: int = 1
    backoff_base: float = 0.5
    backoff_max: float = 30.0
    max_retry_after: float = 60.0
    random: Callable[[], float] = field(default=random.random, repr=False, compare=False)
    sleep: Callable[[float], Awaitable[None]] = field(default=anyio.sleep, repr=False, compare=False)

    def __post_init__(self) -> None:
        positive_int("max_attempts", self.max_attempts)
        for name in _OPTIONS[1:]:
            non_negative_seconds(name, getattr(self, name))

    @classmethod
    def parse(cls, value: "RetryPolicy | Mapping[str, Any] | None") -> "RetryPolicy":
        """Return a policy as it is, or make one from a mapping of options or `None` (one attempt).

        Raises `TypeError` for anything else and `ValueError` for an unknown or a bad option.
        """
        if value is None:
            return cls()
        if isinstance(value, RetryPolicy):
            return value
        if not isinstance(value, Mapping):
            raise TypeError(f"retry options must be a RetryPolicy or a mapping, not {type(value).__name__}")
        unknown = [str(name) for name in value if name not in _OPTIONS]
        if unknown:
            raise ValueError(f"Unknown retry options: {', '.join(sorted(unknown))}")
        return cls(**value)

    def wait_after(self, attempt: int, retry_after: float | None = None) -> float | None:
        """Return the seconds to wait after the n-th attempt failed; `None` if no other may follow."""
        if attempt >= self.max_attempts:
            return None
        if retry_after is not None:
            return retry_after if retry_after <= self.max_retry_after else None
        # 2.0 ** 1024 overflows; `backoff_max` is reached long before.
        full = min(self.backoff_base * 2.0 ** min(attempt - 1, 64), self.backoff_max)
        return full * (0.5 + 0.5 * self.random())
