"""The circuit breaker: a state machine that decides when to stop calling a server that keeps failing.

Pure: the caller passes the time and says what counts as a failure.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from seqoria_runtime.mcp._config.status import BreakerState

Verdict: TypeAlias = Literal["answered", "failed", "abandoned"]


@dataclass(frozen=True, slots=True)
class Admission:
    """The permission to make one call; `probe` if its outcome decides the breaker's state."""

    probe: bool
    round: int


class Breaker:
    """Opens after `threshold` failed calls in a row; `reset_after` seconds later one probe decides.

    Settle every admitted call once. The cool-down starts at the failure that opened the breaker. An answer
    to any call closes it, even to a call made before it opened; a failure of such an older call changes
    nothing. After an abandoned probe the next call becomes the probe.
    """

    def __init__(self, threshold: int, reset_after: float) -> None:
        self._threshold = threshold
        self._reset_after = reset_after
        self._failures = 0
        self._opened_at: float | None = None
        self._probing = False
        # Counts openings and closings, so that a call that was admitted before one of them, and fails after
        # it, cannot open the breaker again or restart its cool-down.
        self._round = 0

    def state(self, now: float) -> BreakerState:
        """Return what a call would find now; "half_open" also while the probe is running."""
        if self._opened_at is None:
            return "closed"
        return "half_open" if now >= self._opened_at + self._reset_after else "open"

    def admit(self, now: float) -> Admission | None:
        """Admit a call; return `None` if it may not be made now."""
        state = self.state(now)
        if state == "closed":
            return Admission(probe=False, round=self._round)
        if state == "open" or self._probing:
            return None
        self._probing = True
        return Admission(probe=True, round=self._round)

    def settle(self, admission: Admission, verdict: Verdict, now: float) -> None:
        """Record how an admitted call ended, at the moment when it did."""
        if verdict == "answered":
            # Whenever the call was made: the server answers now.
            self._close()
        elif admission.round == self._round:
            self._settle_unanswered(admission, verdict, now)

    def _settle_unanswered(self, admission: Admission, verdict: Verdict, now: float) -> None:
        if admission.probe:
            self._probing = False
        # Calls that ran at the same time as the one that opened the breaker fail after it. Counting them
        # would move `_opened_at`, and the cool-down would never end under load.
        if verdict != "failed" or (self._opened_at is not None and not admission.probe):
            return
        self._failures += 1
        if admission.probe or self._failures >= self._threshold:
            self._opened_at = now
            self._round += 1

    def _close(self) -> None:
        if self._opened_at is not None:
            self._round += 1
        self._failures = 0
        self._opened_at = None
        self._probing = False
