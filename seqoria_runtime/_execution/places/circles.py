"""Owns the way out where nested calls wait for each other's caps in a circle.

Pure rules over the slots and caps of one client. A call of `a` that calls `b`, beside one of `b` that
calls `a`, would wait for ever where each tool runs one call at a time. Such a call stands still, so
another one may run in its place: it lends its permit, as it would to a nested call of its own.
"""

from collections.abc import Collection, Iterator

from .caps import Cap, Permit
from .gate import Demand
from .slots import CallLease, Lane, Slots


def resolve(slots: Slots) -> None:
    """Let one call go on where calls that have batches of their own can only wait for each other."""
    demands = [lane.waiter.demand() for caller in slots.callers for lane in _lanes(caller)]
    if not any(demand.gate and demand.gate.waits_for for demand in demands):
        return
    stuck = _stuck(slots)
    # A permit is of no use where the slot is lent out: to a call that is stuck as well, or to a thread.
    startable = [caller for caller in stuck if slots.free or not caller.lent]
    waiting = (lane.waiter.demand().gate for caller in startable for lane in _lanes(caller))
    wanted = [(gate, cap) for gate in waiting if gate is not None for cap in gate.waits_for]
    for gate, cap in wanted:
        permit = _taken_over(cap, stuck)
        if permit is not None and cap.offer(gate, permit):
            return


def _stuck(slots: Slots) -> list[CallLease]:
    """The largest set of calls each of which waits for nothing but other calls of it."""
    stuck = [caller for caller in slots.callers if caller.lanes]
    while True:
        left = [caller for caller in stuck if not _may_go_on(caller, stuck, slots)]
        if len(left) == len(stuck):
            return stuck
        stuck = left


def _may_go_on(caller: CallLease, stuck: Collection[CallLease], slots: Slots) -> bool:
    demands = [lane.waiter.demand() for lane in _lanes(caller)]
    running = sum(demand.running for demand in demands)
    if running > sum(nearest(other.outer, slots) is caller for other in stuck):
        return True
    if any(demand.starting for demand in demands):
        return True
    waiting = [demand for demand in demands if demand.ready or (demand.gate and demand.gate.waits_for)]
    if not waiting:
        return not running
    return any(_may_be_served(demand, stuck, slots) for demand in waiting)


def _may_be_served(demand: Demand, stuck: Collection[CallLease], slots: Slots) -> bool:
    if demand.ready and _slot_may_come_free(stuck, slots):
        return True
    caps = () if demand.gate is None else demand.gate.waits_for
    return any(_may_come_free(permit, stuck, slots) for cap in caps for permit in cap.out)


def _may_come_free(permit: Permit, stuck: Collection[CallLease], slots: Slots) -> bool:
    """Whether all that hold this permit of a cap, or one that is lent from it, may go on."""
    waiting = [waiter for reserved, waiter in permit.cap.reserved.items() if reserved.root is permit]
    if any(waiter.starting() for waiter in waiting):
        return True
    held = {caller.slot.permit.root for caller in stuck if caller.slot.permit is not None}
    if permit in held:
        return False
    callers = (waiter.caller for waiter in waiting)
    return all(
        (caller is not None and caller not in stuck) or _slot_may_come_free(stuck, slots)
        for caller in callers
    )


def _slot_may_come_free(stuck: Collection[CallLease], slots: Slots) -> bool:
    own = {caller.slot for caller in stuck if caller.slot.lender is None}
    return len(own | slots.blocked) < slots.total


def _taken_over(cap: Cap, stuck: Collection[CallLease]) -> Permit | None:
    """A permit that nobody uses now: one that only waits for a slot, else that of a call that is stuck."""
    for holder in tuple(cap.reserved.values()):
        permit = holder.recalled(cap)
        if permit is not None:
            return permit
    for caller in stuck:
        permit = caller.slot.permit
        lent = permit.lend() if permit is not None and permit.cap is cap else None
        if lent is not None:
            return lent
    return None


def _lanes(caller: CallLease) -> Iterator[Lane]:
    yield from caller.lanes or ()


def permits_of(lease: CallLease | None, slots: Slots) -> Iterator[Permit]:
    """The permits of a call and of those that it was started by, on this client, the nearest first."""
    while lease is not None:
        if lease.slots is slots and lease.slot.permit is not None:
            yield lease.slot.permit
        lease = lease.outer


def nearest(lease: CallLease | None, slots: Slots) -> CallLease | None:
    """The first call that holds one of these slots, of this one and those that it was started by."""
    while lease is not None and lease.slots is not slots:
        lease = lease.outer
    return lease
