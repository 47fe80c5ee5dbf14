"""Pools of places, the calls that hold places, and the lines of batches that wait for them.

The slots of a client are one pool, the limit of each tool or server is another. Knows no rule of who is next.
"""

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Protocol, TypeAlias

from seqoria_runtime.models.errors import CallEndedError

_FEW = 64


class Order(Protocol):
    """The calls of a batch that wait for places, in the order in which they should start.

    Calls that need places of the same pools besides their slots form a group.
    """

    @property
    def ready(self) -> int:
        """How many calls wait for nothing but places."""

    @property
    def only_group(self) -> "Group | None":
        """The group of all calls, if they form a single one."""

    def ready_groups(self) -> "list[Group]":
        """The groups that have a ready call."""

    def first_group(self, full: "Sequence[Group]") -> "Group | None":
        """The group of the ready call that should start first, leaving out the groups in `full`."""

    def take_from(self, group: "Group") -> int:
        """Take the ready call of this group that should start first; return its position."""


class WaitingBatch(Protocol):
    """A batch as the places see it: what is called back about it."""

    def launch(self, grant: "Grant") -> None:
        """Start this call of the batch, which has its places."""

    def places_stuck(self) -> None:
        """Threads of answered calls hold every place of some pool."""

    def caller_ended(self, error: CallEndedError) -> None:
        """The call that started this batch has ended."""


class Place:
    """The right of one call to run under the limit of a pool.

    It is the pool's own, or borrowed from the place of a parked call, which then has lent it.
    """

    __slots__ = ("borrowed_from", "grant", "lent_to", "pool")

    grant: "Grant"

    def __init__(self, pool: "Pool", borrowed_from: "Place | None" = None) -> None:
        self.pool = pool
        self.borrowed_from = borrowed_from
        self.lent_to: Place | None = None

    @property
    def root(self) -> "Place":
        """The pool's own place at the beginning of a chain of loans."""
        place = self
        while place.borrowed_from is not None:
            place = place.borrowed_from
        return place

    @property
    def live_loan(self) -> "Place | None":
        """The loan of this place, past those that are left to threads of calls that are over."""
        loan = self.lent_to
        while loan is not None and loan.grant.over:
            loan = loan.lent_to
        return loan


class Pool:
    """At most `limit` places. Loans do not count, since a lender does not work.

    `now` is the clock, in seconds, that `stuck_since` is measured on.
    """

    __slots__ = (
        "_abandoned",
        "_now",
        "in_use",
        "lendable",
        "limit",
        "line",
        "resuming",
        "stuck_since",
        "woken_nested",
        "woken_roots",
    )

    def __init__(self, limit: int, now: Callable[[], float]) -> None:
        self._now = now
        self._abandoned: dict[Place, str] = {}
        self.limit = limit
        self.in_use = 0
        """How many places are out, loans apart. May exceed a limit that was lowered, for a while."""
        self.lendable: dict[Place, None] = {}
        """Places of parked calls that are not lent out."""
        self.line = Line(self)
        """Batches that wait for a place of this pool."""
        self.woken_roots = self.woken_nested = 0
        """How many of these wait for a slot now, since there is a place for them here."""
        self.resuming: dict[Grant, None] = {}
        """Calls that could go on, had they their place back."""
        self.stuck_since: float | None = None
        """Since when abandoned threads hold every place, with none back since; `None` if they do not."""

    @property
    def free(self) -> int:
        """How many places nobody holds."""
        return max(0, self.limit - self.in_use)

    @property
    def abandoned(self) -> Iterable[str]:
        """The tools whose abandoned threads hold places, one entry a thread."""
        return tuple(self._abandoned.values())

    def source_for(self, caller: "Grant | None") -> "Place | Pool | None":
        """Where a call started by `caller` gets a place: a place to borrow, the pool itself, or nowhere.

        Its caller's own place comes first, so that free ones are left to others; any other lendable one last.
        """
        if caller is not None and self.lendable:
            for place in caller.places:
                if place in self.lendable:
                    return place
        if self.in_use < self.limit:
            return self
        if caller is None:
            return None
        return next(iter(self.lendable), None)

    def source_instead_of(self, loan: Place) -> "Place | Pool | None":
        """What can stand in for the place that was lent: the pool itself, another place, or nothing.

        The other place has to be that of a call that was admitted before the borrower, as the lender was:
        calls wait for later ones only, so never in a circle.
        """
        if self.in_use < self.limit:
            return self
        other = next(iter(self.lendable), None)
        return other if other is not None and other.grant.sequence < loan.grant.sequence else None

    def take(self, source: "Place | Pool") -> Place:
        """Borrow this lendable place, or take a free one of the pool itself."""
        if not isinstance(source, Place):
            self.in_use += 1
            return Place(self)
        place = source.lent_to = Place(self, source)
        del self.lendable[source]
        return place

    def give_back(self, place: Place) -> bool:
        """Take the place of a call that is over out of use; return whether the pool has one more free.

        It goes back to its lender. If it is lent itself, that is the lender's loan from now on.
        """
        lender, loan = place.borrowed_from, place.lent_to
        del place.grant
        place.borrowed_from = place.lent_to = None
        if loan is not None:
            loan.borrowed_from = lender
        if lender is not None:
            lender.lent_to = loan
        elif loan is None:
            self.in_use -= 1
            return True
        return False

    def abandon(self, place: Place, tool: str) -> bool:
        """Leave a place with the thread of a call that is over; return whether that made the pool stuck."""
        self._abandoned[place] = tool
        return self.check_stuck()

    def thread_ended(self, place: Place) -> bool:
        """The thread that held this place has ended; return whether the pool is stuck anew."""
        del self._abandoned[place]
        if place.root not in self._blocked():
            self.stuck_since = None
        return self.check_stuck()

    def check_stuck(self) -> bool:
        """Find out whether abandoned threads hold every place; return whether that has just come about."""
        if len(self._abandoned) < self.limit or len(self._blocked()) < self.limit:
            self.stuck_since = None
            return False
        if self.stuck_since is not None:
            return False
        self.stuck_since = self._now()
        return True

    def _blocked(self) -> set[Place]:
        return {place.root for place in self._abandoned}


Group: TypeAlias = tuple[Pool, ...]
"""What a call needs besides a slot; `()` for a call without a cap."""


class Line:
    """Batches that wait for a place of a pool, in the order of their numbers.

    Nested ones are kept apart, since only these may borrow a place. A batch that has lost its turn, or has
    another number now, is not taken out but passed over when its old number comes up.
    """

    __slots__ = ("_nested", "_pool", "_roots", "_sweep_at")

    def __init__(self, pool: "Pool") -> None:
        self._pool = pool
        self._roots: list[tuple[int, Ticket]] = []
        self._nested: list[tuple[int, Ticket]] = []
        self._sweep_at = _FEW

    def push(self, ticket: "Ticket") -> None:
        """Put a batch where its number belongs."""
        if len(self._roots) + len(self._nested) >= self._sweep_at:
            self._sweep()
        heappush(self._roots if ticket.caller is None else self._nested, (ticket.turns[self._pool], ticket))

    def pop(self) -> "Ticket | None":
        """Take out the batch with the lowest number; `None` if nobody waits."""
        root, nested = self._head(self._roots), self._head(self._nested)
        if root is None and nested is None:
            return None
        first = nested is None or (root is not None and self._roots[0] < self._nested[0])
        return heappop(self._roots if first else self._nested)[1]

    def pop_root(self) -> "Ticket | None":
        """Take out the first batch that the application itself started."""
        return None if self._head(self._roots) is None else heappop(self._roots)[1]

    def pop_nested(self) -> "Ticket | None":
        """Take out the first batch that a call of the client started."""
        return None if self._head(self._nested) is None else heappop(self._nested)[1]

    def first_nested(self) -> "Ticket | None":
        """The first batch that a call of the client started; it stays in the line."""
        return self._head(self._nested)

    def has_others(self, ticket: "Ticket") -> bool:
        """Whether anybody but this batch may be waiting here. Can err on the side of yes."""
        roots, nested = self._roots, self._nested
        if len(roots) + len(nested) > 1:
            self.forget_the_gone()
            if len(roots) + len(nested) > 1:
                return True
        return bool((roots and roots[0][1] is not ticket) or (nested and nested[0][1] is not ticket))

    def forget_the_gone(self) -> None:
        """Take out those at the head of the line that have left it."""
        self._head(self._roots)
        self._head(self._nested)

    def _sweep(self) -> None:
        """Take out all that have left: behind a head that waits for long, they would pile up."""
        for heap in (self._roots, self._nested):
            heap[:] = [entry for entry in heap if self._waits(*entry)]
            heapify(heap)
        self._sweep_at = _FEW + 2 * (len(self._roots) + len(self._nested))

    def _waits(self, number: int, ticket: "Ticket") -> bool:
        return ticket.turns.get(self._pool) == number

    def _head(self, heap: "list[tuple[int, Ticket]]") -> "Ticket | None":
        while heap:
            number, ticket = heap[0]
            if ticket.turns.get(self._pool) == number:
                return ticket
            heappop(heap)
        return None


class Grant:
    """A call that has been admitted, and the places that it holds until it and its thread have ended.

    While batches of its own run it is parked: each of its places may be lent, to one nested call at a time.
    """

    __slots__ = (
        "batches", "call", "depth", "line", "over", "places", "resume", "sequence", "thread_runs", "ticket",
        "tool",
    )  # fmt: skip

    def __init__(self, ticket: "Ticket", call: int, places: tuple[Place, ...], sequence: int) -> None:
        self.ticket = ticket
        self.call = call
        self.places = places
        self.sequence = sequence
        self.tool = ""
        self.depth = 0
        """How many calls it is nested in that wait in tasks around its own."""
        self.batches: dict[Ticket, None] | None = None
        self.line: Line | None = None
        """Its own batches that wait for a slot."""
        self.resume: Callable[[], None] | None = None
        """Called when the call may go on; set while it waits for a place that it has lent."""
        self.over = False
        self.thread_runs = False
        for place in places:
            place.grant = self

    def require_live(self) -> None:
        """Raise `CallEndedError` if this call, or one that it was started by, has ended."""
        grant: Grant | None = self
        while grant is not None:
            if grant.over:
                raise CallEndedError(
                    f"this code was started by a call of the tool {grant.tool!r}, which has ended: "
                    "it can use the client no longer"
                )
            grant = grant.ticket.started_by

    def nearest(self, slots: Pool) -> "Grant | None":
        """The innermost call in one of these slots, among this one and those that it was started by."""
        grant: Grant | None = self
        while grant is not None and grant.places[0].pool is not slots:
            grant = grant.ticket.started_by
        return grant


class Ticket:
    """A batch in the queue: its calls wait as one, so that batches are served in turn.

    `started_by` is the call that started the batch, if any, of whatever client; `caller` is the innermost
    one of this client, which is parked while the batch runs.
    """

    __slots__ = (
        "batch", "caller", "closed", "eager", "only_group", "order", "started_by", "turns", "woken_for",
    )  # fmt: skip

    def __init__(self, slots: Pool, batch: WaitingBatch, order: Order, started_by: Grant | None) -> None:
        self.batch = batch
        self.order = order
        self.only_group = order.only_group
        self.started_by = started_by
        self.caller = None if started_by is None else started_by.nearest(slots)
        self.turns: dict[Pool, int] = {}
        """The pools that it waits for, and its number in the line of each."""
        self.woken_for: list[Pool] = []
        """The caps under which a place came free for it, while it waits for its slot."""
        self.eager = False
        """Whether it takes all places that it can get. At first it takes one, and runs its calls there."""
        self.closed = False
