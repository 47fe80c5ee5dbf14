"""Owns the caps of one client: how many calls run at once under each of them, and who is next.

Synchronous, like the slots, which limit all calls together. A call takes its permit and then its
slot, and never waits for the one while it holds the other.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import Protocol
from weakref import WeakKeyDictionary

from seqoria_runtime._base.tools import ConcurrencyCap


class CapWaiter(Protocol):
    """A batch's place at the caps, as a cap sees it."""

    @property
    def caller(self) -> object:
        """The call that the batch was started by, or `None`; not the cap's business."""

    def lenders(self, cap: "Cap") -> "Iterable[Permit]":
        """The permits for this cap of the calls that the batch was started by, the nearest first."""

    def granted(self, permit: "Permit") -> bool:
        """The permit that the batch waited for is its own, if it says that it has a use for it."""

    def starting(self) -> int:
        """How many calls of the batch have a slot and are about to run."""

    def recalled(self, cap: "Cap") -> "Permit | None":
        """Give a permit back that no call is about to use, and go on waiting, first in the queue."""

    def cap_stuck(self) -> None:
        """Abandoned threads hold every permit of a cap that the batch waits for."""


class Permit:
    """The right to run one call under a cap. `lender` is that of the call it is lent from, if any."""

    __slots__ = ("cap", "holders", "lender", "lent")

    def __init__(self, cap: "Cap", lender: "Permit | None" = None) -> None:
        self.cap = cap
        self.lender = lender
        self.lent = False
        self.holders = 1

    @property
    def root(self) -> "Permit":
        """The cap's own permit that this one is lent from, over any number of loans."""
        permit = self
        while permit.lender is not None:
            permit = permit.lender
        return permit

    def lend(self) -> "Permit | None":
        """A permit in the place of this one, for a nested call; one at a time."""
        if self.lent:
            return None
        self.lent = True
        self.holders += 1
        return Permit(self.cap, self)


class Cap:
    """At most `limit` permits, for batches in turn, lent to nested calls, and kept by abandoned threads."""

    def __init__(self, limit: int, now: Callable[[], float]) -> None:
        self.limit = limit
        self.free = limit
        self.out: set[Permit] = set()
        """The cap's own permits that somebody holds."""
        self.reserved: dict[Permit, CapWaiter] = {}
        """The permits, lent ones too, of calls without a slot yet, with the batches that they are for."""
        self._now = now
        self._queue: OrderedDict[CapWaiter, None] = OrderedDict()
        self._abandoned: dict[Permit, str] = {}
        self._blocked: Counter[Permit] = Counter()
        self.stuck_since: float | None = None
        """When abandoned threads came to hold every permit with none back since; `None` where some do not."""

    @property
    def abandoned(self) -> Iterable[str]:
        """The tools whose abandoned threads hold permits, one entry a thread."""
        return tuple(self._abandoned.values())

    def acquire_nowait(self, waiter: CapWaiter) -> Permit | None:
        """Take a permit lent by a calling call, or a free one that nobody waits for."""
        for lender in waiter.lenders(self):
            lent = lender.lend()
            if lent is not None:
                return lent
        if not self.free or self._queue:
            return None
        return self._new()

    def wait(self, waiter: CapWaiter, *, first: bool = False) -> None:
        """Ask for one permit; the waiter is told when it has it. Asking twice is asking once."""
        self._queue.setdefault(waiter)
        if first:
            self._queue.move_to_end(waiter, last=False)
        if self.stuck_since is not None:
            waiter.cap_stuck()

    def stop_waiting(self, waiter: CapWaiter) -> None:
        self._queue.pop(waiter, None)

    def give_back(self, permit: Permit) -> None:
        """Let go of a permit; once nobody holds it, it is its lender's again, or the next batch's."""
        permit.holders -= 1
        if permit.holders:
            return
        lender = permit.lender
        if lender is not None:
            lender.lent = False
            if lender.holders > 1:
                self._lend_again(lender)
            self.give_back(lender)
            return
        self.out.discard(permit)
        self.free += 1
        while self.free and self._queue:
            waiter, _ = self._queue.popitem(last=False)
            self.offer(waiter, self._new())

    def offer(self, waiter: CapWaiter, permit: Permit) -> bool:
        """Hand over a permit that was asked for, if it is still wanted."""
        self._queue.pop(waiter, None)
        if waiter.granted(permit):
            return True
        self.give_back(permit)
        return False

    def abandon(self, permit: Permit, tool: str) -> None:
        """Take note that a permit stays with a thread whose call was answered."""
        self._abandoned[permit] = tool
        self._blocked[permit.root] += 1
        if len(self._blocked) == self.limit and self.stuck_since is None:
            self.stuck_since = self._now()
            for waiter in tuple(self._queue):
                waiter.cap_stuck()

    def reclaim(self, permit: Permit) -> None:
        """Take note that this thread has ended; the permit has still to be given back."""
        del self._abandoned[permit]
        root = permit.root
        self._blocked[root] -= 1
        if not self._blocked[root]:
            del self._blocked[root]
            self.stuck_since = None

    def _new(self) -> Permit:
        self.free -= 1
        permit = Permit(self)
        self.out.add(permit)
        return permit

    def _lend_again(self, lender: Permit) -> None:
        for waiter in tuple(self._queue):
            if lender in waiter.lenders(self):
                lent = lender.lend()
                if lent is None or self.offer(waiter, lent):
                    return


class Caps:
    """The state of each cap in one client. `now` is the clock, in seconds, of their `stuck_since`."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._states: WeakKeyDictionary[ConcurrencyCap, Cap] = WeakKeyDictionary()

    def of(self, cap: ConcurrencyCap) -> Cap:
        state = self._states.get(cap)
        if state is None:
            state = self._states[cap] = Cap(cap.limit, self._now)
        return state
