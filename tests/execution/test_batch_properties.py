"""Random graphs of timed calls, in virtual time on both backends, held against bounds and a simulation."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, TypeAlias

import anyio
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from seqoria_runtime.models import ToolCallError, ToolCallOutcome, ToolCallRequest, ToolCallResult
from seqoria_runtime.testing import run_on_both
from tests.support.batches import Lab, assert_idle, request, results

NAMES = "abcdef"

Trace: TypeAlias = list[tuple[float, str, str]]


@dataclass(frozen=True)
class Call:
    """A call of a tool; it takes `seconds`, or never begins where `valid` is false, and fails unless `ok`."""

    name: str
    seconds: int
    ok: bool = True
    valid: bool = True


@dataclass(frozen=True)
class Batch:
    """Tools with what they depend on and their timeouts, and the calls of them."""

    depends_on: dict[str, frozenset[str]]
    timeouts: dict[str, int]
    calls: tuple[Call, ...]

    def prerequisites(self, call: int) -> list[int]:
        names = self.depends_on[self.calls[call].name]
        return [other for other, one in enumerate(self.calls) if one.name in names]

    def duration(self, call: int) -> int:
        one = self.calls[call]
        return min(one.seconds, self.timeouts.get(one.name, one.seconds))

    def succeeds(self, call: int) -> bool:
        one = self.calls[call]
        return one.ok and one.valid and one.seconds < self.timeouts.get(one.name, one.seconds + 1)


@st.composite
def batches(draw: st.DrawFn, *, failing: bool = True, longest: int = 40) -> Batch:
    depends_on = {
        name: draw(st.frozensets(st.sampled_from([*NAMES[:index], "not requested"]), max_size=2))
        for index, name in enumerate(NAMES)
    }
    timeouts = draw(st.dictionaries(st.sampled_from(NAMES), st.integers(1, longest), max_size=2))
    flags = st.sampled_from([True, True, True, False]) if failing else st.just(True)
    calls = draw(
        st.lists(
            st.builds(Call, st.sampled_from(NAMES), st.integers(0, longest), flags, flags),
            min_size=1,
            max_size=12,
        )
    )
    return Batch(depends_on, timeouts if failing else {}, tuple(calls))


async def run(batch: Batch, limit: int) -> tuple[list[ToolCallOutcome], Trace, list[tuple[float, int]], int]:
    """Run a batch; give the outcomes, the trace of the tools, when each call settled, and the peak."""
    lab = Lab()
    for name, depends_on in batch.depends_on.items():
        timeout = batch.timeouts.get(name)
        lab.add(name, depends_on=depends_on, timeout=None if timeout is None else float(timeout))
    requests = [
        ToolCallRequest(
            id="same",
            name=call.name,
            arguments={"seconds": float(call.seconds), "tag": str(place), "ok": call.ok}
            if call.valid
            else {"nonsense": 1},
        )
        for place, call in enumerate(batch.calls)
    ]
    places = {id(request): place for place, request in enumerate(requests)}
    settled: list[tuple[float, int]] = []
    outcomes: dict[int, ToolCallOutcome] = {}
    async with lab.client(max_concurrency=limit) as client:
        async with client.run_call_stream(requests) as stream:
            async for request, outcome in stream:
                place = places[id(request)]
                assert place not in outcomes, "a call has two outcomes"
                outcomes[place] = outcome
                settled.append((anyio.current_time(), place))
        stats = client.stats()
        assert (stats.running, stats.waiting, stats.free_slots) == ({}, {}, limit)
    return [outcomes[place] for place in range(len(requests))], lab.events, settled, lab.peak


def kinds(outcomes: list[ToolCallOutcome]) -> list[str]:
    return [outcome.kind if isinstance(outcome, ToolCallError) else "ok" for outcome in outcomes]


def expected_kinds(batch: Batch) -> list[str]:
    """What each call comes to, which does not depend on the limit."""
    got: dict[int, str] = {}
    for call in sorted(range(len(batch.calls)), key=lambda call: NAMES.index(batch.calls[call].name)):
        one = batch.calls[call]
        before = batch.prerequisites(call)
        by_name = {batch.calls[other].name for other in before}
        succeeded = {batch.calls[other].name for other in before if got[other] == "ok"}
        if not one.valid:
            got[call] = "invalid_arguments"
        elif by_name - succeeded:
            got[call] = "skipped"
        elif batch.succeeds(call):
            got[call] = "ok"
        else:
            got[call] = (
                "failed" if one.seconds < batch.timeouts.get(one.name, one.seconds + 1) else "timed_out"
            )
    return [got[call] for call in range(len(batch.calls))]


def starts(trace: Trace) -> dict[int, float]:
    return {int(tag): time for time, kind, tag in trace if kind == "start"}


def critical_path(batch: Batch, ran: set[int]) -> float:
    """The longest chain of durations, where every call that ran waits for all its prerequisites."""
    ends: dict[int, float] = {}
    for call in sorted(range(len(batch.calls)), key=lambda call: NAMES.index(batch.calls[call].name)):
        begin = max((ends[other] for other in batch.prerequisites(call)), default=0)
        ends[call] = begin + batch.duration(call) if call in ran else begin if batch.calls[call].valid else 0
    return max(ends.values())


def check(batch: Batch, limit: int) -> Iterator[Trace]:
    """Run on both backends, hold each against the rules, and give the traces."""
    for outcomes, trace, settled, peak in run_on_both(run, batch, limit):
        assert kinds(outcomes) == expected_kinds(batch)
        for call, outcome in zip(batch.calls, outcomes, strict=True):
            assert (outcome.tool_call_id, outcome.name) == ("same", call.name)
        results = [(place, outcome) for place, outcome in enumerate(outcomes)]
        assert all(one.result == str(place) for place, one in results if isinstance(one, ToolCallResult))
        assert Counter(tag for _, kind, tag in trace if kind == "start") == Counter(
            str(place) for place, kind in enumerate(kinds(outcomes)) if kind in {"ok", "failed", "timed_out"}
        )
        assert peak <= limit
        check_order(batch, starts(trace), {place: time for time, place in settled}, limit)
        check_makespan(batch, starts(trace), settled, limit)
        yield trace


def check_order(batch: Batch, started: dict[int, float], settled: dict[int, float], limit: int) -> None:
    for call, start in started.items():
        due = max((settled[other] for other in batch.prerequisites(call)), default=0)
        assert start >= due
        if limit >= len(batch.calls):
            assert start == due, "a call waited though there was a slot"


def check_makespan(
    batch: Batch, started: dict[int, float], settled: list[tuple[float, int]], limit: int
) -> None:
    makespan = max(time for time, _ in settled)
    work = sum(batch.duration(call) for call in started)
    longest = critical_path(batch, set(started))
    assert makespan >= max(longest, work / limit)
    if limit >= len(batch.calls):
        assert makespan == longest
    else:
        assert makespan <= work / limit + longest * (1 - 1 / limit), "Graham's bound for no idle slot"


@pytest.mark.clause("C40", "C42", "C43", "C44", "C45", "C46", "C50", "C55")
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(batches(), st.integers(1, 13))
def test_any_graph_of_calls_keeps_the_order_the_limit_and_the_bounds(batch: Batch, limit: int) -> None:
    traces = list(check(batch, limit))
    event("with free slots" if limit >= len(batch.calls) else "capped")
    if limit >= len(batch.calls):
        moments = [[(time, sorted(group)) for time, group in groupby(one, lambda e: e[0])] for one in traces]
        assert moments[0] == moments[1]


@pytest.mark.clause("C48")
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(batches(failing=False, longest=10**9), st.integers(1, 4))
def test_where_no_two_things_happen_at_once_both_backends_do_the_same_as_a_simulation(
    batch: Batch, limit: int
) -> None:
    expected = simulate(batch, limit)
    ends = [time for time, kind, _ in expected if kind == "end"]
    assume(len(set(ends)) == len(ends) and 0 not in ends)
    for trace in check(batch, limit):
        assert [(time, tag) for time, kind, tag in trace if kind == "start"] == [
            (time, tag) for time, kind, tag in expected if kind == "start"
        ]
        assert sorted(trace) == sorted(expected)


def simulate(batch: Batch, limit: int) -> Trace:
    """List scheduling by the longest chain of dependents, ties by position; for batches that do not fail."""
    count = len(batch.calls)
    heights: dict[int, int] = {}
    for call in sorted(range(count), key=lambda call: -NAMES.index(batch.calls[call].name)):
        behind = [heights[other] for other in range(count) if call in batch.prerequisites(other)]
        heights[call] = max(behind, default=-1) + 1
    now, ended, running, waiting = 0.0, set[int](), dict[int, float](), set(range(count))
    trace: Trace = []
    while waiting or running:
        ready = [call for call in waiting if ended.issuperset(batch.prerequisites(call))]
        for call in sorted(ready, key=lambda call: (-heights[call], call))[: limit - len(running)]:
            waiting.remove(call)
            running[call] = now + batch.calls[call].seconds
            trace.append((now, "start", str(call)))
        first = min(running, key=lambda call: running[call])
        now = running.pop(first)
        ended.add(first)
        trace.append((now, "end", str(first)))
    return trace


@dataclass(frozen=True)
class Arrival:
    """A batch of independent calls of these durations that comes at a moment."""

    at: int
    seconds: tuple[int, ...]


async def run_arrivals(arrivals: list[Arrival], limit: int) -> Trace:
    lab = Lab()
    lab.add("work")

    async def come(number: int, arrival: Arrival) -> None:
        await anyio.sleep(arrival.at)
        requests = [
            request("work", seconds=float(seconds), tag=f"{number} {place}")
            for place, seconds in enumerate(arrival.seconds)
        ]
        outcomes = await client.run_tool_calls(requests)
        assert kinds(outcomes) == ["ok"] * len(requests)

    async with lab.client(max_concurrency=limit) as client:
        async with anyio.create_task_group() as group:
            for number, arrival in enumerate(arrivals):
                group.start_soon(come, number, arrival)
        assert_idle(client)
    assert lab.peak <= limit
    return lab.events


@pytest.mark.clause("C43", "C48")
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(
    st.lists(
        st.builds(
            Arrival,
            st.integers(0, 10**6),
            st.lists(st.integers(1, 10**6), min_size=1, max_size=6).map(tuple),
        ),
        min_size=2,
        max_size=6,
    ),
    st.integers(1, 3),
)
def test_batches_that_come_at_any_time_leave_no_slot_idle_and_wait_once_for_each_other(
    arrivals: list[Arrival], limit: int
) -> None:
    for trace in run_on_both(run_arrivals, arrivals, limit):
        started = {tag: time for time, kind, tag in trace if kind == "start"}
        ended = {tag: time for time, kind, tag in trace if kind == "end"}
        moments = [*{float(arrival.at) for arrival in arrivals}, *ended.values()]
        assume(len(set(moments)) == len(moments) == len(arrivals) + len(ended))
        for number, arrival in enumerate(arrivals):
            mine = {tag: time for tag, time in started.items() if tag.split()[0] == str(number)}
            for moment in moments:
                if arrival.at <= moment < max(mine.values()):
                    busy = sum(started[tag] <= moment < ended[tag] for tag in started)
                    assert busy == limit, "a call waited beside a free slot"
            first = min(mine.values())
            overtaking = Counter(
                tag.split()[0]
                for tag, time in started.items()
                if arrival.at < time < first and tag not in mine
            )
            assert max(overtaking.values(), default=0) <= 1, "a batch without a slot was overtaken twice"


@dataclass(frozen=True)
class Node:
    """A call that works for some seconds, and then runs others in one batch."""

    seconds: int
    children: tuple["Node", ...] = ()

    @property
    def size(self) -> int:
        return 1 + sum(child.size for child in self.children)


nodes = st.recursive(
    st.builds(Node, st.integers(0, 9)),
    lambda inner: st.builds(Node, st.integers(0, 9), st.lists(inner, max_size=4).map(tuple)),
    max_leaves=12,
)


async def run_nested(roots: list[Node], limit: int, timeout: float | None) -> list[str]:
    lab = Lab()

    @lab.tools.tool()
    async def node(seconds: int, children: list[dict[str, Any]]) -> str:
        with lab.noted("node"):
            await anyio.sleep(seconds)
        outcomes = await client.run_tool_calls([request("node", **child) for child in children])
        return str(1 + sum(int(text) for text in results(outcomes) if text.isdigit()))

    async with lab.client(max_concurrency=limit, tool_timeout=timeout) as client:
        outcomes = await client.run_tool_calls([request("node", **asdict(root)) for root in roots])
        assert_idle(client)
    assert lab.live == 0
    assert lab.peak <= limit
    return results(outcomes)


@pytest.mark.clause("C43", "C49")
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(nodes, min_size=1, max_size=3), st.integers(1, 4))
def test_calls_nested_in_any_shape_all_run_at_any_limit(roots: list[Node], limit: int) -> None:
    for counted in run_on_both(run_nested, roots, limit, None):
        assert counted == [str(root.size) for root in roots]


@pytest.mark.clause("C44", "C49")
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(nodes, min_size=1, max_size=3), st.integers(1, 3), st.integers(1, 20))
def test_nested_calls_that_overrun_leave_nothing_behind(roots: list[Node], limit: int, timeout: int) -> None:
    for counted in run_on_both(run_nested, roots, limit, timeout):
        assert len(counted) == len(roots)
        assert set(counted) <= {"[timed_out]", *map(str, range(100))}
