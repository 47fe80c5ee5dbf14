"""Scripted tools, and their graphs and fault plans as values."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from hypothesis import given

from seqoria_runtime import AsyncAIClient
from seqoria_runtime.models import ToolCallResult
from seqoria_runtime.testing import RecordedToolbox, ScriptedProvider, record_batch, tools
from seqoria_runtime.testing.strategies import behaviours, tool_dags
from seqoria_runtime.testing.tools import (
    Behaviour,
    FaultPlan,
    ScriptedTool,
    ToolDag,
    blocks_thread,
    fails,
    hangs,
    ignores_cancel,
    returns,
    sleeps,
)

Seen = list[tuple[float, str]]


async def run(dag: ToolDag, *, faults: FaultPlan | None = None, times: int = 1, **options: Any) -> Seen:
    """The times and outcomes of all calls, in the order of completion."""
    recorded = RecordedToolbox(dag.toolbox(), faults=faults)
    client = AsyncAIClient([ScriptedProvider([])], local_toolbox=recorded, **options)
    async with client:
        await record_batch(client, recorded, dag.calls(times))
        seen = [
            (moment.time, outcome.result if isinstance(outcome, ToolCallResult) else f"[{outcome.kind}]")
            for call in recorded.trace(client).calls
            for moment, outcome in call.settled
        ]
        await anyio.sleep(100)
        assert client.stats().free_slots == client.stats().max_concurrency
    return sorted(seen)


def one(behaviour: Behaviour) -> ToolDag:
    return ToolDag(ScriptedTool("tool", behaviour))


@pytest.mark.clause("C120")
@pytest.mark.parametrize(
    ("behaviour", "time", "outcome"),
    [
        (sleeps(2), 2, "tool 1"),
        (fails(ValueError("no")), 0, "[failed]"),
        (hangs(), 3, "[timed_out]"),
        (ignores_cancel(2), 2, "tool 1"),
        (ignores_cancel(5), 5, "[timed_out]"),
        (blocks_thread(2), 2, "tool 1"),
        (blocks_thread(5), 3, "[timed_out]"),
        (returns("well"), 0, "well"),
        (sleeps(1).then(fails(ValueError("no"))), 1, "[failed]"),
        (sleeps(1).then(returns(7)).then(sleeps(1)), 2, "7"),
        (blocks_thread(1).then(sleeps(1)).then(returns("late")), 2, "late"),
        (blocks_thread(1).then(fails(ValueError("no"))), 1, "[failed]"),
    ],
    ids=repr,
)
async def test_a_tool_does_as_it_is_told(behaviour: Behaviour, time: float, outcome: str) -> None:
    assert await run(one(behaviour), tool_timeout=3) == [(time, outcome)]


async def test_calls_of_one_tool_give_different_texts() -> None:
    assert [text for _, text in await run(one(sleeps(1)), times=3)] == ["tool 1", "tool 2", "tool 3"]


async def test_a_blocked_thread_keeps_its_slot_for_its_virtual_time() -> None:
    dag = ToolDag(ScriptedTool("blocked", blocks_thread(5), timeout=1), ScriptedTool("next", sleeps(1)))
    assert await run(dag, max_concurrency=1) == [(1, "[timed_out]"), (6, "next 1")]


def test_a_thread_that_never_ends_is_refused() -> None:
    with pytest.raises(ValueError, match="a thread cannot hang"):
        blocks_thread(1).then(hangs())


@pytest.mark.parametrize("make", [sleeps, ignores_cancel, blocks_thread])
@pytest.mark.parametrize("seconds", [-1, float("nan"), "1"])
def test_a_time_has_to_be_a_time(make: Callable[[Any], Behaviour], seconds: Any) -> None:
    with pytest.raises(ValueError, match="'seconds' must be"):
        make(seconds)


def test_what_is_no_behaviour_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="a tool fails with an exception, not with 'no'"):
        fails("no")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"goes on with a behaviour, such as sleeps\(1\), not 1"):
        sleeps(1).then(1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the behaviour of 'a' must be one"):
        ScriptedTool("a", 1)  # type: ignore[arg-type]


async def test_a_graph_runs_in_its_order() -> None:
    dag = ToolDag(
        ScriptedTool("top", sleeps(1)),
        ScriptedTool("left", sleeps(2), after=["top"]),
        ScriptedTool("right", fails(ValueError("no")), after=["top"]),
        ScriptedTool("bottom", sleeps(1), after=["left", "right"]),
    )
    assert await run(dag) == [(1, "[failed]"), (1, "top 1"), (3, "[skipped]"), (3, "left 1")]


def test_a_graph_needs_different_names() -> None:
    with pytest.raises(ValueError, match="different names"):
        ToolDag(ScriptedTool("a", hangs()), ScriptedTool("a", hangs()))


@pytest.mark.clause("C120")
@given(tool_dags(timeouts=True, cycles=True))
def test_a_graph_prints_as_the_program_that_makes_it(dag: ToolDag) -> None:
    assert eval(repr(dag), vars(tools)) == dag


@given(behaviours())
def test_a_behaviour_prints_as_the_program_that_makes_it(behaviour: Behaviour) -> None:
    assert repr(eval(repr(behaviour), vars(tools))) == repr(behaviour)


@pytest.mark.clause("C120")
async def test_a_fault_takes_the_place_of_the_call_with_its_number() -> None:
    faults = FaultPlan({("tool", 2): sleeps(5), ("tool", 3): fails(OSError("down"))})
    assert await run(one(sleeps(1)), faults=faults, times=3, max_concurrency=1) == [
        (1, "tool 1"),
        (6, "[failed]"),
        (6, "tool 2"),
    ]


async def test_faults_of_a_blocking_tool_may_block_or_not() -> None:
    faults = FaultPlan({("tool", 1): blocks_thread(3), ("tool", 2): sleeps(2)})
    assert await run(one(blocks_thread(1)), faults=faults, times=3) == [
        (1, "tool 1"),
        (2, "tool 2"),
        (3, "tool 1"),
    ]


def test_a_plan_that_cannot_be_is_refused() -> None:
    box = one(sleeps(1)).toolbox()
    with pytest.raises(ValueError, match="names a tool 'toll' that the toolbox does not have"):
        RecordedToolbox(box, faults=FaultPlan({("toll", 1): hangs()}))
    with pytest.raises(ValueError, match="'tool' is asynchronous: it has no thread to block"):
        RecordedToolbox(box, faults=FaultPlan({("tool", 1): blocks_thread(1)}))
    with pytest.raises(ValueError, match="'call number of tool' must be a positive integer, not 0"):
        FaultPlan({("tool", 0): hangs()})
    with pytest.raises(TypeError, match="the fault of 'tool' must be a behaviour"):
        FaultPlan({("tool", 1): ValueError("no")})  # type: ignore[dict-item]
