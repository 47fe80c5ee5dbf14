"""Random programs over the places of a client: nothing waits for ever, and no limit is exceeded."""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from seqoria_runtime._execution.batches.planner import GraphNode
from seqoria_runtime._execution.places.places import Places
from seqoria_runtime._execution.places.pool import Grant
from seqoria_runtime.models.errors import CallEndedError
from tests.conftest import PROFILE
from tests.support.places import CheckedClient, Client, Load

pytestmark = pytest.mark.clause("C43", "C48", "C49", "C51", "C136")

CAPS = st.lists(st.integers(1, 3), min_size=2, max_size=2)
GROUPS: list[tuple[int, ...]] = [(), (0,), (1,), (0, 1)]
"""What calls need besides a slot: nothing, one of the two caps, or both."""


def is_live(grant: Grant) -> bool:
    """Whether the runtime lets code of this call start a batch."""
    try:
        grant.require_live()
    except CallEndedError:
        return False
    return True


class PlacesMachine(RuleBasedStateMachine):
    """Batches that come, run, nest, overrun, are cancelled and leave, in any order."""

    @initialize(slots=st.integers(1, 4), caps=CAPS)
    def open(self, slots: int, caps: list[int]) -> None:
        self.client = CheckedClient(slots, caps)

    @rule(data=st.data(), eager=st.booleans())
    def start_batch(self, data: st.DataObject, eager: bool) -> None:
        self.client.run(*self.draw_calls(data), eager=eager)

    @precondition(lambda self: self.client.running)
    @rule(data=st.data(), eager=st.booleans())
    def start_nested_batch(self, data: st.DataObject, eager: bool) -> None:
        caller = data.draw(st.sampled_from(self.client.running))
        if not is_live(caller):
            return
        self.client.run(*self.draw_calls(data), caller=caller, eager=eager)

    @precondition(lambda self: self.client.running)
    @rule(data=st.data(), ok=st.booleans(), thread_runs=st.sampled_from([False, False, True]))
    def end_call(self, data: st.DataObject, ok: bool, thread_runs: bool) -> None:
        grant = data.draw(st.sampled_from(self.client.running))
        self.client.end(grant, ok=ok, thread_runs=thread_runs)

    @precondition(lambda self: self.client.threads)
    @rule(data=st.data())
    def end_thread(self, data: st.DataObject) -> None:
        self.client.thread_ended(data.draw(st.sampled_from(self.client.threads)))

    @precondition(lambda self: self.client.loads)
    @rule(data=st.data())
    def close_batch(self, data: st.DataObject) -> None:
        load = data.draw(st.sampled_from(self.client.loads))
        load.close()
        self.client.check()

    @precondition(lambda self: self.client.loads)
    @rule(data=st.data())
    def suspend(self, data: st.DataObject) -> None:
        load = data.draw(st.sampled_from(self.client.loads))
        load.eager = True
        load.after_step()
        self.client.check()

    @precondition(lambda self: any(load.caller_waits for load in self.client.loads))
    @rule(data=st.data())
    def go_on_regardless(self, data: st.DataObject) -> None:
        waiting = [load for load in self.client.loads if load.caller_waits]
        self.client.go_on_regardless(data.draw(st.sampled_from(waiting)))

    @rule(slots=st.integers(1, 4))
    def resize(self, slots: int) -> None:
        self.client.resize(slots)

    def draw_calls(self, data: st.DataObject) -> list[GraphNode]:
        groups = data.draw(st.lists(st.sampled_from(GROUPS), min_size=1, max_size=3))
        return [
            GraphNode(
                (str(number),),
                frozenset(data.draw(st.sets(st.sampled_from("012"[:number]), max_size=1)) if number else ()),
                tuple(self.client.caps[cap] for cap in group),
            )
            for number, group in enumerate(groups)
        ]

    def teardown(self) -> None:
        if not hasattr(self, "client"):
            return
        client = self.client
        while client.running or client.threads:
            at_work = [grant for grant in client.running if client.at_work(grant)]
            assert at_work or client.threads, "calls wait for each other"
            for grant in at_work[:1]:
                client.end(grant)
            if not at_work:
                client.thread_ended(client.threads[0])
        client.check_idle()


EXAMPLES = 10_000 if PROFILE == "thorough" else 100

PlacesMachine.TestCase.settings = settings(
    max_examples=EXAMPLES // 2, stateful_step_count=40, suppress_health_check=list(HealthCheck)
)
TestPlacesInAnyOrder = PlacesMachine.TestCase


@dataclass
class Call:
    """A call that needs places under these caps, starts batches one after another, and may leave a thread."""

    caps: tuple[int, ...] = ()
    batches: list[list["Call"]] = field(default_factory=list)
    leaves_thread: bool = False


def calls(inner: st.SearchStrategy[Call] | None) -> st.SearchStrategy[Call]:
    batches = st.just([]) if inner is None else st.lists(st.lists(inner, min_size=1, max_size=3), max_size=2)
    return st.builds(Call, st.sampled_from(GROUPS), batches, st.sampled_from([False] * 9 + [True]))


GRAPHS = st.lists(st.lists(calls(calls(calls(calls(None)))), min_size=1, max_size=3), min_size=1, max_size=4)


class Program:
    """Runs graphs of calls: each call waits for one batch at a time. `chance` says who is next."""

    def __init__(self, client: Client, graph: list[list[Call]], chance: random.Random) -> None:
        self.client = client
        self.chance = chance
        self.left = graph
        self.of_load: dict[Load, list[Call]] = {}
        self.batches_left: dict[Grant, list[list[Call]]] = {}
        self.started: list[int] = []
        self.threads: list[Grant] = []

    def run(self) -> None:
        """Take steps until nothing can happen any more."""
        while self.left or self.able() or self.threads:
            step = self.chance.random()
            if self.left and step < 0.2:
                self.start(self.left[0], None)
                del self.left[0]
            elif self.threads and (step > 0.9 or not self.able()):
                self.client.thread_ended(self.threads.pop(self.chance.randrange(len(self.threads))))
            elif able := self.able():
                self.go_on(self.chance.choice(able))
        assert not any(load.running or load.caller_waits or not load.left for load in self.of_load)

    def able(self) -> list[Grant]:
        """The calls that are at work, in the order of their batches."""
        waiting = {load.ticket.caller for load in self.of_load if not load.left or load.caller_waits}
        return [grant for load in self.of_load for grant in load.running if grant not in waiting]

    def start(self, batch: list[Call], caller: Grant | None) -> None:
        groups = [tuple(self.client.caps[cap] for cap in call.caps) for call in batch]
        load = self.client.run(*groups, caller=caller)
        self.of_load[load] = batch

    def go_on(self, grant: Grant) -> None:
        load = next(load for load in self.of_load if grant in load.running)
        call = self.of_load[load][grant.call]
        batches = self.batches_left.setdefault(grant, list(call.batches))
        self.started.append(grant.sequence)
        if batches:
            self.start(batches.pop(0), grant)
        elif isinstance(self.client, CheckedClient):
            self.client.end(grant, thread_runs=call.leaves_thread)
        else:
            load.end(grant, thread_runs=call.leaves_thread)
        if call.leaves_thread and grant.over:
            self.threads.append(grant)


@settings(
    max_examples=EXAMPLES,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(graph=GRAPHS, slots=st.integers(1, 4), caps=CAPS, seed=st.integers(0, 2**32))
def test_no_graph_of_calls_waits_for_ever(
    graph: list[list[Call]], slots: int, caps: list[int], seed: int
) -> None:
    client = CheckedClient(slots, caps)
    Program(client, [*graph], random.Random(seed)).run()
    client.check_idle()


class LongWay(Places):
    """Places that ask all batches at the end of each call."""

    def _successor(self, grant: Grant) -> Grant | None:
        return None


@settings(max_examples=EXAMPLES // 4, suppress_health_check=list(HealthCheck))
@given(graph=GRAPHS, slots=st.integers(1, 4), caps=CAPS, seed=st.integers(0, 2**32))
def test_the_short_cut_to_the_next_call_of_a_batch_decides_as_the_long_way(
    graph: list[list[Call]], slots: int, caps: list[int], seed: int
) -> None:
    programs = []
    for places in (Places, LongWay):
        program = Program(Client(slots, caps, places), [*graph], random.Random(seed))
        program.run()
        programs.append(program)
    assert programs[0].started == programs[1].started
