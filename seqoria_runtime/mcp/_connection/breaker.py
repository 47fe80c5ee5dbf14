"""Owns the rule of when a server that keeps failing is left alone for a while: a state machine.

Pure: it is given the time, and knows nothing of servers or of what a failure is.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

State: TypeAlias = Literal["closed", "open", "half_open"]
Verdict: TypeAlias = Literal["answered", "failed", "abandoned"]


@dataclass(frozen=True, slots=True)
class Admission:
    """The leave to make one call; `probe` if the breaker's state hangs on it."""

    probe: bool
    round: int


class Breaker:
    """Opens after `threshold` calls in a row that failed; `reset_after` seconds later one probe decides.

    Every admitted call is settled once. The cool-down counts from the failure that opened the
    breaker. An answer to any call, also to one that was made before it opened, closes it; a failure
    of such an older call changes nothing. A probe that is abandoned leaves its place to the next call.
    """

    def __init__(self, threshold: int, reset_after: float) -> None:
        self._threshold = threshold
        self._reset_after = reset_after
        self._failures = 0
        self._opened_at: float | None = None
        self._probing = False
        self._round = 0

    def state(self, now: float) -> State:
        """What a call at this moment would find; "half_open" also while the probe is on its way."""
        if self._opened_at is None:
            return "closed"
        return "half_open" if now >= self._opened_at + self._reset_after else "open"

    def admit(self, now: float) -> Admission | None:
        """Give a call leave, or `None` where it may not be made now."""
        state = self.state(now)
        if state == "closed":
            return Admission(probe=False, round=self._round)
        if state == "open" or self._probing:
            return None
        self._probing = True
        return Admission(probe=True, round=self._round)

    def settle(self, admission: Admission, verdict: Verdict, now: float) -> None:
        """Tell how an admitted call ended, at the moment when it did."""
        if verdict == "answered":
            self._close()
        elif admission.round == self._round:
            self._settle_unanswered(admission, verdict, now)

    def _settle_unanswered(self, admission: Admission, verdict: Verdict, now: float) -> None:
        if admission.probe:
            self._probing = False
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
