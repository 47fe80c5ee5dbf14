"""The breaker against a model that derives the state from the record of all calls."""

from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from seqoria_runtime.mcp._connection.breaker import Admission, Breaker, Verdict

pytestmark = pytest.mark.clause("C106")


def settle(breaker: Breaker, verdict: Verdict, now: float) -> None:
    admission = breaker.admit(now)
    assert admission is not None
    breaker.settle(admission, verdict, now)


def test_it_opens_at_the_threshold_and_the_cool_down_counts_from_that_failure() -> None:
    breaker = Breaker(threshold=3, reset_after=60.0)
    early = breaker.admit(0.0)
    assert early is not None
    for now in (1.0, 2.0, 3.0):
        settle(breaker, "failed", now)
    assert breaker.state(3.0) == "open"
    breaker.settle(early, "failed", 50.0)  # was on its way when the breaker opened
    assert breaker.admit(62.9) is None
    assert breaker.state(63.0) == "half_open"


def test_one_probe_decides() -> None:
    breaker = Breaker(threshold=1, reset_after=10.0)
    settle(breaker, "failed", 0.0)
    probe = breaker.admit(10.0)
    assert probe is not None
    assert probe.probe
    assert breaker.admit(10.0) is None
    breaker.settle(probe, "failed", 15.0)
    assert breaker.admit(24.9) is None
    settle(breaker, "answered", 25.0)
    assert breaker.state(25.0) == "closed"


def test_an_abandoned_probe_leaves_its_place_to_the_next_call() -> None:
    breaker = Breaker(threshold=1, reset_after=10.0)
    settle(breaker, "failed", 0.0)
    settle(breaker, "abandoned", 10.0)
    settle(breaker, "answered", 10.0)
    assert breaker.state(10.0) == "closed"


def test_an_answer_ends_the_row_of_failures() -> None:
    breaker = Breaker(threshold=2, reset_after=10.0)
    for verdict in ("failed", "answered", "failed", "abandoned"):
        settle(breaker, verdict, 0.0)
    assert breaker.state(0.0) == "closed"
    settle(breaker, "failed", 0.0)
    assert breaker.state(0.0) == "open"


@dataclass
class Call:
    """A call in the model's record; `before` is how often the breaker had opened or closed by then."""

    admission: Admission
    before: int = field(default=0)


class BreakerMachine(RuleBasedStateMachine):
    @initialize(threshold=st.integers(1, 4), reset_after=st.sampled_from([0.0, 1.0, 10.0]))
    def start(self, threshold: int, reset_after: float) -> None:
        self.threshold, self.reset_after = threshold, reset_after
        self.breaker = Breaker(threshold, reset_after)
        self.now = 0.0
        self.flying: list[Call] = []
        self.in_a_row = 0
        self.opened_at: float | None = None
        self.switches = 0

    def cooled(self) -> bool:
        return self.opened_at is not None and self.now >= self.opened_at + self.reset_after

    def probing(self) -> bool:
        return any(call.admission.probe and call.before == self.switches for call in self.flying)

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 9.5]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def ask(self) -> None:
        admission = self.breaker.admit(self.now)
        closed = self.opened_at is None
        assert (admission is not None) == (closed or (self.cooled() and not self.probing()))
        if admission is not None:
            assert admission.probe == (not closed)
            self.flying.append(Call(admission, self.switches))

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), verdict=st.sampled_from(["answered", "failed", "failed", "abandoned"]))
    def end_a_call(self, data: st.DataObject, verdict: Verdict) -> None:
        call = self.flying.pop(data.draw(st.integers(0, len(self.flying) - 1)))
        self.breaker.settle(call.admission, verdict, self.now)
        current = call.before == self.switches
        if verdict == "answered":
            self.switches += self.opened_at is not None
            self.in_a_row, self.opened_at = 0, None
        elif verdict == "failed" and current and (self.opened_at is None or call.admission.probe):
            self.in_a_row += 1
            if call.admission.probe or self.in_a_row >= self.threshold:
                self.opened_at = self.now
                self.switches += 1

    @invariant()
    def the_state_is_the_models(self) -> None:
        expected = "closed" if self.opened_at is None else "half_open" if self.cooled() else "open"
        assert self.breaker.state(self.now) == expected


TestBreaker = BreakerMachine.TestCase
