"""Random batches of nested, capped calls, in virtual time on both backends."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.models import ToolCallRequest
from seqoria_runtime.testing import run_on_both
from tests.support.batches import Lab, assert_idle, request

TOOLS = "abcd"


@dataclass(frozen=True)
class Node:
    """A call that works for `seconds`, and then makes calls of its own in one batch."""

    tool: str
    seconds: int
    inner: tuple["Node", ...] = ()

    def calls(self) -> list["Node"]:
        return [self, *(call for node in self.inner for call in node.calls())]

    def request(self) -> ToolCallRequest:
        return request(self.tool, seconds=self.seconds, inner=[node.json() for node in self.inner])

    def json(self) -> dict[str, Any]:
        return {
            "tool": self.tool,
            "seconds": self.seconds,
            "inner": [node.json() for node in self.inner],
        }

    @classmethod
    def of(cls, value: dict[str, Any]) -> "Node":
        return cls(value["tool"], value["seconds"], tuple(cls.of(one) for one in value["inner"]))


@dataclass(frozen=True)
class Load:
    """A batch that begins after `delay` seconds, and is cancelled `patience` seconds later, if ever."""

    nodes: tuple[Node, ...]
    delay: int
    patience: float | None = None


@dataclass
class CappedTools(Lab):
    """Tools of which some have a cap, and how many of their calls work at once."""

    caps: dict[str, int] = field(default_factory=dict)
    working: Counter[str] = field(default_factory=Counter)
    over: list[str] = field(default_factory=list)
    answered: int = 0
    own: AsyncAIClient | None = None

    def __post_init__(self) -> None:
        for name in TOOLS:
            self.tools.add(self.tool(name), name=name, max_concurrency=self.caps.get(name))

    def tool(self, name: str) -> Any:
        async def work(seconds: int, inner: list[dict[str, Any]]) -> None:
            with self.noted(name):
                self.working[name] += 1
                if self.working[name] > self.caps.get(name, 1000):
                    self.over.append(name)
                try:
                    await anyio.sleep(seconds)
                finally:
                    self.working[name] -= 1
                if inner:
                    assert self.own is not None
                    await self.own.run_tool_calls([Node.of(one).request() for one in inner])

        return work

    async def send(self, load: Load) -> None:
        assert self.own is not None
        await anyio.sleep(load.delay)
        with anyio.CancelScope() as scope:
            if load.patience is not None:
                scope.deadline = anyio.current_time() + load.patience
            outcomes = await self.own.run_tool_calls([node.request() for node in load.nodes])
            self.answered += len(outcomes)


nodes = st.recursive(
    st.builds(Node, st.sampled_from(TOOLS), st.integers(0, 4)),
    lambda inner: st.builds(
        Node, st.sampled_from(TOOLS), st.integers(0, 4), st.lists(inner, max_size=3).map(tuple)
    ),
    max_leaves=6,
)
flat = st.builds(Node, st.sampled_from(TOOLS), st.integers(1, 4))
caps = st.dictionaries(st.sampled_from(TOOLS[:3]), st.integers(1, 3))


def loads(of: st.SearchStrategy[Node], patience: st.SearchStrategy[float | None]) -> Any:
    batch = st.lists(of, min_size=1, max_size=6).map(tuple)
    return st.lists(st.builds(Load, batch, st.integers(0, 3), patience), min_size=1, max_size=4)


async def run(caps: dict[str, int], limit: int, loads: list[Load]) -> tuple[CappedTools, float]:
    tools = CappedTools(caps=caps)
    async with tools.client(max_concurrency=limit) as tools.own:
        async with anyio.create_task_group() as group:
            for load in loads:
                group.start_soon(tools.send, load)
        assert_idle(tools.own)
        assert [cap for cap in tools.own.stats().caps if cap.free != cap.limit] == []
        return tools, anyio.current_time()


@pytest.mark.clause("C43", "C49")
@given(caps=caps, limit=st.integers(1, 5), loads=loads(nodes, st.none()))
def test_nested_calls_under_caps_all_get_their_answers_and_never_exceed_one(
    caps: dict[str, int], limit: int, loads: list[Load]
) -> None:
    serial = max(load.delay for load in loads) + sum(
        call.seconds for load in loads for node in load.nodes for call in node.calls()
    )
    for tools, ended in run_on_both(run, caps, limit, loads):
        assert tools.over == []
        assert tools.answered == sum(len(load.nodes) for load in loads)
        assert ended <= serial
    event(f"depth {max(len(node.calls()) for load in loads for node in load.nodes) > 1}")


@pytest.mark.clause("C43", "C49")
@given(
    caps=caps,
    limit=st.integers(1, 5),
    loads=loads(nodes, st.none() | st.floats(0, 8).map(lambda seconds: round(seconds, 2))),
)
def test_cancelled_batches_give_every_permit_back(
    caps: dict[str, int], limit: int, loads: list[Load]
) -> None:
    for tools, _ in run_on_both(run, caps, limit, loads):
        assert tools.over == []


@pytest.mark.clause("C43", "C48")
@given(caps=caps, limit=st.integers(1, 5), loads=loads(flat, st.none()))
def test_no_call_waits_while_its_cap_and_a_slot_are_free(
    caps: dict[str, int], limit: int, loads: list[Load]
) -> None:
    for tools, _ in run_on_both(run, caps, limit, [replace(load, delay=0) for load in loads]):
        wanted = Counter(node.tool for load in loads for node in load.nodes)
        live: Counter[str] = Counter()
        events = sorted(tools.events)  # ends come before starts of the same moment
        for number, (time, kind, name) in enumerate(events):
            live[name] += 1 if kind == "start" else -1
            wanted[name] -= kind == "start"
            assert live[name] <= caps.get(name, limit)
            assert live.total() <= limit
            if number + 1 < len(events) and events[number + 1][0] > time and live.total() < limit:
                idle = [one for one in TOOLS if wanted[one] and live[one] < caps.get(one, limit)]
                assert idle == [], f"at {time}"


@pytest.mark.clause("C48")
@given(cap=st.integers(1, 3), limit=st.integers(1, 5), others=st.integers(1, 4), width=st.integers(2, 12))
def test_a_call_waits_for_at_most_one_call_of_each_other_batch(
    cap: int, limit: int, others: int, width: int
) -> None:
    long = [Load((Node("a", 1),) * width, 0) for _ in range(others)]
    mixed = [Load((Node("d", 1),) * width, 0)]
    single = Load((Node("a", 1), Node("b", 0)), 1)
    for tools, _ in run_on_both(run, {"a": cap, "b": 1}, limit, [*long, *mixed, single]):
        began = next(time for time, kind, name in tools.events if (kind, name) == ("start", "b"))
        # Each of its two calls waits for one of each other batch, and this one follows the other.
        assert began <= 1 + (others + 1) + 1 + (others + 1)
