"""Who may run next: one function, `Places.assign`, decides for all calls of a client, after every change.

A call needs a slot and, if its tool or server has a limit, a place under that too. It is admitted when it
has all of them, or gets none. Synchronous, so that no lock is needed; knows nothing of tasks.
"""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from itertools import count
from weakref import WeakKeyDictionary

from seqoria_runtime._base.tools import ConcurrencyCap
from seqoria_runtime.models.errors import CallEndedError

from .pool import Grant, Group, Line, Place, Pool, Ticket


class Places:
    """The places of one client: its slots and the pool of each cap. `now` is the clock in seconds."""

    def __init__(self, slots: int, now: Callable[[], float]) -> None:
        self._now = now
        self.slots = Pool(slots, now)
        self.calling_tools: set[str] = set()
        """The tools whose calls have started batches of their own."""
        self._capped: WeakKeyDictionary[ConcurrencyCap, Pool] = WeakKeyDictionary()
        self._line_of_children = Line(self.slots)
        """Batches for which the call that started them has a slot to lend."""
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
        return self.more(ticket)

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
        self._go_on(grant)
        if grant.batches:
            batches, grant.batches, grant.line = grant.batches, None, None
            for nested in batches:
                nested.batch.caller_ended(_ended(grant))
        elif not thread_runs and (successor := self._successor(grant)) is not None:
            return [successor]
        # What has just ended was this batch's turn: it goes behind all that wait now for such places, so that
        # none of them waits for two of its calls.
        self._lose_turns(grant.ticket, [place.pool for place in grant.places])
        grant.thread_runs = thread_runs
        stuck = [place.pool.abandon(place, grant.tool) for place in grant.places if thread_runs]
        if any(stuck):
            self._tell_stuck()
        for place in grant.places:
            self._let_go(place)
        return self.more(grant.ticket)

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
        pools = {self.slots: None, **ticket.turns}
        self._lose_turns(ticket, pools)
        # What has closed is forgotten, so that nothing is left to the garbage collector.
        for line in (self._line_of_children, *[pool.line for pool in pools]):
            line.forget_the_gone()
        return self.assign()

    def leave(self, ticket: Ticket, resume: Callable[[], None]) -> bool:
        """A closed batch has ended: return whether the call that started it may go on at once.

        A call that has lent a place to another one's nested call, which is at work in it, has to wait: else
        both would work in one place. `resume` is called when it may go on.
        """
        self._tickets.pop(ticket, None)
        del ticket.batch, ticket.order
        caller = ticket.caller
        if caller is None or caller.batches is None or ticket not in caller.batches:
            return True
        del caller.batches[ticket]
        if caller.batches or self._unpark(caller):
            return True
        caller.resume = resume
        return False

    def go_on_regardless(self, ticket: Ticket) -> None:
        """The call that started this batch was cancelled while it waited for a place, and goes on."""
        caller = ticket.caller
        assert caller is not None
        if caller.resume is not None:
            self._go_on(caller)

    def assign(self) -> list[Grant]:
        """Admit every call that may start now, in turn; return the starts to make.

        Called after every change. Calls that wait to go on come first. Then batches are asked in the order of
        their numbers: a batch whose calls all lack places under caps is passed over, and waits for those.
        """
        starts: list[Grant] = []
        while True:
            while self._changed:
                pool, _ = self._changed.popitem()
                self._resume_lenders(pool)
                if pool is not self.slots:
                    self._wake(pool)
            ticket = self._next()
            if ticket is None:
                return starts
            self._serve(ticket, starts)

    def _next(self) -> Ticket | None:
        """The batch whose turn it is, of those for which there is a slot."""
        slots = self.slots
        if slots.in_use < slots.limit:
            return slots.line.pop()
        if not slots.lendable:
            return None
        # A parked call's slot serves its own batches first, so that what has been started is finished first.
        while (ticket := self._line_of_children.pop_nested()) is not None:
            if ticket.caller is not None and ticket.caller.places[0] in slots.lendable:
                return ticket
        return slots.line.pop_nested()

    def _serve(self, ticket: Ticket, starts: list[Grant]) -> None:
        number = ticket.turns[self.slots]
        # A turn at a cap is for a call under that cap.
        caps = {pool for pool in ticket.woken_for if ticket.turns[pool] == number}
        self._lose_turns(ticket, caps)
        lacking: list[Pool] = []
        grant = self._admit(ticket, lacking, caps)
        if grant is not None:
            starts.append(grant)
            for place in grant.places:
                ticket.turns.pop(place.pool, None)
            number = next(self._numbers)  # a turn is for one call
        for pool in lacking:
            if number <= ticket.turns.get(pool, number):
                self._wait(ticket, pool, number)
        if caps if grant is None else ticket.eager:
            self._ask_again(ticket)

    def _admit(self, ticket: Ticket, lacking: list[Pool], caps: AbstractSet[Pool]) -> Grant | None:
        """Take all places of the first ready call for which there are all, and none for any other.

        With `caps`, only calls under one of these are admitted.
        """
        full: list[Group] = []
        if caps:
            full = [group for group in ticket.order.ready_groups() if caps.isdisjoint(group)]
        while (group := ticket.order.first_group(full)) is not None:
            sources = []
            for pool in (self.slots, *group):
                source = pool.source_for(ticket.caller)
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
        if not ready or group is None or ticket.closed:
            return None
        if ready > 1 and ticket.eager and self.slots not in ticket.turns:
            return None  # more than one can start now
        for place in places:
            pool = place.pool
            if place.lent_to is not None or pool.in_use > pool.limit or pool.resuming:
                return None
            if pool.line.has_others(ticket):
                return None
        return Grant(ticket, order.take_from(group), places, next(self._sequence))

    def _ask_again(self, ticket: Ticket) -> None:
        """Let a batch be asked for a call to start, if it has one and is not asked anyway."""
        if not ticket.closed and ticket.order.ready and self.slots not in ticket.turns:
            self._wait(ticket, self.slots, next(self._numbers))

    def _wait(self, ticket: Ticket, pool: Pool, number: int) -> None:
        ticket.turns[pool] = number
        pool.line.push(ticket)
        caller = ticket.caller
        if pool is self.slots and caller is not None and caller.line is not None:
            caller.line.push(ticket)
            if caller.places[0] in pool.lendable:
                self._line_of_children.push(ticket)
        if pool.stuck_since is not None:
            ticket.batch.places_stuck()

    def _lose_turns(self, ticket: Ticket, pools: Iterable[Pool]) -> None:
        """Take a batch out of the line for slots and the lines of these pools."""
        for pool in (self.slots, *pools):
            ticket.turns.pop(pool, None)
        while ticket.woken_for:
            pool = ticket.woken_for.pop()
            if ticket.caller is None:
                pool.woken_roots -= 1
            else:
                pool.woken_nested -= 1
            if pool in ticket.turns:
                pool.line.push(ticket)
            self._changed[pool] = None  # there may be room for the next one

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
        ticket.woken_for.append(pool)
        turn = ticket.turns[pool]
        if ticket.turns.get(self.slots, turn) >= turn:
            self._wait(ticket, self.slots, turn)

    def _let_go(self, place: Place) -> None:
        """Give the place of a call that is over back, unless its thread still runs in it."""
        lender = place.borrowed_from
        if not place.grant.thread_runs and place.pool.give_back(place):
            self._changed[place.pool] = None
        while lender is not None and lender.grant.over:
            lender = lender.borrowed_from
        if lender is None:
            return
        if lender.grant.resume is not None:
            self._unpark(lender.grant)
        elif lender.grant.batches and lender.lent_to is None:
            self._make_lendable(lender)

    def _make_lendable(self, place: Place) -> None:
        grant, pool = place.grant, place.pool
        pool.lendable[place] = None
        self._changed[pool] = None
        if pool is self.slots and grant.line is not None and (own := grant.line.first_nested()) is not None:
            self._line_of_children.push(own)

    def _park(self, caller: Grant, ticket: Ticket) -> None:
        if caller.batches is None:
            caller.batches, caller.line = {}, Line(self.slots)
            self.calling_tools.add(caller.tool)
        parked = bool(caller.batches)
        caller.batches[ticket] = None
        if parked:
            return
        self._go_on(caller)  # another of its tasks may wait for a place that it has lent
        for place in caller.places:
            if place.lent_to is None:
                self._make_lendable(place)

    def _unpark(self, grant: Grant) -> bool:
        """Have a call go on, unless others are at work in its places; return whether it goes on."""
        loans = [loan for place in grant.places if (loan := place.live_loan) is not None]
        moves = [(loan, loan.pool.source_instead_of(loan)) for loan in loans]
        if all(source is not None for _, source in moves):
            for loan, source in moves:
                self._move(loan, source)
            self._go_on(grant)
            return True
        for loan in loans:
            loan.pool.resuming[grant] = None
        for place in grant.places:
            # The calls that it waits for may need another place of its, for a nested call.
            if place.lent_to is None and place not in place.pool.lendable:
                self._make_lendable(place)
        return False

    def _go_on(self, grant: Grant) -> None:
        """Let a call work in its places, and its task that waited for that go on."""
        for place in grant.places:
            place.pool.lendable.pop(place, None)
            place.pool.resuming.pop(grant, None)
        resume, grant.resume = grant.resume, None
        if resume is not None:
            resume()

    def _resume_lenders(self, pool: Pool) -> None:
        if pool.resuming and (pool.free or pool.lendable):
            for grant in tuple(pool.resuming):
                self._unpark(grant)

    def _move(self, loan: Place, source: Place | Pool | None) -> None:
        """Have another place stand in for the one that was lent."""
        pool, lender = loan.pool, loan.borrowed_from
        assert lender is not None
        lender.lent_to = None
        if isinstance(source, Place):
            del pool.lendable[source]
            source.lent_to, loan.borrowed_from = loan, source
        else:
            pool.in_use += 1
            loan.borrowed_from = None
        if pool.check_stuck():
            self._tell_stuck()

    def _tell_stuck(self) -> None:
        for ticket in tuple(self._tickets):
            if not ticket.closed:
                ticket.batch.places_stuck()


def launch(starts: list[Grant]) -> None:
    """Make the starts that `Places` has decided on."""
    for grant in starts:
        grant.ticket.batch.launch(grant)


def _ended(grant: Grant) -> CallEndedError:
    return CallEndedError(
        f"the call of the tool {grant.tool!r} that started this has ended: what a tool starts on the "
        "client has to end before the tool does"
    )
