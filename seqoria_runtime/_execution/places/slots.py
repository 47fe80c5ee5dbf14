"""Owns the capacity that all batches of one client share: who holds a slot, who gets the next.

Synchronous throughout, so that no lock is needed; knows nothing of tasks, tools or time beyond
the clock that it is given.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Protocol

from seqoria_runtime.models.errors import CallEndedError

from .caps import Caps, Permit
from .gate import Demand


class Waiter(Protocol):
    """The batch behind a lane, as its lane tells it what happened. All calls are synchronous."""

    def demand(self) -> Demand:
        """What the batch has and wants now."""

    def slot_offered(self, slot: "Slot") -> bool:
        """The slot that the lane waited for is the batch's, if it says that it still has a use for it."""

    def slots_stuck(self) -> None:
        """Abandoned threads hold every slot that the lane could wait for; it goes on waiting."""

    def lease_ended(self, error: CallEndedError) -> None:
        """The call that this batch was started by has ended."""


class Slot:
    """The right to run one call. `lender` is the call whose slot it is, or `None` for the client's own."""

    __slots__ = ("holders", "lender", "permit")

    def __init__(self, lender: "CallLease | None" = None) -> None:
        self.lender = lender
        self.holders = 1
        self.permit: Permit | None = None  # what the call in this slot holds under its tool's cap

    def end_permit(self) -> None:
        """Give back what the call that ran in this slot held under its tool's cap."""
        permit, self.permit = self.permit, None
        if permit is not None:
            permit.cap.give_back(permit)

    @property
    def root(self) -> "Slot":
        """The client's own slot that this one is lent from, over any number of loans."""
        slot = self
        while slot.lender is not None:
            slot = slot.lender.slot
        return slot


class CallLease:
    """A running call as the batches that it starts see it: they may borrow its slot, one call at a time.

    `outer` is the lease of the call that started this one, of whatever client. `call` is its runner's own.
    """

    __slots__ = ("call", "ended", "lanes", "lent", "outer", "slot", "slots", "tool", "waiting")

    def __init__(self, slots: "Slots", slot: Slot, tool: str, outer: "CallLease | None") -> None:
        self.slots = slots
        self.slot = slot
        self.tool = tool
        self.outer = outer
        self.call: object = None
        self.lent = self.ended = False
        self.waiting: deque[Lane] | None = None
        self.lanes: list[Lane] | None = None

    def require_live(self) -> None:
        """Raise `CallEndedError` if this call, or one that it was started by, has ended."""
        lease: CallLease | None = self
        while lease is not None:
            if lease.ended:
                raise CallEndedError(
                    f"this code was started by a call of the tool {lease.tool!r}, which has ended: "
                    "it can use the client no longer"
                )
            lease = lease.outer


class Lane:
    """One batch's place at the slots; all its calls wait as one, so that batches are served in turn."""

    __slots__ = ("_lease", "_queued", "_slots", "waiter")

    def __init__(self, slots: "Slots", waiter: Waiter, lease: CallLease | None) -> None:
        self._slots = slots
        self.waiter = waiter
        self._lease = lease
        self._queued = False
        if lease is not None:
            if lease.lanes is None:
                lease.lanes = []
            lease.lanes.append(self)
            slots.add_caller(lease)

    def acquire_nowait(self) -> Slot | None:
        """Take the slot lent by the calling tool, or a free one; `None` where there is neither."""
        lease = self._lease
        if lease is not None and not lease.lent and not lease.ended:
            lease.lent = True
            return Slot(lease)
        return self._slots.take_free()

    def wait(self) -> None:
        """Ask for one slot; the waiter is told when it has it. Asking twice is asking once."""
        if self._queued:
            return
        self._queued = True
        self._slots.enqueue(self)
        if self._lease is not None:
            if self._lease.waiting is None:
                self._lease.waiting = deque()
            self._lease.waiting.append(self)

    def keep(self, slot: Slot) -> bool:
        """Whether the batch may run its next call in this slot, as its turn; else it has to pass it on."""
        if slot.lender is None:
            return self._slots.alone(self)
        waiting = slot.lender.waiting
        return not waiting or (len(waiting) == 1 and self._queued)

    def pass_on(self, slot: Slot) -> None:
        """Give a slot to the batch whose turn it is, and ask for another behind all that wait now.

        The call that has just ended in it was this batch's turn, so nobody waits for two of its calls.
        """
        self.stop_waiting()
        self.wait()
        self._slots.release(slot)

    def release(self, slot: Slot) -> None:
        """Give a slot back; it goes to the batch whose turn it is."""
        self._slots.release(slot)

    def offer(self, slot: Slot) -> bool:
        """Hand over a slot that was asked for, if it is still wanted (called by the slots)."""
        self.stop_waiting()
        return self.waiter.slot_offered(slot)

    def tell_stuck(self) -> None:
        self.waiter.slots_stuck()

    def end_lease(self, error: CallEndedError) -> None:
        self.waiter.lease_ended(error)

    def stop_waiting(self) -> None:
        """Take back the asking for a slot, if there is one."""
        if self._queued:
            self._queued = False
            self._slots.dequeue(self)
            if self._lease is not None and self._lease.waiting is not None:
                self._lease.waiting.remove(self)

    def close(self) -> None:
        """Stop waiting for good. Slots that the batch still holds have to be released on their own."""
        self.stop_waiting()
        lease = self._lease
        if lease is not None and lease.lanes is not None and self in lease.lanes:
            lease.lanes.remove(self)
            if not lease.lanes:
                self._slots.callers.pop(lease, None)
        del self.waiter  # which holds this lane in turn, so that both would have to be found as garbage


class Slots:
    """`total` slots, shared by batches in turn, lent to nested calls, and kept by abandoned threads.

    `now` is the clock in seconds that `stuck_since` is told in.
    """

    def __init__(self, total: int, now: Callable[[], float]) -> None:
        self.total = total
        self._now = now
        self._free = [Slot() for _ in range(total)]
        self._queue: dict[Lane, None] = {}
        self._abandoned: dict[Slot, str] = {}
        self._blocked: Counter[Slot] = Counter()
        self.caps = Caps(now)
        self.callers: dict[CallLease, None] = {}
        """The running calls that have batches of their own on this client."""
        self.stuck_since: float | None = None
        """When abandoned threads came to hold every slot with none back since; `None` where some do not."""

    @property
    def free(self) -> int:
        """How many slots nobody holds."""
        return len(self._free)

    @property
    def blocked(self) -> set[Slot]:
        """The client's own slots that abandoned threads hold."""
        return set(self._blocked)

    @property
    def abandoned(self) -> Iterable[str]:
        """The tools whose abandoned threads hold slots, one entry a thread."""
        return tuple(self._abandoned.values())

    def add_caller(self, lease: CallLease) -> None:
        """Take note that a running call has a batch of its own."""
        self.callers[lease] = None

    def take_free(self) -> Slot | None:
        return self._free.pop() if self._free else None

    def enqueue(self, lane: Lane) -> None:
        self._queue[lane] = None
        if self.stuck_since is not None:
            lane.tell_stuck()

    def dequeue(self, lane: Lane) -> None:
        self._queue.pop(lane, None)

    def alone(self, lane: Lane) -> bool:
        """Whether no other lane waits for a slot."""
        return len(self._queue) == (lane in self._queue)

    def release(self, slot: Slot) -> None:
        """Give a slot back, to the batch whose turn it is or to the call that lent it."""
        lender = slot.lender
        if lender is None:
            while self._queue:
                if next(iter(self._queue)).offer(slot):
                    return
            self._free.append(slot)
            return
        while lender.waiting and not lender.ended:
            if lender.waiting[0].offer(slot):
                return
        lender.lent = False
        if lender.ended:
            self._let_go(lender.slot)

    def end(self, lease: CallLease, *, abandoned: bool = False) -> bool:
        """End a call's lease; give whether its slot is free to be used again at once.

        Batches that the call started and that are still live are told. A slot that is lent out, or
        left with an abandoned thread, comes back by itself once the last of these has let go of it.
        """
        lease.ended = True
        if lease.lanes:
            error = CallEndedError(
                f"the call of the tool {lease.tool!r} that started this has ended: what a tool starts on the "
                "client has to end before the tool does"
            )
            for lane in tuple(lease.lanes):
                lane.end_lease(error)
        lease.slot.holders = lease.lent + abandoned
        if abandoned:
            self._abandon(lease.slot, lease.tool)
        return not lease.slot.holders

    def reclaim(self, slot: Slot) -> None:
        """Take back the slot of an abandoned thread that has ended."""
        del self._abandoned[slot]
        if slot.permit is not None:
            slot.permit.cap.reclaim(slot.permit)
        root = slot.root
        self._blocked[root] -= 1
        if not self._blocked[root]:
            del self._blocked[root]
            self.stuck_since = None
        self.judge()
        self._let_go(slot)

    def _let_go(self, slot: Slot) -> None:
        slot.holders -= 1
        if not slot.holders:
            slot.end_permit()
            self.release(slot)

    def _abandon(self, slot: Slot, tool: str) -> None:
        self._abandoned[slot] = tool
        self._blocked[slot.root] += 1
        if slot.permit is not None:
            slot.permit.cap.abandon(slot.permit, tool)
        self.judge()

    def judge(self) -> None:
        """See whether abandoned threads hold every slot now, and have the batches that may wait look anew.

        For every change that no call's end goes with: a slot that was to come free will not, or has done so.
        """
        if len(self._blocked) < self.total:
            self.stuck_since = None
        elif self.stuck_since is None:
            self.stuck_since = self._now()
            for lane in tuple(self._queue):
                lane.tell_stuck()
        for lane in [lane for caller in self.callers for lane in caller.lanes or ()]:
            lane.tell_stuck()
