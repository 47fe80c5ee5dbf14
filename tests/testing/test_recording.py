"""The record of a recorded toolbox, and the error of each rule when it is broken."""

import itertools
import json
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import Annotated, Any

import anyio
import pytest

from seqoria_runtime import HIDDEN, AdaptiveLimit, AsyncAIClient, LocalToolbox
from seqoria_runtime.models import (
    AssistantMessage,
    SystemMessage,
    ToolCallError,
    ToolCallOutcome,
    ToolCallRequest,
    ToolCallResult,
    UserMessage,
)
from seqoria_runtime.testing import (
    InvariantError,
    Moment,
    RecordedToolbox,
    ScriptedProvider,
    Trace,
    TracedBatch,
    TracedCall,
    call,
    calls,
    check_history,
    check_trace,
    invariants,
    record_batch,
    record_turn,
    says,
)
from seqoria_runtime.testing.tools import ScriptedTool, ToolDag, blocks_thread, fails, sleeps
from tests.support.batches import request

DAG = ToolDag(ScriptedTool("first", sleeps(1)), ScriptedTool("second", blocks_thread(2), after=["first"]))


def client_of(tools: RecordedToolbox, *script: Any, **options: Any) -> AsyncAIClient:
    return AsyncAIClient([ScriptedProvider(script)], local_toolbox=tools, system_prompt="", **options)


@pytest.mark.clause("C120")
async def test_a_batch_is_recorded_with_its_times() -> None:
    tools = RecordedToolbox(DAG.toolbox())
    async with client_of(tools) as client:
        outcomes = await record_batch(client, tools, [*DAG.calls(), request("nobody")])
    trace = tools.trace(client)
    first, second, unknown = trace.calls
    assert [asked.name for asked, _ in outcomes] == ["nobody", "first", "second"]
    assert (first.starts[0].time, first.ends[0].time, first.settled[0][0].time) == (0, 1, 1)
    assert (second.starts[0].time, second.ends[0].time, second.settled[0][0].time) == (1, 3, 3)
    assert (unknown.kind, unknown.asked, unknown.starts) == ("unknown_tool", None, ())
    assert (first.returned, second.returned, second.blocking) == ("first 1", "second 1", True)
    assert trace.batches[0].complete
    assert str(trace).splitlines()[-1] == "         3 s  call 'call-2' (second) is answered: second 1"
    check_trace(trace)


async def test_the_tools_are_what_they_were() -> None:
    box = LocalToolbox()
    seen: ContextVar[str] = ContextVar("seen", default="nothing")

    @box.tool(timeout=5)
    def sync(number: int, user: Annotated[str, HIDDEN]) -> list[Any]:
        return [number, user, seen.get()]

    tools = RecordedToolbox(box)
    seen.set("the caller's")
    async with client_of(tools) as client:
        asked = [request("sync", number="7"), request("sync", number="x")]
        context = {"user": "me"}
        (_, refused), (_, done) = await record_batch(client, tools, asked, context=context)
    assert isinstance(done, ToolCallResult)
    assert json.loads(done.result) == [7, "me", "the caller's"]
    assert isinstance(refused, ToolCallError)
    assert refused.kind == "invalid_arguments"
    assert tools.list_tools() == box.list_tools()
    [content] = await tools.call_tool("sync", {"number": 1}, server_args={"user": "you"})
    assert json.loads(content.text) == [1, "you", "the caller's"]


async def test_a_turn_is_recorded_round_by_round() -> None:
    tools = RecordedToolbox(DAG.toolbox())
    history: list[Any] = []
    script = [calls(call("first"), call("second")), calls(call("first")), says("done")]
    async with client_of(tools, *script) as client:
        events = await record_turn(client, tools, "q", history=history)
    trace = tools.trace(client)
    check_trace(trace)
    check_history(history)
    assert isinstance(events[-1], AssistantMessage)
    rounds = [batch.number for batch in trace.batches if batch.complete]
    assert [[one.tool for one in trace.of(number)] for number in rounds] == [["first", "second"], ["first"]]


async def test_a_cancelled_batch_is_incomplete() -> None:
    tools = RecordedToolbox(DAG.toolbox())
    async with client_of(tools) as client:
        with anyio.move_on_after(0.5):
            await record_batch(client, tools, DAG.calls())
    trace = tools.trace(client)
    assert [(one.kind, len(one.starts), len(one.ends)) for one in trace.calls] == [
        ("unsettled", 1, 1),
        ("unsettled", 0, 0),
    ]
    assert not trace.batches[0].complete
    check_trace(trace)


async def test_nested_calls_know_whose_they_are() -> None:
    box = DAG.toolbox()

    @box.tool()
    async def nest() -> str:
        await client.run_tool_calls([request("first")])
        return "nested"

    tools = RecordedToolbox(box)
    client = client_of(tools, max_concurrency=1)
    async with client:
        await record_batch(client, tools, [request("nest")])
    trace = tools.trace(client)
    assert [(one.tool, one.parent, one.batch) for one in trace.calls] == [
        ("nest", None, 0),
        ("first", 0, None),
    ]
    check_trace(trace)


async def test_calls_that_wait_for_their_cap_keep_every_rule() -> None:
    box = LocalToolbox()

    @box.tool(max_concurrency=1)
    async def narrow(seconds: float) -> None:
        await anyio.sleep(seconds)

    @box.tool(max_concurrency=2)
    async def nest() -> None:
        await client.run_tool_calls([request("narrow", seconds=1)] * 2)

    tools = RecordedToolbox(box)
    client = client_of(tools, max_concurrency=5)
    async with client, anyio.create_task_group() as group:
        group.start_soon(record_batch, client, tools, [request("narrow", seconds=2) for _ in range(4)])
        group.start_soon(record_batch, client, tools, [request("nest") for _ in range(3)])
        await anyio.sleep(0.5)
        group.start_soon(record_batch, client, tools, [request("narrow", seconds=1), request("nest")])
    trace = tools.trace(client)
    assert {(one.tool, one.cap_limit) for one in trace.calls} == {("narrow", 1), ("nest", 2)}
    check_trace(trace)


async def test_a_limit_that_changes_counts_as_it_was_at_the_time() -> None:
    box = LocalToolbox()

    @box.tool()
    async def work() -> None:
        await anyio.sleep(0.1 + client.stats().running["work"] / 40)

    tools = RecordedToolbox(box)
    client = client_of(tools, max_concurrency=AdaptiveLimit(1, 16, window=4))
    async with client:
        await record_batch(client, tools, [request("work") for _ in range(200)])
    trace = tools.trace(client)
    limits = [limit for _, limit in trace.limits]
    assert any(later < earlier for earlier, later in itertools.pairwise(limits))
    check_trace(trace)
    at_the_end = replace(trace, limits=())
    with pytest.raises(InvariantError):
        check_trace(at_the_end)


# The rules, on traces that break them


def at(time: float) -> Moment:
    """A moment; later times have later places."""
    return Moment(time, int(time * 1000))


def traced(number: int, start: float, end: float, **changes: Any) -> TracedCall:
    """A call that ran, with its return value as its outcome."""
    asked = ToolCallRequest(id=f"c{number}", name=changes.get("tool", f"t{number}"))
    outcome = ToolCallResult(tool_call_id=asked.id, name=asked.name, result="r")
    plain = TracedCall(
        number=number,
        batch=0,
        tool=asked.name,
        request=asked,
        asked=at(0),
        entered=at(start),
        starts=(at(start),),
        ends=(at(end),),
        returned="r",
        settled=((at(end + 0.01), outcome),),
    )
    return replace(plain, **changes)


def answered(number: int, time: float, kind: Any) -> tuple[tuple[Moment, ToolCallOutcome], ...]:
    return ((at(time), ToolCallError(tool_call_id=f"c{number}", error="e", kind=kind)),)


def trace_of(*calls: TracedCall, limit: int = 2, timeout: float | None = None) -> Trace:
    batches = {one.batch for one in calls if one.batch is not None}
    return Trace(
        calls, tuple(TracedBatch(number, at(0), at(99), True) for number in sorted(batches)), limit, timeout
    )


def nothing_ran(number: int, time: float, kind: Any, **changes: Any) -> TracedCall:
    bare = {"entered": None, "starts": (), "ends": (), "returned": None}
    return traced(number, 0, time, **{**bare, "settled": answered(number, time, kind), **changes})


Rule = Callable[[Trace], None]
BROKEN: list[tuple[Rule, Trace, str]] = [
    (invariants.check_outcomes, trace_of(traced(0, 0, 1, settled=())), "'c0' (t0) has no outcome"),
    (
        invariants.check_outcomes,
        trace_of(traced(0, 0, 1, settled=answered(0, 1, "failed") * 2)),
        "answered a second time at 1 s",
    ),
    (
        invariants.check_outcomes,
        trace_of(traced(0, 0, 1, starts=(at(0), at(0.5)))),
        "run a second time at 0.5 s",
    ),
    (
        invariants.check_outcomes,
        trace_of(traced(0, 0, 1, returned="x")),
        "'r', but its function returned 'x'",
    ),
    (invariants.check_outcomes, trace_of(traced(0, 0, 1, starts=())), "with a result, and never ran"),
    (
        invariants.check_outcomes,
        trace_of(traced(0, 3, 4, settled=answered(0, 4, "skipped"))),
        "ran at 3 s, but was answered as skipped",
    ),
    (
        invariants.check_outcomes,
        trace_of(traced(0, 0, 1, settled=answered(1, 1, "failed"))),
        "answered under the id 'c1'",
    ),
    (invariants.check_ended, trace_of(traced(0, 0, 100)), "still ran when its batch was over, at 99 s"),
    (
        invariants.check_limit,
        trace_of(traced(0, 0, 2), traced(1, 1, 3), limit=1),
        "call 'c1' (t1) started at 1 s as number 2 of the calls that hold one of 1 slots",
    ),
    (
        invariants.check_limit,
        replace(trace_of(traced(0, 0, 2), traced(1, 1, 3)), limits=((0.0, 2), (0.5, 1), (5.0, 2))),
        "call 'c1' (t1) started at 1 s as number 2 of the calls that hold one of 1 slots",
    ),
    (
        invariants.check_caps,
        trace_of(traced(0, 0, 2, cap="a", cap_limit=1), traced(1, 1, 3, cap="a", cap_limit=1)),
        "call 'c1' (t1) started at 1 s as number 2 of the calls under the cap a of 1",
    ),
    (
        invariants.check_prompt_start,
        trace_of(traced(0, 0, 1, cap="a", cap_limit=1), traced(1, 2, 3, cap="a", cap_limit=1)),
        "could have started at 1 s, when 0 of 2 slots were held, but started at 2 s",
    ),
    (
        invariants.check_order,
        trace_of(traced(0, 0, 2), traced(1, 1, 3, depends_on=frozenset({"t0"}))),
        "call 'c1' (t1) started at 1 s, but depends on 't0', and call 'c0' (t0) was over only at 2 s",
    ),
    (
        invariants.check_order,
        trace_of(traced(0, 0, 2, ends=(Moment(2, 9000),)), traced(1, 2, 3, depends_on=frozenset({"t0"}))),
        "before call 'c0' (t0), which it depends on, had ended",
    ),
    (
        invariants.check_skips,
        trace_of(nothing_ran(0, 1, "failed"), traced(1, 1, 2, depends_on=frozenset({"t0"}))),
        "was not skipped, though every call of 't0' failed",
    ),
    (
        invariants.check_skips,
        trace_of(traced(0, 0, 1), nothing_ran(1, 1, "skipped", depends_on=frozenset({"t0"}))),
        "was skipped, though no name that it depends on has failed",
    ),
    (
        invariants.check_skips,
        trace_of(traced(0, 0, 1, depends_on=frozenset({"t0"}))),
        "on or behind a cycle, but was answered with result",
    ),
    (
        invariants.check_skips,
        trace_of(nothing_ran(0, 1, "cyclic_dependency")),
        "neither on nor behind a cycle, but was answered with cyclic_dependency",
    ),
    (
        invariants.check_timeouts,
        trace_of(nothing_ran(0, 5, "timed_out"), timeout=5),
        "timed out at 5 s, and had never had a slot",
    ),
    (
        invariants.check_timeouts,
        trace_of(traced(0, 3, 5, settled=answered(0, 5, "timed_out")), timeout=5),
        "timed out at 5 s: it had its slot at 3 s, and 5 s",
    ),
    (
        invariants.check_timeouts,
        trace_of(traced(0, 1, 3, timeout=2), timeout=5),
        "had its slot at 1 s and ended at 3 s, past its 2 s, but was answered with a result",
    ),
    (
        invariants.check_timeouts,
        trace_of(traced(0, 1, 3, settled=answered(0, 3, "timed_out"))),
        "timed out at 3 s, and has no timeout",
    ),
    (
        invariants.check_completion_order,
        trace_of(traced(0, 0, 1, settled=answered(0, 3, "failed")), traced(1, 0, 2)),
        "call 'c0' (t0) was over at 1 s, but was answered after call 'c1' (t1), which was over at 2 s",
    ),
    (
        invariants.check_isolation,
        trace_of(traced(0, 0, 1), traced(1, 1, 2, saw=0)),
        "call 'c1' (t1) saw the context variables of call 'c0' (t0) at 1 s",
    ),
    (
        invariants.check_prompt_start,
        trace_of(traced(0, 0, 1), traced(1, 3, 4)),
        "could have started at 0 s, when 1 of 2 slots were held, but started at 3 s",
    ),
    (
        invariants.check_makespan,
        trace_of(traced(0, 0, 1), traced(1, 5, 6)),
        "took 6.01 s, more than Graham's bound",
    ),
    (
        invariants.check_fairness,
        trace_of(
            traced(0, 3, 4),
            traced(1, 0, 1, batch=1),
            traced(2, 1, 2, batch=1),
            traced(3, 2, 3, batch=1),
            limit=1,
        ),
        "overtook it at 2 s as the second one of that batch",
    ),
]


@pytest.mark.clause("C120")
@pytest.mark.parametrize(("rule", "trace", "words"), BROKEN, ids=[words for _, _, words in BROKEN])
def test_a_broken_rule_is_told_with_the_call_and_the_time(rule: Rule, trace: Trace, words: str) -> None:
    with pytest.raises(InvariantError) as broken:
        rule(trace)
    assert words in str(broken.value)
    with pytest.raises(InvariantError):
        check_trace(trace)


async def test_a_model_that_is_asked_after_output_is_told() -> None:
    failing = says("a", chunks=1).fails(OSError("down"))
    models = [ScriptedProvider([failing], name="one"), ScriptedProvider([says("b")])]
    for model in models:
        with suppress(OSError):
            assert [event async for event in model.stream(_question())]
    with pytest.raises(InvariantError, match="'scripted' was asked at 0 s what 'one' had been asked"):
        invariants.check_fallback(models)
    invariants.check_fallback(models[1:])


def _question() -> Any:
    from seqoria_runtime.providers import ModelRequest

    return ModelRequest([UserMessage(content="q")])


QUESTION = UserMessage(content="q")
ANSWER = AssistantMessage(content="a")
CALL = ToolCallRequest(id="c", name="t", response_id="r")
RESULT = ToolCallResult(tool_call_id="c", name="t", result="", response_id="r")


@pytest.mark.clause("C120")
@pytest.mark.parametrize(
    ("history", "words"),
    [
        ([QUESTION], "the last user message is unanswered, at message 1"),
        (
            [QUESTION, QUESTION, ANSWER],
            "two user messages in a row, at message 1 of the history: user, >>user<<",
        ),
        ([ANSWER], "AssistantMessage before any user message, at message 0"),
        ([QUESTION, CALL], "the call 'c' of 't' is unanswered, at message 2"),
        ([QUESTION, CALL, CALL, RESULT, RESULT, ANSWER], "the call 'c' of 't' is unanswered, at message 2"),
        ([QUESTION, RESULT, ANSWER], "an outcome without its call, at message 1"),
        ([QUESTION, CALL, RESULT.model_copy(update={"name": "u"})], "does not answer"),
        ([QUESTION, CALL, RESULT.model_copy(update={"tool_call_id": "d"})], "does not answer"),
        ([QUESTION, CALL, RESULT.model_copy(update={"response_id": "s"})], "does not answer"),
        ([QUESTION, ANSWER, ANSWER], "two answers in a row, at message 3"),
        ([QUESTION, AssistantMessage()], "an answer of nothing"),
        ([QUESTION, ANSWER, SystemMessage(content="s")], "an outcome without its call, at message 2"),
    ],
)
def test_a_history_that_a_provider_would_refuse_is_told_with_the_place(
    history: list[Any], words: str
) -> None:
    with pytest.raises(InvariantError) as broken:
        check_history(history)
    assert words in str(broken.value)
    with pytest.raises(InvariantError):
        check_history([message.model_dump(mode="json") for message in history])


def test_a_history_is_read_as_its_exchanges() -> None:
    beside = AssistantMessage(content="let me see", response_id="r")
    [first, second] = check_history(
        [SystemMessage(), QUESTION, beside, CALL, RESULT, ANSWER, QUESTION, CALL, RESULT],
        unanswered_user=True,
    )
    assert [(response.message, len(response.pairs)) for response in first.responses] == [
        (beside, 1),
        (ANSWER, 0),
    ]
    assert second.responses[0].pairs == [(CALL, RESULT)]
    assert check_history([QUESTION], unanswered_user=True)[0].responses == []


async def test_what_a_function_raised_is_kept() -> None:
    error = ValueError("no")
    dag = ToolDag(
        ScriptedTool("async", fails(error)), ScriptedTool("sync", blocks_thread(0).then(fails(error)))
    )
    tools = RecordedToolbox(dag.toolbox())
    async with client_of(tools) as client:
        await record_batch(client, tools, dag.calls())
    assert [one.raised for one in tools.trace(client).calls] == [error, error]
