import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from seqoria_runtime._execution.batches.planner import GraphNode, Planner, SkippedCall


def call(*names: str, after: Sequence[str] = ()) -> GraphNode:
    return GraphNode(names, frozenset(after))


def take_all(planner: Planner) -> list[int]:
    taken = []
    while (position := planner.take()) is not None:
        taken.append(position)
    return taken


def test_calls_without_dependencies_are_all_ready_in_the_order_of_the_calls() -> None:
    planner = Planner([call("c"), call("a"), call("b")])
    assert planner.ready == 3
    assert take_all(planner) == [0, 1, 2]
    assert planner.ready == 0


def test_an_empty_batch_has_nothing_ready() -> None:
    planner = Planner([])
    assert (planner.ready, planner.take(), planner.cyclic) == (0, None, frozenset())


@pytest.mark.clause("C45")
def test_a_call_is_ready_once_every_requested_call_of_the_name_has_settled() -> None:
    planner = Planner([call("read"), call("read"), call("write", after=["read"])])
    assert take_all(planner) == [0, 1]
    assert planner.settle(1, ok=True) == []
    assert planner.ready == 0
    assert planner.settle(0, ok=True) == []
    assert take_all(planner) == [2]


@pytest.mark.clause("C45")
def test_a_name_that_was_not_requested_is_not_waited_for() -> None:
    planner = Planner([call("write", after=["login"]), call("read", after=["write", "login"])])
    assert take_all(planner) == [0]
    planner.settle(0, ok=True)
    assert take_all(planner) == [1]


@pytest.mark.clause("C45")
def test_a_call_does_not_wait_for_an_unrelated_call_of_the_same_depth() -> None:
    planner = Planner([call("fast"), call("slow"), call("after_fast", after=["fast"])])
    assert take_all(planner) == [0, 1]
    planner.settle(0, ok=True)
    assert take_all(planner) == [2]


@pytest.mark.clause("C45")
def test_a_dependency_covers_every_name_that_a_call_is_known_by() -> None:
    planner = Planner([call("auth__12345678", "auth"), call("auth"), call("pay", after=["auth"])])
    assert take_all(planner) == [0, 1]
    planner.settle(1, ok=True)
    assert planner.ready == 0
    planner.settle(0, ok=True)
    assert take_all(planner) == [2]


@pytest.mark.clause("C46")
def test_one_success_among_the_calls_of_a_name_lets_its_dependents_run() -> None:
    planner = Planner([call("read"), call("read"), call("write", after=["read"])])
    take_all(planner)
    assert planner.settle(0, ok=True) == []
    assert planner.settle(1, ok=False) == []
    assert take_all(planner) == [2]


@pytest.mark.clause("C46")
def test_a_name_all_of_whose_calls_failed_skips_its_dependents_and_theirs() -> None:
    planner = Planner([
        call("a"),
        call("a"),
        call("b", after=["a"]),
        call("c", after=["b"]),
        call("free"),
        call("d", after=["c"]),
    ])
    assert set(take_all(planner)) == {0, 1, 4}
    assert planner.settle(0, ok=False) == []
    assert planner.settle(1, ok=False) == [
        SkippedCall(2, ("a",)),
        SkippedCall(3, ("b",)),
        SkippedCall(5, ("c",)),
    ]
    assert planner.ready == 0


@pytest.mark.clause("C46")
def test_a_skip_names_every_failed_name_in_order_once_all_have_settled() -> None:
    planner = Planner([call("z"), call("m"), call("a"), call("end", after=["z", "m", "a"])])
    take_all(planner)
    assert planner.settle(0, ok=False) == []
    assert planner.settle(1, ok=True) == []
    assert planner.settle(2, ok=False) == [SkippedCall(3, ("a", "z"))]


@pytest.mark.clause("C47")
def test_only_calls_on_or_behind_a_cycle_are_cyclic() -> None:
    planner = Planner([
        call("before"),
        call("a", after=["b", "before"]),
        call("b", after=["a"]),
        call("behind", after=["a"]),
        call("further", after=["behind", "before"]),
        call("beside", after=["before"]),
    ])
    assert planner.cyclic == {1, 2, 3, 4}
    assert take_all(planner) == [0]
    assert planner.settle(0, ok=True) == []
    assert take_all(planner) == [5]


@pytest.mark.clause("C47")
def test_a_tool_that_depends_on_itself_is_cyclic() -> None:
    planner = Planner([call("a", after=["a"]), call("b")])
    assert planner.cyclic == {0}
    assert take_all(planner) == [1]


@pytest.mark.clause("C48")
def test_the_ready_call_with_the_longest_chain_of_dependents_goes_first() -> None:
    planner = Planner([
        call("alone"),
        call("short"),
        call("long"),
        call("s1", after=["short"]),
        call("l1", after=["long"]),
        call("l2", after=["l1"]),
        call("alone"),
    ])
    assert take_all(planner) == [2, 1, 0, 6]
    planner.settle(1, ok=True)
    planner.settle(2, ok=True)
    assert take_all(planner) == [4, 3]


@pytest.mark.clause("C48")
@pytest.mark.parametrize("dependents", ["leaf branch end", "branch leaf end", "end leaf branch"])
def test_of_several_chains_behind_a_call_the_longest_counts(dependents: str) -> None:
    after = {"leaf": ["root"], "branch": ["root"], "end": ["branch"]}
    planner = Planner([
        call("other"),
        call("root"),
        call("behind_other", after=["other"]),
        *(call(name, after=after[name]) for name in dependents.split()),
    ])
    assert planner.take() == 1


@pytest.mark.clause("C55")
def test_a_call_that_was_refused_while_it_waited_is_neither_taken_nor_skipped_later() -> None:
    planner = Planner([call("a"), call("b", after=["a"]), call("c", after=["b"])])
    assert planner.refuse([1]) == [SkippedCall(2, ("b",))]
    assert take_all(planner) == [0]
    assert planner.settle(0, ok=False) == []
    assert take_all(planner) == []


def test_a_call_that_was_refused_while_it_was_ready_is_not_taken() -> None:
    planner = Planner([call("a"), call("b")])
    assert planner.refuse([0]) == []
    assert planner.ready == 1
    assert take_all(planner) == [1]


@pytest.mark.clause("C46", "C55")
def test_calls_that_are_refused_together_are_not_skipped_because_of_each_other() -> None:
    planner = Planner([call("a"), call("b", after=["a"]), call("c", after=["b"]), call("d", after=["c"])])
    assert planner.refuse([0, 1, 3]) == [SkippedCall(2, ("b",))]
    assert take_all(planner) == []


@pytest.mark.clause("C47", "C55")
def test_refusing_a_call_on_a_cycle_changes_nothing() -> None:
    planner = Planner([call("a", after=["b"]), call("b", after=["a"]), call("free")])
    assert planner.refuse([0]) == []
    assert take_all(planner) == [2]


def test_settling_a_call_twice_is_an_error_that_names_it() -> None:
    planner = Planner([call("a"), call("b", after=["a"])])
    planner.settle(0, ok=False)
    for settled in (0, 1):
        with pytest.raises(ValueError, match=str(settled)):
            planner.settle(settled, ok=True)


def test_a_long_chain_needs_no_deep_stack() -> None:
    length = 20 * sys.getrecursionlimit()
    planner = Planner([call("0"), *(call(str(n), after=[str(n - 1)]) for n in range(1, length))])
    assert planner.take() == 0
    assert [skip.call for skip in planner.settle(0, ok=False)] == list(range(1, length))


def lines_run(function: Callable[[], object]) -> int:
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(previous)
    return count


def test_a_fan_in_of_n_calls_on_n_calls_takes_steps_in_proportion_to_n_and_not_to_its_square() -> None:
    def run(count: int) -> None:
        planner = Planner([
            *[call("first")] * count,
            *[call("second", after=["first"])] * count,
            call("x", after=["second"]),
        ])
        for ok in (True, False):
            for position in take_all(planner):
                planner.settle(position, ok=ok)

    steps = [lines_run(lambda count=count: run(count)) for count in (125, 250, 500, 1000)]  # type: ignore[misc]
    for fewer, more in pairwise(steps):
        assert more <= 2.1 * fewer


class Oracle:
    """The rules of order as the contract words them, by brute force over pairs of calls."""

    def __init__(self, calls: Sequence[GraphNode]) -> None:
        self.calls = calls
        self.ended: dict[int, bool] = {}
        self.taken: set[int] = set()
        self.cyclic = self._cyclic()
        self.height = {position: self._longest_chain(position) for position in self.every - self.cyclic}

    @property
    def every(self) -> set[int]:
        return set(range(len(self.calls)))

    def of_name(self, name: str) -> list[int]:
        return [position for position in sorted(self.every) if name in self.calls[position].names]

    def prerequisites(self, position: int) -> set[int]:
        return {other for name in self.calls[position].depends_on for other in self.of_name(name)}

    def _cyclic(self) -> frozenset[int]:
        runnable: set[int] = set()
        while more := {p for p in self.every - runnable if self.prerequisites(p) <= runnable}:
            runnable |= more
        return frozenset(self.every - runnable)

    def _longest_chain(self, position: int) -> int:
        behind = [other for other in self.every - self.cyclic if position in self.prerequisites(other)]
        return max((1 + self._longest_chain(other) for other in behind), default=0)

    def unsettled(self) -> set[int]:
        return self.every - self.cyclic - self.ended.keys()

    def failed_names(self, position: int) -> tuple[str, ...]:
        requested = [name for name in self.calls[position].depends_on if self.of_name(name)]
        return tuple(sorted(name for name in requested if not any(self.ended[p] for p in self.of_name(name))))

    def unblocked(self) -> set[int]:
        return {p for p in self.unsettled() - self.taken if self.prerequisites(p) <= self.ended.keys()}

    def ready(self) -> set[int]:
        return {position for position in self.unblocked() if not self.failed_names(position)}

    def settle(self, positions: Iterable[int], ok: bool) -> set[SkippedCall]:
        self.ended |= dict.fromkeys(self.unsettled().intersection(positions), ok)
        skipped = set()
        while due := {p for p in self.unblocked() if self.failed_names(p)}:
            skipped |= {SkippedCall(p, self.failed_names(p)) for p in due}
            self.ended |= dict.fromkeys(due, False)
        return skipped


NAMES = "abcdef"


@st.composite
def batches(draw: st.DrawFn) -> list[GraphNode]:
    # Dependencies are the tool's, so all calls of one name share them; mostly they point backwards.
    depends_on = {}
    for index, name in enumerate(NAMES):
        backwards = st.sampled_from(["not_requested", *NAMES[:index]])
        anything = st.sampled_from([*NAMES, "not_requested"])
        depends_on[name] = draw(st.frozensets(backwards | backwards | anything, max_size=3))
    aliases = draw(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(NAMES), max_size=2))
    requested = draw(st.lists(st.sampled_from(NAMES), max_size=14))
    return [
        GraphNode((name, aliases[name]) if name in aliases else (name,), depends_on[name])
        for name in requested
    ]


class PlannerMachine(RuleBasedStateMachine):
    """A planner beside the oracle, with calls taken and settled in any order."""

    @initialize(calls=batches())
    def plan(self, calls: list[GraphNode]) -> None:
        self.planner = Planner(calls)
        self.oracle = Oracle(calls)
        assert self.planner.cyclic == self.oracle.cyclic

    @rule()
    def take(self) -> None:
        ready = self.oracle.ready()
        expected = min(ready, key=lambda position: (-self.oracle.height[position], position), default=None)
        assert self.planner.take() == expected
        if expected is not None:
            self.oracle.taken.add(expected)

    @precondition(lambda self: self.oracle.taken - self.oracle.ended.keys())
    @rule(data=st.data(), ok=st.booleans())
    def settle_taken(self, data: st.DataObject, ok: bool) -> None:
        running = sorted(self.oracle.taken - self.oracle.ended.keys())
        self._settle(data.draw(st.sampled_from(running)), ok)

    @precondition(lambda self: self.oracle.unsettled() - self.oracle.taken)
    @rule(data=st.data())
    def refuse_waiting(self, data: st.DataObject) -> None:
        waiting = sorted((self.oracle.unsettled() - self.oracle.taken) | self.oracle.cyclic)
        refused = data.draw(st.lists(st.sampled_from(waiting), min_size=1, unique=True))
        self._check(refused, self.planner.refuse(refused), ok=False)

    @precondition(lambda self: self.oracle.ended or self.oracle.cyclic)
    @rule(data=st.data())
    def settle_again(self, data: st.DataObject) -> None:
        settled = sorted(self.oracle.ended.keys() | self.oracle.cyclic)
        with pytest.raises(ValueError, match="settled before"):
            self.planner.settle(data.draw(st.sampled_from(settled)), ok=True)

    def _settle(self, position: int, ok: bool) -> None:
        self._check([position], self.planner.settle(position, ok=ok), ok)

    def _check(self, ended: Sequence[int], skipped: Sequence[SkippedCall], ok: bool) -> None:
        assert set(skipped) == self.oracle.settle(ended, ok)
        assert len(skipped) == len(set(skipped))
        told = set(ended)
        for skip in skipped:
            assert told & self.oracle.prerequisites(skip.call), "a skip is told after its cause"
            told.add(skip.call)

    @invariant()
    def counts_what_is_ready(self) -> None:
        assert self.planner.ready == len(self.oracle.ready())

    def teardown(self) -> None:
        if not hasattr(self, "planner"):
            return
        while self.oracle.unsettled():
            self.take()
            for position in sorted(self.oracle.taken - self.oracle.ended.keys()):
                self._settle(position, ok=position % 3 > 0)
        assert self.planner.take() is None


TestPlannerBesideTheOracle = pytest.mark.clause("C45", "C46", "C47", "C48")(PlannerMachine.TestCase)
