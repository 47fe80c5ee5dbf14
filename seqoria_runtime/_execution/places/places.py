"""Who may run next: one function, `Places.assign`, decides for all calls of a client, after every change.

A call needs a slot and, if its tool or server has a limit, a place under that too. It is admitted when it
has all of them, or gets none. Synchronous, so that no lock is needed; knows nothing of tasks.
"""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Protocol, TypeAlias
from weakref import WeakKeyDictionary

from seqoria_runtime._base.tools import ConcurrencyCap
from seqoria_runtime.models.errors import CallEndedError

from .line import Line
from .pool import Place, Pool

Group: TypeAlias = tuple[Pool, ...]
"""What a call needs besides a slot; `()` for a call without a cap."""


class Order(Protocol):
    """The calls of a batch that wait for places, in the order in which they should start.

    Calls that need places of the same pools besides their slots form a group.
    """

    @property
    def ready(self) -> int:
        """How many calls wait for nothing but places."""

    @property
    def only_group(self) -> Group | None:
        """The group of all calls, if they form a single one."""

    def first_group(self, full: Sequence[Group]) -> Group | None:
        """The group of the ready call that should start first, leaving out the groups in `full`."""

    def take_from(self, group: Group) -> int:
        """Take the ready call of this group that should start first; return its position."""


class Batch(Protocol):
    """A batch as the places see it: what is called back about it."""

    def launch(self, grant: "Grant") -> None:
        """Start this call of the batch, which has its places."""

    def places_stuck(self) -> None:
        """Threads of answered calls hold every place of some pool."""

    def caller_ended(self, error: CallEndedError) -> None:
        """The call that started this batch has ended."""


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
        """How many calls of tools it is nested in, each of which waits for the next in its own task."""
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
        "batch", "caller", "closed", "eager", "for_slot", "lacking", "number", "only_group", "order",
        "started_by",
        "woken_for",
    )  # fmt: skip

    def __init__(self, slots: Pool, batch: Batch, order: Order, started_by: Grant | None) -> None:
        self.batch = batch
        self.order = order
        self.only_group = order.only_group
        self.started_by = started_by
        self.caller = None if started_by is None else started_by.nearest(slots)
        self.number: int | None = None
        """Its number in the lines; `None` while it waits for nothing."""
        self.for_slot = False
        """Whether it waits for a slot, or for a place under a cap."""
        self.lacking: list[Pool] = []
        """The caps under which it waits for a place, where it does."""
        self.woken_for: Pool | None = None
        """The cap under which a place came free for it, while it waits for its slot."""
        self.eager = False
        """Whether it takes all places that it can get. At first it takes one, and runs its calls there."""
        self.closed = False


class Places:
    """The places of one client: its slots and the pool of each cap. `now` is the clock in seconds."""

    def __init__(self, slots: int, now: Callable[[], float]) -> None:
        self._now = now
        self.slots = Pool(slots, now)
        self.calling_tools: set[str] = set()
        """The tools whose calls have started batches of their own."""
        self._capped: WeakKeyDictionary[ConcurrencyCap, Pool] = WeakKeyDictionary()
        self._line = Line(for_slots=True)
        self._line_of_children = Line(for_slots=True)
        self._tickets: dict[Ticket, None] = {}
        self._changed: dict[Pool, None] = {}
        self._numbers = count()
        self._sequence = count()

    def pool_of(self, cap: ConcurrencyCap) -> Pool:
        """The pool of a tool's or server's limit."""
        pool = self._capped.get(cap)
        if pool is None:
            pool = self._capped[cap] = Pool(cap.limit, self._now)
        return pool

    def enter(self, ticket: Ticket) -> list[Grant]:
        """Put a batch into the queue, and park the call that started it; return the starts to make."""
        caller = ticket.caller
        if caller is not None:
            if caller.over:
                ticket.closed = True
                ticket.batch.caller_ended(_ended(caller))
                return []
            self._park(caller, ticket)
        self._tickets[ticket] = None
        self._queue(ticket)
        return self.assign()

    def more(self, ticket: Ticket) -> list[Grant]:
        """More calls of the batch may have become ready; return the starts to make."""
        self._ask_again(ticket)
        return self.assign()

    def take_all(self, ticket: Ticket) -> list[Grant]:
        """A call of the batch has suspended, so that others can run meanwhile: make the batch eager."""
        ticket.eager = True
        return self.more(ticket)

    def over(self, grant: Grant, *, thread_runs: bool = False) -> list[Grant]:
        """A call has ended; return the starts that this makes possible.

        Its own batches are told. Its places come back unless its thread still runs in them.
        """
        grant.over = True
        if grant.batches:
            batches, grant.batches, grant.line = grant.batches, None, None
            for nested in batches:
                nested.batch.caller_ended(_ended(grant))
        elif not thread_runs and (successor := self._successor(grant)) is not None:
            return [successor]
        ticket = grant.ticket
        if ticket.for_slot or len(grant.places) > 1:
            # What has just ended was this batch's turn: it goes behind all that wait now, so that none of
            # them waits for two of its calls. A turn at a cap is only used up by a call under a cap.
            self._wait_no_more(ticket)
        grant.thread_runs = thread_runs
        stuck = [place.pool.abandon(place, grant.tool) for place in grant.places if thread_runs]
        if any(stuck):
            self._tell_stuck()
        for place in grant.places:
            self._let_go(place)
        self._ask_again(ticket)
        return self.assign()

    def thread_ended(self, grant: Grant) -> list[Grant]:
        """The thread of a call that is over has ended; return the starts that this makes possible."""
        grant.thread_runs = False
        stuck = [place.pool.thread_ended(place) for place in grant.places]
        if any(stuck):
            self._tell_stuck()
        for place in grant.places:
            self._let_go(place)
        return self.assign()

    def resize(self, slots: int) -> list[Grant]:
        """Have this many slots; calls beyond them go on. Return the starts that this makes possible."""
        self.slots.limit = slots
        if self.slots.check_stuck():
            self._tell_stuck()
        self._changed[self.slots] = None
        return self.assign()

    def close(self, ticket: Ticket) -> list[Grant]:
        """Start no more calls of a batch; return the starts of others that may come first now."""
        ticket.closed = True
        self._wait_no_more(ticket)
        return self.assign()

    def leave(self, ticket: Ticket, resume: Callable[[], None]) -> bool:
        """A closed batch has ended: return whether the call that started it may go on at once.

        A call that has lent a place to another one's nested call, which is at work in it, has to wait: else
        both would work in one place. `resume` is called when it may go on.
        """
        self._tickets.pop(ticket, None)
        # What has closed is forgotten, so that nothing is left to the garbage collector.
        del ticket.batch, ticket.order
        for line in (self._line, self._line_of_children, *[pool.line for pool in ticket.lacking]):
            line.forget_the_gone()
        caller = ticket.caller
        if caller is None or caller.batches is None or ticket not in caller.batches:
            return True
        del caller.batches[ticket]
        if caller.batches or self._unpark(caller):
            return True
        caller.resume = resume
        return False

    def go_on_regardless(self, ticket: Ticket) -> None:
        """The call that started this batch was cancelled while it waited for a place, and goes on.

        Not if another task of the call has parked it again meanwhile: its places serve that batch now.
        """
        caller = ticket.caller
        assert caller is not None
        if caller.batches:
            return
        caller.resume = None
        for place in caller.places:
            place.pool.lendable.pop(place, None)
            place.pool.resuming.pop(place, None)

    def assign(self) -> list[Grant]:
        """Admit every call that may start now, in turn; return the starts to make.

        Called after every change. Calls that wait to go on come first. Then batches are asked in the order of
        their numbers: a batch whose calls all lack places under caps is passed over and keeps its number.
        """
        starts: list[Grant] = []
        while True:
            while self._changed:
                pool, _ = self._changed.popitem()
                self._resume_lenders(pool)
                self._wake(pool)
            ticket = self._next()
            if ticket is None:
                return starts
            self._serve(ticket, starts)

    def _next(self) -> Ticket | None:
        """The batch whose turn it is, of those for which there is a slot."""
        slots = self.slots
        if slots.in_use < slots.limit:
            return self._line.pop()
        if not slots.lendable:
            return None
        # A parked call's slot serves its own batches first, so that what has been started is finished first.
        while (ticket := self._line_of_children.pop_nested()) is not None:
            if ticket.caller is not None and ticket.caller.places[0] in slots.lendable:
                return ticket
        return self._line.pop_nested()

    def _serve(self, ticket: Ticket, starts: list[Grant]) -> None:
        number = ticket.number
        self._wait_no_more(ticket)
        lacking: list[Pool] = []
        grant = self._admit(ticket, lacking)
        if grant is not None:
            starts.append(grant)
            if ticket.eager and ticket.order.ready:
                self._queue(ticket)
        elif lacking:
            ticket.number, ticket.for_slot = number, False
            ticket.lacking = lacking
            for pool in lacking:
                pool.line.push(ticket)
            if any(pool.stuck_since is not None for pool in lacking):
                ticket.batch.places_stuck()

    def _admit(self, ticket: Ticket, lacking: list[Pool]) -> Grant | None:
        """Take all places of the first ready call for which there are all, and none for any other."""
        full: list[Group] = []
        while (group := ticket.order.first_group(full)) is not None:
            sources = []
            for pool in (self.slots, *group):
                source = _source(pool, ticket.caller)
                if source is None:
                    lacking.append(pool)
                    full.append(group)
                    break
                sources.append((pool, source))
            else:
                places = tuple(pool.take(source) for pool, source in sources)
                return Grant(ticket, ticket.order.take_from(group), places, next(self._sequence))
        return None

    def _successor(self, grant: Grant) -> Grant | None:
        """Admit the next call of the same batch in the places of one that has ended, if nobody else waits.

        `assign` would come to the same, but slower.
        """
        ticket, places = grant.ticket, grant.places
        order, group = ticket.order, ticket.only_group
        ready = order.ready
        if not ready or group is None or ticket.closed or self._line.has_others(ticket):
            return None
        if ready > 1 and ticket.eager and ticket.number is None:
            return None  # more than one can start now
        for place in places:
            pool = place.pool
            if place.lent_to is not None or pool.in_use > pool.limit or pool.resuming:
                return None
        if group and any(pool.line.has_others(ticket) for pool in group):
            return None
        return Grant(ticket, order.take_from(group), places, next(self._sequence))

    def _queue(self, ticket: Ticket) -> None:
        ticket.number = next(self._numbers)
        self._wait_for_slot(ticket)

    def _wait_for_slot(self, ticket: Ticket) -> None:
        ticket.for_slot = True
        self._line.push(ticket)
        if ticket.caller is not None and ticket.caller.line is not None:
            ticket.caller.line.push(ticket)
            if ticket.caller.places[0] in self.slots.lendable:
                self._line_of_children.push(ticket)
        if self.slots.stuck_since is not None:
            ticket.batch.places_stuck()

    def _ask_again(self, ticket: Ticket) -> None:
        """Let a batch be asked for a call to start, if it has one and is not asked anyway."""
        if ticket.closed or not ticket.order.ready:
            return
        if ticket.number is None:
            self._queue(ticket)
        elif not ticket.for_slot:
            self._wait_for_slot(ticket)

    def _wake(self, pool: Pool) -> None:
        """Let as many batches ask for a slot as there are places under a cap for them.

        Nested ones do not stand behind others here: a slot may be lent to them while these get none, and the
        call that would free one may be their caller.
        """
        while pool.woken_roots < pool.free and (ticket := pool.line.pop_root()) is not None:
            pool.woken_roots += 1
            self._wake_for(pool, ticket)
        room = pool.free + len(pool.lendable)
        while pool.woken_nested < room and (ticket := pool.line.pop_nested()) is not None:
            pool.woken_nested += 1
            self._wake_for(pool, ticket)

    def _wake_for(self, pool: Pool, ticket: Ticket) -> None:
        ticket.woken_for = pool
        self._wait_for_slot(ticket)

    def _wait_no_more(self, ticket: Ticket) -> None:
        ticket.number = None
        pool, ticket.woken_for = ticket.woken_for, None
        if pool is None:
            return
        if ticket.caller is None:
            pool.woken_roots -= 1
        else:
            pool.woken_nested -= 1
        self._changed[pool] = None  # there may be room for the next one, if this one does not use it

    def _let_go(self, place: Place) -> None:
        """Take a place back if its call, that call's thread and its loan have all ended."""
        grant, pool = place.grant, place.pool
        if not grant.over or place.lent_to is not None:
            return
        if grant.thread_runs:
            self._leave_to_thread(place)
            return
        del place.grant
        pool.lendable.pop(place, None)
        pool.resuming.pop(place, None)
        lender = place.borrowed_from
        self._changed[pool] = None
        if lender is None:
            pool.in_use -= 1
            return
        place.borrowed_from = lender.lent_to = None
        if lender.grant.over:
            self._let_go(lender)
        elif lender.grant.batches or lender.grant.resume is not None:
            self._make_lendable(lender)

    def _leave_to_thread(self, place: Place) -> None:
        """Have the lender of this place go on, if it waits for it: threads of answered calls hold up none."""
        lender = place.borrowed_from
        while lender is not None and lender.grant.over:
            lender = lender.borrowed_from
        if lender is not None:
            self._try_to_resume(lender.grant)

    def _make_lendable(self, place: Place) -> None:
        grant, pool = place.grant, place.pool
        pool.lendable[place] = None
        self._changed[pool] = None
        pool.resuming.pop(place, None)
        if grant.resume is not None:
            self._try_to_resume(grant)
        elif pool is self.slots and grant.line is not None and (own := grant.line.first_nested()) is not None:
            self._line_of_children.push(own)

    def _park(self, caller: Grant, ticket: Ticket) -> None:
        if caller.batches is None:
            caller.batches, caller.line = {}, Line(for_slots=True)
            self.calling_tools.add(caller.tool)
        parked = bool(caller.batches)
        caller.batches[ticket] = None
        if parked:
            return
        resume, caller.resume = caller.resume, None
        if resume is not None:
            resume()  # it has lent places already; another of its tasks may go on
        for place in caller.places:
            place.pool.resuming.pop(place, None)
            if place.lent_to is None:
                self._make_lendable(place)

    def _unpark(self, grant: Grant) -> bool:
        """Have a call go on, unless a place of its is at work for a stranger; return whether it goes on."""
        waits = False
        for place in grant.places:
            if place.is_at_work_for_others() and not self._move_loan(place):
                place.pool.resuming[place] = None
                waits = True
            else:
                place.pool.resuming.pop(place, None)
        for place in grant.places:
            if not waits:
                place.pool.lendable.pop(place, None)
            elif place.lent_to is None:
                # The call that it waits for may need another place of its, by a nested call.
                place.pool.lendable[place] = self._changed[place.pool] = None
        return not waits

    def _try_to_resume(self, grant: Grant) -> None:
        if grant.resume is not None and self._unpark(grant):
            resume, grant.resume = grant.resume, None
            resume()

    def _resume_lenders(self, pool: Pool) -> None:
        while pool.resuming:
            place = next(iter(pool.resuming))
            if not self._move_loan(place):
                return
            self._try_to_resume(place.grant)

    def _move_loan(self, place: Place) -> bool:
        """Have another place stand in for this one, which is lent; return whether there is one.

        It may be that of a call that was admitted before the borrower, as this one was, and of no other: else
        calls could wait for each other in a circle.
        """
        loan, pool = place.lent_to, place.pool
        assert loan is not None
        if pool.in_use < pool.limit:
            pool.in_use += 1
            loan.borrowed_from = None
        else:
            other = next(iter(pool.lendable), None)
            if other is None or other.grant.sequence >= loan.grant.sequence:
                return False
            del pool.lendable[other]
            other.lent_to, loan.borrowed_from = loan, other
        place.lent_to = None
        pool.resuming.pop(place, None)
        return True

    def _tell_stuck(self) -> None:
        for ticket in tuple(self._tickets):
            if not ticket.closed:
                ticket.batch.places_stuck()


def launch(starts: list[Grant]) -> None:
    """Make the starts that `Places` has decided on."""
    for grant in starts:
        grant.ticket.batch.launch(grant)


def _source(pool: Pool, caller: Grant | None) -> Place | Pool | None:
    """Where a call started by `caller` gets a place: a place to borrow, the pool itself, or nowhere.

    Its caller's own place comes first, so that free ones are left to others; any parked call's place last.
    """
    if caller is not None and pool.lendable:
        for place in caller.places:
            if place in pool.lendable and place.pool is pool:
                return place
    if pool.in_use < pool.limit:
        return pool
    if caller is None:
        return None
    return next(iter(pool.lendable), None)


def _ended(grant: Grant) -> CallEndedError:
    return CallEndedError(
        f"the call of the tool {grant.tool!r} that started this has ended: what a tool starts on the "
        "client has to end before the tool does"
    )
