"""Which calls get the places of a client, seen step by step: no tasks, no time but a fake clock."""

import functools
import gc
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import TypeAlias

import pytest

from seqoria_runtime._base.tools import ConcurrencyCap
from seqoria_runtime._execution.batches.planner import GraphNode
from seqoria_runtime._execution.places.places import Places
from seqoria_runtime._execution.places.pool import Grant, Ticket
from seqoria_runtime.models.errors import CallEndedError
from tests.support.places import CheckedClient, Client, Load

TraceFunction: TypeAlias = Callable[[FrameType, str, object], "TraceFunction | None"]


def borrowed(grant: Grant) -> list[Grant | None]:
    """The calls that have lent each place of this one."""
    return [place.borrowed_from.grant if place.borrowed_from else None for place in grant.places]


def stuck_since(client: Client) -> float | None:
    return client.slots.stuck_since


# Slots and turns


@pytest.mark.clause("C43")
def test_no_more_calls_run_than_there_are_slots() -> None:
    client = Client(3)
    load = client.uncapped(5)
    assert (len(load.running), client.slots.free) == (3, 0)
    for _ in range(5):
        load.end()
    assert (load.started, client.slots.free) == (5, 3)


@pytest.mark.clause("C43")
def test_a_batch_takes_one_slot_until_a_call_of_it_suspends() -> None:
    client = Client(3)
    load = client.run((), (), (), eager=False)
    assert len(load.running) == 1
    load.eager = True
    load.after_step()
    assert len(load.running) == 3


@pytest.mark.clause("C48")
def test_a_single_call_waits_only_for_the_running_call_of_a_long_batch() -> None:
    client = Client(1)
    long, single = client.uncapped(1000), client.uncapped(1)
    long.end()
    assert (len(single.running), len(long.running)) == (1, 0)
    single.end()
    assert len(long.running) == 1


@pytest.mark.clause("C48")
def test_a_single_call_waits_for_one_call_of_each_of_several_long_batches() -> None:
    client = Client(1)
    long = [client.uncapped(1000) for _ in range(3)]
    single = client.uncapped(1)
    served = Counter[int]()
    while not single.running:
        [number] = [number for number, load in enumerate(long) if load.running]
        long[number].end()
        served[number] += 1
    assert served == {0: 1, 1: 1, 2: 1}


@pytest.mark.clause("C48")
@pytest.mark.parametrize("slots", [1, 2, 5])
def test_batches_with_enough_to_do_get_the_same_share(slots: int) -> None:
    client = Client(slots)
    loads = [client.uncapped(1000) for _ in range(3)]
    running: list[tuple[Load, Grant]] = []
    for _ in range(300):
        running += [(load, grant) for load in loads for grant in load.running if (load, grant) not in running]
        oldest, grant = running.pop(0)
        oldest.end(grant)
    assert max(load.started for load in loads) - min(load.started for load in loads) <= 2 * slots


@pytest.mark.clause("C48")
def test_a_batch_with_one_long_call_has_its_turns_like_any_other() -> None:
    client = Client(2)
    loads = [client.uncapped(300) for _ in range(3)]
    first, long = loads[0], loads[0].call
    while first.started < 100 or any(load.started < 2 for load in loads):
        busy, grant = next((load, grant) for load in loads for grant in load.running if grant is not long)
        busy.end(grant)
    assert max(load.started for load in loads) - min(load.started for load in loads) <= 2


@pytest.mark.clause("C48")
def test_the_last_call_of_a_batch_leaves_its_place_to_the_batch_that_has_waited_longest() -> None:
    client = Client(1)
    first, second, third = client.uncapped(1), client.uncapped(1), client.uncapped(1)
    first.end()
    assert (len(second.running), len(third.running)) == (1, 0)


@pytest.mark.clause("C48")
def test_a_batch_that_is_alone_goes_on_in_the_places_that_it_has() -> None:
    client = Client(2, [2])
    load = client.capped(6)
    places = {place for grant in load.running for place in grant.places}
    while load.order.ready:
        load.end()
        assert {place for grant in load.running for place in grant.places} == places


@pytest.mark.clause("C43")
def test_calls_go_in_the_order_of_the_planner_also_within_the_places_of_earlier_ones() -> None:
    client = Client(1)
    load = client.run(
        GraphNode(("short",)), GraphNode(("last",), frozenset({"first"})), GraphNode(("first",)), eager=False
    )
    order = []
    while load.running:
        order.append(load.call.call)
        load.end()
    assert order == [2, 0, 1]


def test_a_closed_batch_gets_nothing() -> None:
    client = Client(1)
    running, closed, waiting = client.uncapped(1), client.uncapped(1), client.uncapped(1)
    closed.cancel()
    running.end()
    assert (closed.started, len(waiting.running)) == (0, 1)


def test_thousands_of_batches_that_are_gone_need_no_deep_stack_and_leave_nothing() -> None:
    client = Client(1)
    running = client.uncapped(1)
    gone = [client.uncapped(1) for _ in range(5000)]
    for load in gone:
        load.cancel()
    running.end()
    assert client.slots.free == 1
    assert not client.slots.line.has_others(running.ticket)


def test_nested_batches_that_are_gone_leave_nothing_where_slots_are_always_free() -> None:
    client = Client(3)
    outer = client.uncapped(1)
    for _ in range(100):
        client.uncapped(1, outer.call).end()
    gc.collect()
    tickets = [found for found in gc.get_objects() if type(found) is Ticket]
    assert [ticket for ticket in tickets if ticket.caller is outer.call] == []


# Caps


@pytest.mark.clause("C43", "C136")
def test_a_call_takes_all_its_places_or_none() -> None:
    client = Client(3, [1, 1])
    both = (client.caps[0], client.caps[1])
    second = client.capped(1, cap=1)
    waiting = client.run(both)
    assert (waiting.running, client.caps[0].free, client.slots.free) == ([], 1, 2)
    second.end()
    assert [place.pool for place in waiting.call.places] == [client.slots, *both]


@pytest.mark.clause("C43")
def test_a_batch_that_lacks_a_cap_is_passed_over_and_holds_nothing() -> None:
    client = Client(2, [1])
    holder, waiting, other = client.capped(1), client.capped(1), client.uncapped(1)
    assert (len(waiting.running), len(other.running)) == (0, 1)
    holder.end()
    assert len(waiting.running) == 1


@pytest.mark.clause("C48")
def test_a_batch_that_was_passed_over_keeps_its_turn_at_the_cap() -> None:
    client = Client(3, [1])
    holder, first, second = client.capped(2), client.capped(1), client.capped(1)
    holder.end()
    assert (len(first.running), len(second.running), len(holder.running)) == (1, 0, 0)
    first.end()
    assert (len(second.running), len(holder.running)) == (1, 0)


@pytest.mark.clause("C48")
def test_a_batch_that_waits_for_a_cap_has_its_turn_there_though_calls_of_it_without_the_cap_end() -> None:
    client = Client(2, [1])
    long = [client.capped(50), client.capped(50)]
    mixed = client.run((client.caps[0],), *[()] * 500)
    for _ in range(2):
        assert all(grant.call != 0 for grant in mixed.running)
        for _ in range(3):
            if mixed.running:
                mixed.end()
        next(load for load in long if load.running).end()
    assert any(grant.call == 0 for grant in mixed.running)


@pytest.mark.clause("C48")
def test_a_turn_at_a_cap_does_not_put_other_calls_of_the_batch_first() -> None:
    client = Client(2, [1])
    busy, holder = client.uncapped(2), client.capped(1)
    mixed = client.run((client.caps[0],), *[()] * 5)
    other = client.uncapped(5)
    for _ in range(4):
        (holder if holder.running else busy if busy.running else mixed).end()
    assert abs(mixed.started - other.started) <= 1


@pytest.mark.clause("C48")
def test_a_turn_at_a_cap_is_for_a_call_under_that_cap() -> None:
    client = Client(3, [1])
    holder = client.capped(1)
    mixed = client.run(
        GraphNode(("first",)),
        GraphNode(("next",), frozenset({"first"})),
        GraphNode(("capped",), group=(client.caps[0],)),
    )
    client.launch(client.places.resize(1))
    holder.end()
    mixed.end()
    assert [grant.call for grant in mixed.running] == [2]


@pytest.mark.clause("C43")
def test_a_batch_that_is_woken_for_a_cap_still_waits_for_a_slot() -> None:
    client = Client(2, [1])
    holder, other = client.capped(1), client.uncapped(1)
    waiting, last = client.capped(1), client.uncapped(1)
    other.end()
    assert len(last.running) == 1
    holder.end()
    assert len(waiting.running) == 1


@pytest.mark.clause("C43")
def test_a_place_under_a_cap_is_not_lost_with_the_batch_that_was_woken_for_it() -> None:
    client = Client(2, [1])
    holder, busy = client.capped(1), client.uncapped(2)
    woken, next_one = client.capped(1), client.capped(1)
    client.launch(client.places.resize(1))
    holder.end()
    assert woken.running == []
    woken.cancel()
    busy.end()
    assert len(next_one.running) + len(busy.running) == 1
    while busy.running:
        busy.end()
    assert len(next_one.running) == 1


def test_a_cap_that_nobody_knows_any_more_takes_its_pool_with_it() -> None:
    places = Places(1, lambda: 0.0)
    cap = ConcurrencyCap("tool 'x'", 1)
    pool = places.pool_of(cap)
    assert places.pool_of(cap) is pool
    assert len(places._capped) == 1
    del cap
    assert not places._capped


# Loans


@pytest.mark.clause("C49")
def test_a_call_lends_its_slot_to_one_nested_call_at_a_time() -> None:
    client = Client(1)
    outer = client.uncapped(1)
    nested = client.uncapped(3, outer.call)
    for _ in range(3):
        assert borrowed(nested.call) == [outer.call]
        assert len(nested.running) == 1
        nested.end()
    assert (nested.running, client.slots.free) == ([], 0)


@pytest.mark.clause("C49")
def test_a_parked_call_lends_each_of_its_places_once() -> None:
    client = Client(1, [1])
    outer = client.capped(1)
    nested = client.capped(2, outer.call)
    assert borrowed(nested.call) == [outer.call, outer.call]
    assert len(nested.running) == 1
    assert client.uncapped(1, outer.call).running == []


@pytest.mark.clause("C49")
def test_nested_calls_take_free_slots_besides_the_lent_one() -> None:
    client = Client(3)
    outer = client.uncapped(1)
    nested = client.uncapped(5, outer.call)
    assert [borrowed(grant) for grant in nested.running] == [[outer.call], [None], [None]]
    assert client.slots.free == 0


@pytest.mark.clause("C49")
def test_a_lent_place_can_be_lent_further_at_any_depth() -> None:
    client = Client(1, [1])
    load = client.capped(1)
    roots = [place.root for place in load.call.places]
    loads = [load]
    for _ in range(3000):
        loads.append(client.capped(1, loads[-1].call))
        assert len(loads[-1].running) == 1
    assert [place.root for place in loads[-1].call.places] == roots
    while loads:
        loads.pop().end()
    assert (client.slots.free, client.caps[0].free) == (1, 1)


@pytest.mark.clause("C48", "C49")
def test_nested_batches_of_one_call_use_its_slot_in_turn() -> None:
    client = Client(1)
    outer = client.uncapped(1)
    long, single = client.uncapped(100, outer.call), client.uncapped(1, outer.call)
    long.end()
    assert len(single.running) == 1
    single.end()
    assert len(long.running) == 1


@pytest.mark.clause("C49")
def test_the_place_of_a_parked_call_serves_its_own_batches_first() -> None:
    client = Client(2, [1])
    first, second = client.uncapped(1), client.uncapped(1)
    stranger = client.run((client.caps[0],), (), caller=first.call)
    assert len(stranger.running) == 1
    own = client.uncapped(2, second.call)
    assert [borrowed(grant) for grant in own.running] == [[second.call]]
    own.end()
    assert [borrowed(grant) for grant in own.running] == [[second.call]]


class Lent:
    """Two slots: `lender` has lent its slot to `stranger`, a call of another one's batch.

    The stranger's batch also holds the only place of the cap, for which the lender's own batch waits.
    """

    def __init__(self) -> None:
        self.client = CheckedClient(2, [1])
        self.lender, self.other = self.client.uncapped(1), self.client.uncapped(1)
        self.others = self.client.run((self.client.caps[0],), (), caller=self.other.call)
        self.own = self.client.capped(1, self.lender.call)
        self.capped, self.stranger = self.others.running
        assert borrowed(self.stranger) == [self.lender.call]

    def stop_waiting(self) -> None:
        self.own.cancel()
        self.client.check()


@pytest.mark.clause("C49")
def test_a_lender_waits_for_the_loan_of_a_stranger() -> None:
    lent = Lent()
    lent.stop_waiting()
    assert lent.own.caller_waits
    lent.client.end(lent.stranger)
    assert not lent.own.caller_waits


@pytest.mark.clause("C49")
def test_a_lender_does_not_wait_where_a_place_is_free_for_the_stranger() -> None:
    lent = Lent()
    lent.client.resize(3)
    lent.stop_waiting()
    assert not lent.own.caller_waits
    assert borrowed(lent.stranger) == [None]


@pytest.mark.clause("C49")
@pytest.mark.parametrize("how", ["a slot more", "a call that ends"])
def test_a_lender_goes_on_when_a_place_comes_free_for_the_stranger(how: str) -> None:
    lent = Lent()
    if how == "a call that ends":
        lent.client.resize(3)
        third = lent.client.uncapped(1)
    lent.stop_waiting()
    assert lent.own.caller_waits
    waiting = lent.client.uncapped(1)
    if how == "a call that ends":
        lent.client.end(third.call)
    else:
        lent.client.resize(3)
    assert (lent.own.caller_waits, borrowed(lent.stranger)) == (False, [None])
    assert waiting.running == [], "who waits to go on comes first"


@pytest.mark.clause("C49")
def test_a_lender_goes_on_when_an_earlier_call_can_lend_a_place_instead() -> None:
    lent = Lent()
    lent.stop_waiting()
    lent.client.end(lent.capped)
    assert not lent.own.caller_waits
    assert borrowed(lent.stranger) == [lent.other.call]


@pytest.mark.clause("C49")
def test_a_place_is_never_lent_to_itself_when_the_call_that_borrowed_it_is_parked() -> None:
    lent = Lent()
    nested = lent.client.capped(1, lent.stranger)
    assert nested.running == []
    lent.stop_waiting()
    assert lent.own.caller_waits
    lent.client.end(lent.capped)
    lent.client.end(nested.call)
    lent.client.end(lent.stranger)
    assert not lent.own.caller_waits


@pytest.mark.clause("C49")
def test_a_call_that_waits_to_go_on_lends_its_other_places_meanwhile() -> None:
    client = CheckedClient(2, [1, 1])
    lender, other = client.capped(1), client.uncapped(1)
    others = client.run((client.caps[1],), (), caller=other.call)
    own = client.capped(1, lender.call, cap=1)
    stranger = others.running[1]
    own.cancel()
    client.check()
    assert own.caller_waits
    nested = client.capped(1, stranger)
    assert borrowed(nested.call) == [stranger, lender.call]
    client.end(nested.call)
    client.end(stranger)
    assert not own.caller_waits


@pytest.mark.clause("C49")
def test_a_call_that_waits_to_go_on_can_start_another_batch() -> None:
    lent = Lent()
    lent.stop_waiting()
    again = lent.client.uncapped(1, lent.lender.call)
    assert not lent.own.caller_waits, "it is parked again, so that its other task may go on"
    lent.client.end(lent.stranger)
    assert borrowed(again.call) == [lent.lender.call]
    lent.client.end(again.call)
    assert not again.caller_waits


@pytest.mark.clause("C49")
def test_a_cancelled_call_goes_on_without_its_place() -> None:
    lent = Lent()
    lent.stop_waiting()
    lent.client.go_on_regardless(lent.own)
    lent.client.end(lent.lender.call)
    assert lent.client.slots.free == 0
    lent.client.end(lent.stranger)
    assert lent.client.slots.free == 1


@pytest.mark.clause("C49")
def test_the_cancellation_of_one_task_of_a_call_leaves_the_places_of_its_new_batch_to_that() -> None:
    lent = Lent()
    lent.stop_waiting()
    again = lent.client.capped(1, lent.lender.call)
    lent.client.end(lent.stranger)
    lent.client.places.go_on_regardless(lent.own.ticket)
    lent.client.end(lent.capped)
    assert borrowed(again.call)[0] is lent.lender.call


@pytest.mark.clause("C49")
def test_a_call_that_waits_to_go_on_comes_before_the_next_call_of_the_batch_that_had_the_place() -> None:
    lent = Lent()
    lent.client.resize(3)
    third = lent.client.uncapped(2)
    lent.stop_waiting()
    lent.client.end(third.call)
    assert (lent.own.caller_waits, third.running) == (False, [])


@pytest.mark.clause("C49")
def test_no_free_place_is_taken_for_a_stranger_while_the_lender_waits_for_another_one_anyway() -> None:
    client = CheckedClient(2, [1, 1])
    lender, other = client.capped(1), client.uncapped(1)
    others = client.run((client.caps[1],), (client.caps[0],), caller=other.call)
    own = client.capped(1, lender.call, cap=1)
    stranger = others.running[1]
    assert borrowed(stranger) == [lender.call, lender.call]
    client.resize(3)
    own.cancel()
    client.check()
    assert (own.caller_waits, client.slots.free) == (True, 1)
    assert len(client.uncapped(1).running) == 1
    client.end(stranger)
    assert not own.caller_waits


# Calls that end before their batches


@pytest.mark.clause("C49")
def test_the_end_of_a_call_ends_the_batches_that_it_started_with_an_error_that_names_it() -> None:
    client = Client(1)
    outer = client.uncapped(1)
    call = outer.call
    call.tool = "search"
    nested = client.uncapped(2, call)
    outer.end()
    assert client.slots.free == 0, "the slot is still lent"
    assert nested.error is not None
    assert "'search'" in str(nested.error)
    with pytest.raises(CallEndedError, match="'search'"):
        call.require_live()
    nested.end()
    assert client.slots.free == 1


@pytest.mark.clause("C49")
def test_a_batch_that_has_left_does_not_hear_of_the_end_of_its_call() -> None:
    client = Client(2)
    outer = client.uncapped(1)
    nested = client.uncapped(1, outer.call)
    nested.end()
    outer.end()
    assert (nested.error, client.slots.free) == (None, 2)


@pytest.mark.clause("C49")
def test_a_batch_that_is_started_by_an_ended_call_gets_an_error() -> None:
    client = Client(1)
    outer = client.uncapped(1)
    call = outer.call
    outer.end()
    late = client.uncapped(1, call)
    assert late.error is not None
    assert (late.started, client.slots.free) == (0, 1)


@pytest.mark.clause("C49")
def test_a_call_inside_an_ended_call_has_ended_as_well() -> None:
    client = Client(1)
    outer = client.uncapped(1)
    outer.call.tool = "outer"
    inner = client.uncapped(1, outer.call).call
    inner.require_live()
    outer.end()
    with pytest.raises(CallEndedError, match="'outer'"):
        inner.require_live()


@pytest.mark.clause("C49")
def test_a_call_that_ends_while_a_task_of_it_waits_to_go_on_gives_its_place_back() -> None:
    lent = Lent()
    lent.stop_waiting()
    lent.client.end(lent.lender.call)
    assert not lent.own.caller_waits
    for grant in (lent.capped, lent.stranger, lent.other.call):
        lent.client.end(grant)
    lent.client.check_idle()


@pytest.mark.clause("C49")
def test_a_lender_waits_for_whoever_works_at_the_end_of_a_chain_of_loans() -> None:
    lent = Lent()
    nested = lent.client.run((), caller=lent.stranger)
    lent.client.end(lent.stranger)
    lent.stop_waiting()
    assert lent.own.caller_waits
    lent.client.end(nested.call)
    assert not lent.own.caller_waits


@pytest.mark.clause("C49")
def test_a_long_chain_of_ended_calls_needs_no_deep_stack() -> None:
    client = Client(1)
    loads = [client.uncapped(1)]
    for _ in range(3000):
        loads.append(client.uncapped(1, loads[-1].call))
    for load in loads:
        assert client.slots.free == 0
        load.end()
    assert client.slots.free == 1


# Threads of answered calls


@pytest.mark.clause("C51")
def test_an_abandoned_thread_keeps_the_places_until_it_ends() -> None:
    client = Client(2, [1])
    load, waiting = client.capped(1), client.capped(1)
    grant = load.call
    grant.tool = "block"
    load.end(thread_runs=True)
    assert (client.slots.free, list(client.slots.abandoned), waiting.running) == (1, ["block"], [])
    client.thread_ended(grant)
    assert (list(client.slots.abandoned), len(waiting.running)) == ([], 1)
    waiting.end()
    assert (client.slots.free, client.caps[0].free) == (2, 1)


@pytest.mark.clause("C49", "C51")
@pytest.mark.parametrize("thread_first", [True, False])
def test_a_slot_with_an_abandoned_thread_and_a_borrower_comes_back_from_the_last_of_them(
    thread_first: bool,
) -> None:
    client = Client(1)
    outer = client.uncapped(1)
    call = outer.call
    nested = client.uncapped(1, call)
    outer.end(thread_runs=True)
    for thread_ends in (thread_first, not thread_first):
        assert client.slots.free == 0
        if thread_ends:
            client.thread_ended(call)
        else:
            nested.end()
    assert client.slots.free == 1


@pytest.mark.clause("C51")
def test_the_place_of_an_abandoned_thread_is_not_lent() -> None:
    lent = Lent()
    lent.client.end(lent.stranger)
    call = lent.lender.call
    lent.client.end(call, thread_runs=True)
    nested = lent.client.uncapped(1, lent.other.call)
    assert nested.running == []
    lent.client.thread_ended(call)
    assert len(nested.running) == 1


@pytest.mark.clause("C49", "C51")
def test_a_lender_does_not_wait_for_the_thread_that_a_stranger_leaves_in_its_place() -> None:
    lent = Lent()
    lent.stop_waiting()
    assert lent.own.caller_waits
    lent.client.end(lent.stranger, thread_runs=True)
    assert not lent.own.caller_waits


@pytest.mark.clause("C49", "C51")
def test_a_thread_that_ends_after_its_lender_went_on_changes_nothing_for_it() -> None:
    lent = Lent()
    lent.stop_waiting()
    lent.client.end(lent.stranger, thread_runs=True)
    lent.client.thread_ended(lent.stranger)
    lent.client.resize(3)
    for grant in (lent.capped, lent.other.call, lent.lender.call):
        lent.client.end(grant)
    lent.client.check_idle()


@pytest.mark.clause("C51")
def test_waiting_batches_hear_once_when_abandoned_threads_come_to_hold_every_slot() -> None:
    client = Client(2)
    load = client.uncapped(2)
    first, second = load.running
    waiting = client.uncapped(1)
    client.now = 1.0
    load.end(first, thread_runs=True)
    assert (stuck_since(client), waiting.stuck) == (None, 0)
    client.now = 2.0
    load.end(second, thread_runs=True)
    assert (stuck_since(client), waiting.stuck) == (2.0, 1)
    client.now = 3.0
    client.thread_ended(first)
    assert (stuck_since(client), len(waiting.running)) == (None, 1)


@pytest.mark.clause("C51")
def test_a_batch_that_starts_while_threads_hold_every_place_of_a_cap_hears_of_it() -> None:
    client = Client(2, [1])
    client.capped(1).end(thread_runs=True)
    assert client.capped(1).stuck
    assert not client.uncapped(1).stuck


@pytest.mark.clause("C49", "C51")
def test_a_call_that_ends_over_an_abandoned_nested_thread_does_not_start_the_wait_anew() -> None:
    client = Client(1)
    outer = client.uncapped(1)
    parent = outer.call
    nested = client.uncapped(1, parent)
    child = nested.call
    parent.tool, child.tool = "parent", "child"
    client.now = 1.0
    nested.end(thread_runs=True)
    assert stuck_since(client) == 1.0
    client.now = 2.0
    outer.end(thread_runs=True)
    assert stuck_since(client) == 1.0
    assert sorted(client.slots.abandoned) == ["child", "parent"]
    client.thread_ended(child)
    assert (stuck_since(client), client.slots.free) == (1.0, 0)
    client.thread_ended(parent)
    assert (stuck_since(client), client.slots.free) == (None, 1)


# Another number of slots


@pytest.mark.clause("C43")
def test_more_slots_start_more_calls_at_once() -> None:
    client = Client(1)
    load = client.uncapped(3)
    client.launch(client.places.resize(3))
    assert len(load.running) == 3


@pytest.mark.clause("C43")
def test_with_fewer_slots_calls_go_on_and_no_more_start_until_there_is_room() -> None:
    client = Client(3)
    load = client.uncapped(5)
    client.launch(client.places.resize(1))
    assert (len(load.running), client.slots.free) == (3, 0)
    load.end()
    load.end()
    assert (len(load.running), load.started) == (1, 3)
    load.end()
    assert (len(load.running), load.started) == (1, 4)


@pytest.mark.clause("C43", "C49")
def test_nested_calls_of_many_parked_calls_go_on_when_the_slots_shrink_to_one() -> None:
    client = CheckedClient(4, [1])
    outer = client.uncapped(4)
    calls = list(outer.running)
    nested = [client.capped(1, call) for call in calls]
    client.resize(1)
    for load in nested:
        client.end(load.call)
    for call in calls:
        client.end(call)
    client.check_idle()


@pytest.mark.clause("C51")
def test_fewer_slots_can_be_held_by_the_threads_that_hold_some_of_them() -> None:
    client = Client(2)
    load = client.uncapped(2)
    load.end(thread_runs=True)
    assert stuck_since(client) is None
    client.now = 5.0
    client.launch(client.places.resize(1))
    assert stuck_since(client) == 5.0
    client.launch(client.places.resize(2))
    assert stuck_since(client) is None


def test_a_batch_of_another_client_is_nested_in_the_innermost_call_of_this_one() -> None:
    here, elsewhere = Client(1), Client(1)
    outer = here.uncapped(1)
    between = elsewhere.uncapped(1, outer.call)
    inner = here.uncapped(1, between.call)
    assert between.ticket.caller is None
    assert inner.ticket.caller is outer.call
    assert borrowed(inner.call) == [outer.call]


# Cost


def lines_run(function: Callable[[], None]) -> int:
    """Count the lines of the places and of the planner that a function executes."""
    lines = 0

    def trace(frame: FrameType, event: str, _argument: object) -> TraceFunction | None:
        nonlocal lines
        if "_execution" not in frame.f_code.co_filename:
            return None
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return lines


def one_capped_batch(count: int) -> None:
    client = Client(4, [2])
    load = client.capped(count)
    while load.running:
        load.end()
    assert load.started == count


def capped_batches_of_one(count: int) -> None:
    client = Client(4, [2])
    loads = [client.capped(1) for _ in range(count)]
    for load in loads:
        load.end()


def nested_batches_that_wait_for_a_cap(count: int) -> None:
    client = Client(count, [1])
    outer = client.uncapped(count)
    nested = [client.capped(2, call) for call in outer.running]
    for _ in range(2):
        for load in nested:
            load.end()
    assert all(load.left for load in nested)


def nested_batches_one_after_another(count: int) -> None:
    client = Client(2, [1])
    outer = client.capped(count)
    while outer.running:
        nested = client.capped(2, outer.call)
        nested.end()
        nested.end()
        outer.end()


def nested_batches_in_each_other(count: int) -> None:
    client = Client(1, [1])
    loads = [client.capped(1)]
    for _ in range(count):
        loads.append(client.capped(1, loads[-1].call))
    for load in reversed(loads):
        load.end()


def cancelled_batches(count: int) -> None:
    client = Client(1, [1])
    running = client.capped(1)
    for load in [client.capped(1) for _ in range(count)]:
        load.cancel()
    running.end()


@pytest.mark.parametrize(
    ("work", "count"),
    [
        (one_capped_batch, 10_000),
        (capped_batches_of_one, 3000),
        (nested_batches_that_wait_for_a_cap, 2000),
        (nested_batches_one_after_another, 2000),
        (nested_batches_in_each_other, 2000),
        (cancelled_batches, 2000),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_call_costs_no_more_among_many(work: Callable[[int], None], count: int) -> None:
    few, many = (lines_run(functools.partial(work, number)) / number for number in (count // 10, count))
    assert many < 1.2 * few
