from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from seqoria_runtime._execution.places.gate import Demand
from seqoria_runtime._execution.places.slots import CallLease, Lane, Slot, Slots

from seqoria_runtime.models.errors import CallEndedError


@dataclass(eq=False)
class Batch:
    """A batch without tasks: it has `wanted` calls left, and runs one in each slot that it gets."""

    slots: Slots
    wanted: int = 0
    caller: CallLease | None = None
    held: list[Slot] = field(default_factory=list)
    stuck: int = 0
    passed_on: int = 0
    error: CallEndedError | None = None

    def __post_init__(self) -> None:
        self.lane = Lane(self.slots, self, self.caller)
        self.expand()

    def expand(self) -> None:
        while self.wanted:
            slot = self.lane.acquire_nowait()
            if slot is None:
                self.lane.wait()
                return
            self.start(slot)

    def start(self, slot: Slot) -> None:
        self.wanted -= 1
        self.held.append(slot)

    def demand(self) -> Demand:
        return Demand(len(self.held), 0, self.wanted, None)

    def slot_offered(self, slot: Slot) -> bool:
        if not self.wanted:
            return False
        self.start(slot)
        if self.wanted:
            self.lane.wait()
        return True

    def slots_stuck(self) -> None:
        self.stuck += 1

    def lease_ended(self, error: CallEndedError) -> None:
        self.error = error
        self.wanted = 0
        self.lane.stop_waiting()

    def finish(self, slot: Slot | None = None) -> None:
        """End the call in `slot`, by default the oldest, and do with the slot what a worker does."""
        slot = slot or self.held[0]
        self.held.remove(slot)
        if not self.wanted:
            self.lane.stop_waiting()
            self.lane.release(slot)
        elif self.lane.keep(slot):
            self.start(slot)
        else:
            self.passed_on += 1
            self.lane.pass_on(slot)

    def call(self, tool: str = "parent") -> CallLease:
        """The call in this batch's oldest slot, as the batches that it starts see it."""
        return CallLease(self.slots, self.held[0], tool, self.caller)


class Clock:
    now = 0.0


def make(total: int, clock: Clock | None = None) -> Slots:
    time = clock or Clock()
    return Slots(total, lambda: time.now)


def stuck_since(slots: Slots) -> float | None:
    return slots.stuck_since


@pytest.mark.clause("C43")
def test_no_more_slots_are_given_than_there_are() -> None:
    slots = make(3)
    batch = Batch(slots, wanted=5)
    assert len(set(batch.held)) == 3
    assert (slots.free, batch.wanted) == (0, 2)
    for _ in range(5):
        batch.finish()
    assert slots.free == 3


@pytest.mark.clause("C48")
def test_a_single_call_waits_only_for_the_running_call_of_a_long_batch() -> None:
    slots = make(1)
    long = Batch(slots, wanted=1000)
    single = Batch(slots, wanted=1)
    long.finish()
    assert (len(single.held), len(long.held)) == (1, 0)
    single.finish()
    assert len(long.held) == 1


@pytest.mark.clause("C48")
def test_a_single_call_waits_for_one_call_of_each_of_several_long_batches() -> None:
    slots = make(1)
    long = [Batch(slots, wanted=1000) for _ in range(3)]
    single = Batch(slots, wanted=1)
    served = Counter[int]()
    while not single.held:
        [running] = [number for number, batch in enumerate(long) if batch.held]
        long[running].finish()
        served[running] += 1
    assert served == {0: 1, 1: 1, 2: 1}


@pytest.mark.clause("C48")
@pytest.mark.parametrize("total", [1, 2, 5])
def test_batches_with_enough_to_do_get_the_same_share(total: int) -> None:
    slots = make(total)
    batches = [Batch(slots, wanted=1000) for _ in range(3)]
    running: list[tuple[Batch, Slot]] = []
    for _ in range(300):
        held = [(batch, slot) for batch in batches for slot in batch.held]
        running += [pair for pair in held if pair not in running]
        oldest, slot = running.pop(0)
        oldest.finish(slot)
    started = [1000 - batch.wanted for batch in batches]
    assert max(started) - min(started) <= 2 * total


@pytest.mark.clause("C48")
def test_a_batch_with_one_long_call_has_its_turns_like_any_other() -> None:
    slots = make(2)
    batches = [Batch(slots, wanted=300) for _ in range(3)]
    first = batches[0]
    long = first.held[0]
    while any(batch.wanted == 299 for batch in batches[1:]) or first.wanted > 200:
        busy, slot = next((batch, slot) for batch in batches for slot in batch.held if slot is not long)
        busy.finish(slot)
    started = [300 - batch.wanted for batch in batches]
    assert max(started) - min(started) <= 2


@pytest.mark.clause("C48")
def test_a_batch_whose_slot_stays_with_a_thread_counts_as_one_that_holds_none() -> None:
    slots = make(2)
    other, batch = Batch(slots, wanted=10), Batch(slots, wanted=2)
    other.finish()
    [slot] = batch.held
    batch.held.clear()
    assert not slots.end(CallLease(slots, slot, "block", None), abandoned=True)
    other.finish()
    assert (len(batch.held), len(other.held)) == (1, 0)


@pytest.mark.clause("C48")
def test_a_batch_that_is_alone_keeps_its_slots() -> None:
    slots = make(2)
    batch = Batch(slots, wanted=6)
    first, second = batch.held
    batch.finish(first)
    batch.finish(second)
    assert (batch.held, batch.passed_on) == ([first, second], 0)


def test_a_slot_that_a_batch_has_no_more_use_for_goes_to_the_next_in_the_queue() -> None:
    slots = make(1)
    running, cancelled, waiting = Batch(slots, wanted=1), Batch(slots, wanted=1), Batch(slots, wanted=1)
    cancelled.wanted = 0
    running.finish()
    assert len(waiting.held) == 1


def test_a_thousand_batches_that_have_no_more_use_for_a_slot_need_no_deep_stack() -> None:
    slots = make(1)
    running = Batch(slots, wanted=1)
    for batch in [Batch(slots, wanted=1) for _ in range(2000)]:
        batch.wanted = 0
    running.finish()
    assert slots.free == 1


def test_a_closed_lane_is_offered_nothing() -> None:
    slots = make(1)
    running, closed = Batch(slots, wanted=1), Batch(slots, wanted=1)
    closed.lane.close()
    running.finish()
    assert (slots.free, closed.held) == (1, [])


@pytest.mark.clause("C49")
def test_a_call_lends_its_slot_to_one_nested_call_at_a_time() -> None:
    slots = make(1)
    outer = Batch(slots, wanted=1)
    nested = Batch(slots, wanted=3, caller=outer.call())
    assert [slot.root for slot in nested.held] == outer.held
    assert nested.wanted == 2
    for _ in range(3):
        nested.finish()
    assert (nested.held, nested.wanted, slots.free) == ([], 0, 0)


@pytest.mark.clause("C49")
def test_a_nested_batch_that_is_alone_keeps_the_lent_slot() -> None:
    slots = make(1)
    nested = Batch(slots, wanted=3, caller=Batch(slots, wanted=1).call())
    nested.finish()
    assert (len(nested.held), nested.passed_on) == (1, 0)


@pytest.mark.clause("C49")
def test_nested_calls_take_free_slots_beside_the_lent_one() -> None:
    slots = make(3)
    outer = Batch(slots, wanted=1)
    nested = Batch(slots, wanted=5, caller=outer.call())
    assert (len(nested.held), len({slot.root for slot in nested.held}), slots.free) == (3, 3, 0)


@pytest.mark.clause("C49")
def test_a_lent_slot_can_be_lent_further_at_any_depth() -> None:
    slots = make(1)
    batch = Batch(slots, wanted=1)
    [root] = batch.held
    for _ in range(50):
        batch = Batch(slots, wanted=1, caller=batch.call())
        assert batch.held[0].root is root


@pytest.mark.clause("C48", "C49")
def test_nested_batches_of_one_call_use_its_slot_in_turn() -> None:
    slots = make(1)
    outer = Batch(slots, wanted=1)
    call = outer.call()
    long, single = Batch(slots, wanted=100, caller=call), Batch(slots, wanted=1, caller=call)
    long.finish()
    assert len(single.held) == 1
    single.finish()
    assert len(long.held) == 1


@pytest.mark.clause("C49")
def test_the_end_of_a_call_ends_the_batches_that_it_started_with_an_error_that_names_it() -> None:
    slots = make(1)
    outer = Batch(slots, wanted=1)
    call = outer.call("search")
    nested = Batch(slots, wanted=2, caller=call)
    assert not slots.end(call), "the slot is still lent"
    assert nested.error is not None
    assert "'search'" in str(nested.error)
    with pytest.raises(CallEndedError, match="'search'"):
        call.require_live()
    assert slots.free == 0
    nested.finish()
    assert slots.free == 1


@pytest.mark.clause("C49")
def test_a_batch_that_has_closed_is_not_told_of_the_end_of_its_call() -> None:
    slots = make(2)
    outer = Batch(slots, wanted=1)
    call = outer.call()
    nested = Batch(slots, wanted=1, caller=call)
    nested.finish()
    nested.lane.close()
    assert slots.end(call)
    assert nested.error is None


@pytest.mark.clause("C49")
def test_a_batch_of_an_ended_call_borrows_nothing_more() -> None:
    slots = make(1)
    outer = Batch(slots, wanted=1)
    call = outer.call()
    nested = Batch(slots, caller=call)
    slots.end(call)
    assert nested.lane.acquire_nowait() is None


@pytest.mark.clause("C49")
def test_a_call_inside_an_ended_call_has_ended_as_well() -> None:
    slots = make(1)
    outer = Batch(slots, wanted=1)
    parent = outer.call("outer")
    child = Batch(slots, wanted=1, caller=parent).call("inner")
    child.require_live()
    slots.end(parent)
    with pytest.raises(CallEndedError, match="'outer'"):
        child.require_live()


@pytest.mark.clause("C51")
def test_an_abandoned_thread_keeps_the_slot_until_it_ends() -> None:
    slots = make(2)
    batch = Batch(slots, wanted=1)
    call = batch.call("block")
    assert not slots.end(call, abandoned=True)
    assert (slots.free, list(slots.abandoned)) == (1, ["block"])
    slots.reclaim(call.slot)
    assert (slots.free, list(slots.abandoned)) == (2, [])


@pytest.mark.clause("C51")
def test_the_slot_of_an_abandoned_thread_goes_to_whoever_waits() -> None:
    slots = make(1)
    call = Batch(slots, wanted=1).call()
    waiting = Batch(slots, wanted=1)
    slots.end(call, abandoned=True)
    assert waiting.held == []
    slots.reclaim(call.slot)
    assert waiting.held == [call.slot]


@pytest.mark.clause("C49", "C51")
@pytest.mark.parametrize("thread_first", [True, False])
def test_a_slot_with_an_abandoned_thread_and_a_borrower_comes_back_from_the_last_of_them(
    thread_first: bool,
) -> None:
    slots = make(1)
    outer = Batch(slots, wanted=1)
    call = outer.call()
    nested = Batch(slots, wanted=1, caller=call)
    assert not slots.end(call, abandoned=True)
    for thread_ends in (thread_first, not thread_first):
        assert slots.free == 0
        if thread_ends:
            slots.reclaim(call.slot)
        else:
            nested.finish()
    assert slots.free == 1


@pytest.mark.clause("C51")
def test_waiting_batches_are_told_once_when_abandoned_threads_come_to_hold_every_slot() -> None:
    clock = Clock()
    slots = make(2, clock)
    batch = Batch(slots, wanted=2)
    calls = [CallLease(slots, slot, "block", None) for slot in batch.held]
    waiting = Batch(slots, wanted=1)
    clock.now = 1.0
    slots.end(calls[0], abandoned=True)
    assert stuck_since(slots) is None
    assert waiting.stuck == 0
    clock.now = 2.0
    slots.end(calls[1], abandoned=True)
    assert stuck_since(slots) == 2.0
    assert waiting.stuck == 1
    clock.now = 3.0
    slots.reclaim(calls[0].slot)
    assert stuck_since(slots) is None
    assert len(waiting.held) == 1


@pytest.mark.clause("C49", "C51")
def test_a_call_that_ends_over_an_abandoned_nested_thread_does_not_start_the_wait_anew() -> None:
    clock = Clock()
    slots = make(1, clock)
    outer = Batch(slots, wanted=1)
    parent = outer.call("parent")
    child = Batch(slots, wanted=1, caller=parent).call("child")
    clock.now = 1.0
    slots.end(child, abandoned=True)
    assert stuck_since(slots) == 1.0
    clock.now = 2.0
    slots.end(parent, abandoned=True)
    assert stuck_since(slots) == 1.0
    assert sorted(slots.abandoned) == ["child", "parent"]
    slots.reclaim(child.slot)
    assert stuck_since(slots) == 1.0
    assert slots.free == 0
    slots.reclaim(parent.slot)
    assert stuck_since(slots) is None
    assert slots.free == 1


@dataclass(eq=False)
class Call:
    """A call that runs, or ran and left something behind."""

    batch: "ModelBatch"
    slot: Slot
    lease: CallLease
    abandoned: bool = False


class ModelBatch(Batch):
    """A batch that keeps its calls, and counts how often others get a slot while it waits without one."""

    def __init__(self, machine: "SlotsMachine", wanted: int, parent: Call | None) -> None:
        self.machine = machine
        self.parent = parent
        self.calls: list[Call] = []
        self.overtaken: Counter[ModelBatch] = Counter()
        super().__init__(machine.slots, wanted, parent.lease if parent else None)

    @property
    def waits(self) -> bool:
        return self.wanted > 0

    def start(self, slot: Slot) -> None:
        self.wanted -= 1
        self.overtaken.clear()
        if slot.lender is None:
            for other in self.machine.batches:
                if other.waits and other is not self:
                    other.overtaken[self] += 1
        self.calls.append(
            Call(self, slot, CallLease(self.slots, slot, f"tool{len(self.calls)}", self.caller))
        )

    def end(self, call: Call, abandoned: bool) -> None:
        self.calls.remove(call)
        if not self.calls:
            self.overtaken.clear()
        kept = self.slots.end(call.lease, abandoned=abandoned)
        if abandoned:
            call.abandoned = True
            self.machine.abandoned.append(call)
        if kept and self.wanted and self.lane.keep(call.slot):
            self.start(call.slot)
        elif kept and self.wanted:
            self.lane.pass_on(call.slot)
        elif kept:
            self.lane.release(call.slot)
        if not self.wanted:
            self.lane.stop_waiting()
        self.expand()
        if not self.wanted and not self.calls:
            self.lane.close()


class SlotsMachine(RuleBasedStateMachine):
    """Batches that come, run, nest, overrun and leave, in any order."""

    @initialize(total=st.integers(1, 3))
    def open(self, total: int) -> None:
        self.now = 0.0
        self.slots = Slots(total, lambda: self.now)
        self.batches: list[ModelBatch] = []
        self.abandoned: list[Call] = []
        self.stuck_since: float | None = None

    def running(self) -> list[Call]:
        return [call for batch in self.batches for call in batch.calls]

    @rule(wanted=st.integers(1, 4))
    def begin(self, wanted: int) -> None:
        self.batches.append(ModelBatch(self, wanted, None))

    @precondition(lambda self: self.running())
    @rule(data=st.data(), wanted=st.integers(1, 3))
    def begin_nested(self, data: st.DataObject, wanted: int) -> None:
        parent = data.draw(st.sampled_from(self.running()))
        if not parent.lease.ended:
            self.batches.append(ModelBatch(self, wanted, parent))

    @precondition(lambda self: self.running())
    @rule(data=st.data(), abandoned=st.booleans())
    def end_call(self, data: st.DataObject, abandoned: bool) -> None:
        call = data.draw(st.sampled_from(self.running()))
        call.batch.end(call, abandoned)

    @precondition(lambda self: self.abandoned)
    @rule(data=st.data())
    def end_thread(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(self.abandoned))
        self.abandoned.remove(call)
        self.slots.reclaim(call.slot)

    @precondition(lambda self: any(batch.waits for batch in self.batches))
    @rule(data=st.data(), at_once=st.booleans())
    def cancel(self, data: st.DataObject, at_once: bool) -> None:
        batch = data.draw(st.sampled_from([batch for batch in self.batches if batch.waits]))
        batch.wanted = 0
        if at_once:
            batch.lane.stop_waiting()

    @rule(seconds=st.integers(1, 5))
    def pass_time(self, seconds: int) -> None:
        self.now += seconds

    @invariant()
    def every_slot_is_free_or_held_and_never_held_twice(self) -> None:
        in_use = [call.slot for call in [*self.running(), *self.abandoned]]
        assert len(in_use) == len(set(in_use)), "two calls in one slot"
        assert len({slot.root for slot in in_use}) + self.slots.free == self.slots.total

    @invariant()
    def a_call_lends_to_one_call_at_a_time(self) -> None:
        lent = [
            call.slot.lender for call in [*self.running(), *self.abandoned] if call.slot.lender is not None
        ]
        assert len(lent) == len(set(lent))
        assert all(lender.lent for lender in lent)

    @invariant()
    def nobody_waits_while_there_is_a_slot_for_it(self) -> None:
        for batch in self.batches:
            if batch.waits:
                assert self.slots.free == 0
                assert batch.caller is None or batch.caller.lent

    @invariant()
    def nobody_without_a_slot_is_overtaken_twice_by_the_same_batch(self) -> None:
        for batch in self.batches:
            if batch.waits and not batch.calls:
                assert max(batch.overtaken.values(), default=0) <= 1

    @invariant()
    def abandoned_threads_are_told_and_timed(self) -> None:
        assert sorted(self.slots.abandoned) == sorted(call.lease.tool for call in self.abandoned)
        if len({call.slot.root for call in self.abandoned}) < self.slots.total:
            self.stuck_since = None
        elif self.stuck_since is None:
            self.stuck_since = self.now
        assert self.slots.stuck_since == self.stuck_since

    def teardown(self) -> None:
        if not hasattr(self, "slots"):
            return
        while self.running() or self.abandoned:
            for call in self.running()[:1]:
                call.batch.end(call, abandoned=False)
            for call in self.abandoned[:1]:
                self.abandoned.remove(call)
                self.slots.reclaim(call.slot)
            self.every_slot_is_free_or_held_and_never_held_twice()
        assert self.slots.free == self.slots.total
        assert not any(batch.waits for batch in self.batches)


TestSlotsInAnyOrder = pytest.mark.clause("C43", "C48", "C49", "C51")(SlotsMachine.TestCase)
