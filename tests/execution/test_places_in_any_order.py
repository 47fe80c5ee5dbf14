"""Random programs over the places of a client: nothing waits for ever, and no limit is exceeded."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from seqoria_runtime._execution.batches.planner import GraphNode
from seqoria_runtime._execution.places.places import Grant, Group
from tests.conftest import PROFILE
from tests.support.places import CheckedClient, Load

pytestmark = pytest.mark.clause("C43", "C48", "C49", "C51", "C136")

CAPS = st.lists(st.integers(1, 3), min_size=2, max_size=2)
GROUPS: list[tuple[int, ...]] = [(), (0,), (1,), (0, 1)]
"""What calls need besides a slot: nothing, one of the two caps, or both."""


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


PlacesMachine.TestCase.settings = settings(
    max_examples=2000 if PROFILE == "thorough" else 100, stateful_step_count=60, deadline=None
)
TestPlacesInAnyOrder = PlacesMachine.TestCase
