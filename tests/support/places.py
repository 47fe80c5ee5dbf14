"""Drives `Places` as a scheduler does, step by step and without tasks."""

from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

from seqoria_runtime._base.tools import ConcurrencyCap
from seqoria_runtime._execution.batches.planner import GraphNode, Planner
from seqoria_runtime._execution.places.places import Places, launch
from seqoria_runtime._execution.places.pool import Grant, Group, Place, Pool, Ticket
from seqoria_runtime.models.errors import CallEndedError


class Client:
    """The places of a client, with one cap for each limit in `caps`; `now` is its clock."""

    def __init__(self, slots: int, caps: Sequence[int] = (), places: type[Places] = Places) -> None:
        self.now = 0.0
        self.places = places(slots, lambda: self.now)
        self._caps = [ConcurrencyCap(f"tool 'capped{number}'", limit) for number, limit in enumerate(caps)]
        self.caps = [self.places.pool_of(cap) for cap in self._caps]
        self.on_starts: Callable[[list[Grant]], None] = lambda starts: None
        """Called with each list of starts before they are made."""

    @property
    def slots(self) -> Pool:
        return self.places.slots

    def run(self, *calls: Group | GraphNode, caller: Grant | None = None, eager: bool = True) -> "Load":
        """Start a batch."""
        load = Load(self, calls, caller)
        self.register(load)
        self.launch(self.places.enter(load.ticket))
        load.eager = eager
        load.after_step()
        return load

    def register(self, load: "Load") -> None:
        """Note a batch that is about to enter."""

    def uncapped(self, count: int, caller: Grant | None = None) -> "Load":
        """Start a batch of calls that need nothing but slots."""
        return self.run(*[()] * count, caller=caller)

    def capped(self, count: int, caller: Grant | None = None, *, cap: int = 0) -> "Load":
        """Start a batch of calls that need a slot and a place under this cap."""
        return self.run(*[(self.caps[cap],)] * count, caller=caller)

    def launch(self, starts: list[Grant]) -> None:
        self.on_starts(starts)
        launch(starts)
        for grant in starts:
            batch = grant.ticket.batch
            assert isinstance(batch, Load)
            batch.after_step()

    def thread_ended(self, grant: Grant) -> None:
        self.launch(self.places.thread_ended(grant))


class Load:
    """A batch without tasks: its calls run until the test ends them. `running` has the oldest first."""

    def __init__(self, client: Client, calls: Sequence[Group | GraphNode], caller: Grant | None) -> None:
        nodes = [
            call if isinstance(call, GraphNode) else GraphNode((str(number),), group=call)
            for number, call in enumerate(calls)
        ]
        self.client = client
        self.groups = [node.group for node in nodes]
        self.order = Planner(nodes)
        self.unsettled = len(nodes)
        self.eager = False
        self.running: list[Grant] = []
        self.started = 0
        self.stuck = 0
        self.error: CallEndedError | None = None
        self.left = False
        self.caller_waits = False
        """Whether the batch has ended, and the call that started it waits for a place that it has lent."""
        self.ticket = Ticket(client.slots, self, self.order, caller)

    @property
    def call(self) -> Grant:
        """The oldest call that runs."""
        return self.running[0]

    def launch(self, grant: Grant) -> None:
        self.running.append(grant)
        self.started += 1

    def places_stuck(self) -> None:
        self.stuck += 1

    def caller_ended(self, error: CallEndedError) -> None:
        self.error = error
        self.close()

    def after_step(self) -> None:
        """Take all places there are once a call runs, as soon as it would suspend."""
        if self.eager and self.running and not self.ticket.eager:
            self.client.launch(self.client.places.take_all(self.ticket))

    def end(self, grant: Grant | None = None, *, ok: bool = True, thread_runs: bool = False) -> None:
        """End a call, by default the oldest; the last one ends the batch."""
        grant = grant or self.call
        self.running.remove(grant)
        self.unsettled -= 1 + len(self.order.settle(grant.call, ok=ok))
        self.client.launch(self.client.places.over(grant, thread_runs=thread_runs))
        self.leave_if_ended()

    def close(self) -> None:
        """Start no more calls, as a cancelled batch does."""
        if not self.ticket.closed:
            self.client.launch(self.client.places.close(self.ticket))

    def cancel(self) -> None:
        """Close the batch, and end its calls."""
        self.close()
        while self.running:
            self.end()
        self.leave_if_ended()

    @property
    def ended(self) -> bool:
        return not self.running and (self.ticket.closed or not self.unsettled)

    def leave_if_ended(self) -> None:
        if not self.ended or self.left:
            return
        self.close()
        self.left = True
        self.caller_waits = not self.client.places.leave(self.ticket, self.resume)
        if self.caller_waits:
            self.client.launch(self.client.places.assign())

    def resume(self) -> None:
        self.caller_waits = False


class CheckedClient(Client):
    """A client that checks, after each step, that its places are given as they should be."""

    def __init__(self, slots: int, caps: Sequence[int] = (), places: type[Places] = Places) -> None:
        super().__init__(slots, caps, places)
        self.on_starts = self._note_starts
        self.loads: list[Load] = []
        self.threads: list[Grant] = []
        """Calls that are over, and left a thread in their places."""
        self.regardless: set[Grant] = set()
        """Calls that went on without a place that they had lent."""
        self._in_use = dict.fromkeys(self.pools, 0)
        self._overtaken: dict[tuple[Load, Group], Counter[Load]] = {}

    @property
    def pools(self) -> list[Pool]:
        return [self.slots, *self.caps]

    @property
    def running(self) -> list[Grant]:
        return [grant for load in self.loads for grant in load.running]

    def run(self, *calls: Group | GraphNode, caller: Grant | None = None, eager: bool = True) -> Load:
        load = super().run(*calls, caller=caller, eager=eager)
        self.check()
        return load

    def register(self, load: Load) -> None:
        self.loads.append(load)

    def end(self, grant: Grant, *, ok: bool = True, thread_runs: bool = False) -> None:
        load = _load_of(grant)
        self._gave_up_its_turns(load, grant)
        if thread_runs:
            self.threads.append(grant)
        load.end(grant, ok=ok, thread_runs=thread_runs)
        self.check()

    def thread_ended(self, grant: Grant) -> None:
        self.threads.remove(grant)
        super().thread_ended(grant)
        self.check()

    def go_on_regardless(self, load: Load) -> None:
        assert load.caller_waits
        assert load.ticket.caller is not None
        self.regardless.add(load.ticket.caller)
        self.places.go_on_regardless(load.ticket)
        self.check()

    def resize(self, slots: int) -> None:
        self.launch(self.places.resize(slots))
        self.check()

    def parked(self, grant: Grant) -> bool:
        """Whether batches that this call has started run."""
        return any(load.ticket.caller is grant and not load.left for load in self.loads)

    def waits_to_go_on(self, grant: Grant) -> bool:
        return any(load.ticket.caller is grant and load.caller_waits for load in self.loads)

    def at_work(self, grant: Grant) -> bool:
        """Whether a call neither waits for its own batches nor for a place that it has lent."""
        return not self.parked(grant) and not self.waits_to_go_on(grant)

    def check(self) -> None:
        """Have what has ended leave, and check all that has to hold at every moment."""
        for load in self.loads:
            load.leave_if_ended()
        self.loads = [load for load in self.loads if not load.left or load.caller_waits]
        running = self.running
        for grant in running:
            group = _load_of(grant).groups[grant.call]
            assert [place.pool for place in grant.places] == [self.slots, *group], "all places or none"
        at_work = [grant for grant in running if self.at_work(grant)]
        for pool in self.pools:
            places = [
                place for grant in (*running, *self.threads) for place in grant.places if place.pool is pool
            ]
            self._check_use(pool, places)
            self._check_loans(pool, places, set(at_work))
            self._check_stuck(pool)
            regular = [
                place.root
                for grant in at_work
                for place in grant.places
                if place.pool is pool and grant not in self.regardless
            ]
            assert len(regular) == len(set(regular)), "two calls work in one place"
        self._check_nobody_waits_for_a_free_place()

    def check_idle(self) -> None:
        """Nothing runs: nobody waits, and every place is free."""
        assert not self.running
        assert not self.threads
        assert not self.loads, "somebody waits for ever"
        for pool in self.pools:
            assert pool.in_use == 0
            assert not pool.lendable
            assert not pool.resuming
            assert pool.woken_roots == pool.woken_nested == 0

    def _check_use(self, pool: Pool, places: Sequence[Place]) -> None:
        assert len({place.root for place in places}) == pool.in_use
        assert pool.in_use <= max(pool.limit, self._in_use[pool]), "a limit is exceeded"
        self._in_use[pool] = pool.in_use

    def _check_loans(self, pool: Pool, places: Sequence[Place], at_work: AbstractSet[Grant]) -> None:
        lendable = set()
        for place in places:
            lender, loan = place.borrowed_from, place.lent_to
            assert lender is None or lender.lent_to is place
            assert loan is None or loan.borrowed_from is place
            if lender is not None and lender.grant in at_work:
                assert lender.grant in self.regardless or place.grant.over
            if loan is None and not place.grant.over and place.grant not in at_work:
                lendable.add(place)
        assert set(pool.lendable) == lendable
        for grant in pool.resuming:
            waits_for = [one for one in self.pools if grant in one.resuming and not one.free]
            assert waits_for, "a call waits to go on while its places are free"

    def _check_stuck(self, pool: Pool) -> None:
        roots = {place.root for grant in self.threads for place in grant.places if place.pool is pool}
        assert (pool.stuck_since is not None) == (len(roots) >= pool.limit)

    def _check_nobody_waits_for_a_free_place(self) -> None:
        for load in self.loads:
            if load.ticket.closed or (load.running and not load.ticket.eager):
                continue
            for group in load.order.ready_groups():
                full = [
                    pool
                    for pool in (self.slots, *group)
                    if not pool.free and (load.ticket.caller is None or not pool.lendable)
                ]
                assert full, "a call waits while its places are free"

    def _note_starts(self, starts: Sequence[Grant]) -> None:
        for grant in starts:
            load = _load_of(grant)
            group = load.groups[grant.call]
            for started in set(load.groups):
                self._overtaken.pop((load, started), None)
            if load.ticket.caller is not None:
                continue
            for other in self.loads:
                waits = not other.ticket.closed and (other.ticket.eager or not other.running)
                if other is load or other.ticket.caller is not None or not waits:
                    continue
                if group in other.order.ready_groups():
                    overtaken = self._overtaken.setdefault((other, group), Counter())
                    overtaken[load] += 1
                    # Once by a turn that is older, and once more where a batch behind this one in the line
                    # of a cap was woken before this one joined it.
                    assert overtaken[load] <= 2, "overtaken again and again by the same batch"

    def _gave_up_its_turns(self, load: Load, grant: Grant) -> None:
        """A call of the batch has ended, so that the batch is behind others now, except at other caps."""
        caps = load.groups[grant.call]
        for group in set(load.groups):
            if not set(group).isdisjoint(caps) or load.ticket.turns.keys().isdisjoint(group):
                self._overtaken.pop((load, group), None)


def _load_of(grant: Grant) -> Load:
    load = grant.ticket.batch
    assert isinstance(load, Load)
    return load
