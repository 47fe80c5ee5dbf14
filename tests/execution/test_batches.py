"""How the calls of one batch run beside each other, and what each is answered with."""

import math
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

from seqoria_runtime.models import ToolCallError, ToolCallRequest, ToolCallRequestList, ToolCallResult
from seqoria_runtime.testing import run_on_both
from tests.support.batches import Lab, assert_idle, error_of, request, results


@pytest.fixture
def lab() -> Lab:
    lab = Lab()
    lab.add("work", "other")
    return lab


@pytest.mark.clause("C40")
async def test_outcomes_are_in_the_order_of_the_calls_whatever_ends_first(lab: Lab) -> None:
    durations = [3, 1, 2]
    calls = [request("work", seconds=seconds, tag=str(seconds)) for seconds in durations]
    outcomes = await lab.run(*calls)
    assert results(outcomes) == ["3", "1", "2"]
    assert [outcome.tool_call_id for outcome in outcomes] == [call.id for call in calls]
    assert all(outcome.name == "work" for outcome in outcomes)


@pytest.mark.clause("C40")
async def test_an_empty_batch_has_no_outcomes_and_is_a_checkpoint(lab: Lab) -> None:
    assert await lab.run() == []
    async with lab.client() as client:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await client.run_tool_calls([])
            pytest.fail("a cancelled caller goes on")


@pytest.mark.clause("C40")
@pytest.mark.parametrize("calls", [[], [request("nobody")]])
async def test_a_batch_of_which_nothing_runs_lets_other_tasks_run_all_the_same(
    lab: Lab, calls: list[Any]
) -> None:
    ran = anyio.Event()

    async def other() -> None:
        ran.set()

    async with lab.client() as client, anyio.create_task_group() as group:
        group.start_soon(other)
        for _ in range(2):  # trio may come back to this task first
            await client.run_tool_calls(calls)
        assert ran.is_set()


@pytest.mark.clause("C40")
async def test_a_generator_and_a_request_list_are_batches_too(lab: Lab) -> None:
    assert results(await lab.run(*(request("work", tag=tag) for tag in "ab"))) == ["a", "b"]
    async with lab.client() as client:
        batch = ToolCallRequestList(tool_calls=[request("work", tag="c")])
        assert results(await client.run_tool_calls(batch)) == ["c"]
        assert results(await client.run_tool_calls(request("work", tag=tag) for tag in "de")) == ["d", "e"]


@pytest.mark.clause("C41")
async def test_a_call_stream_gives_outcomes_as_they_complete(lab: Lab) -> None:
    calls = [request("work", seconds=seconds, tag=str(seconds)) for seconds in (3, 1, 2)]
    seen = []
    async with lab.client() as client, client.run_call_stream([*calls, request("nobody")]) as stream:
        async for call, outcome in stream:
            seen.append((call, *results([outcome]), anyio.current_time()))
    assert [(text, time) for _, text, time in seen] == [("[unknown_tool]", 0), ("1", 1), ("2", 2), ("3", 3)]
    assert [call for call, _, _ in seen[1:]] == [calls[1], calls[2], calls[0]]


@pytest.mark.clause("C43")
@pytest.mark.case("C1")
@pytest.mark.parametrize("limit", [1, 3, 16])
async def test_independent_calls_run_at_the_same_time_up_to_the_limit(lab: Lab, limit: int) -> None:
    await lab.run(*(request("work") for _ in range(50)), max_concurrency=limit)
    assert (lab.peak, anyio.current_time()) == (limit, -(-50 // limit))


@pytest.mark.clause("C43")
async def test_the_limit_is_shared_by_all_batches_of_a_client(lab: Lab) -> None:
    async with lab.client(max_concurrency=4) as client, anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(client.run_tool_calls, [request("work") for _ in range(4)])
    assert (lab.peak, anyio.current_time()) == (4, 5)


@pytest.mark.clause("C43")
async def test_a_call_that_waits_for_a_dependency_holds_no_slot(lab: Lab) -> None:
    lab.add("after", depends_on=["work"])
    async with lab.client(max_concurrency=2) as client, anyio.create_task_group() as group:
        group.start_soon(client.run_tool_calls, [request("work", seconds=2), request("after", tag="after")])
        await anyio.sleep(1)
        assert client.stats().free_slots == 1
        await client.run_tool_calls([request("other", seconds=0, tag="now")])
        assert anyio.current_time() == 1


@pytest.mark.clause("C43")
@pytest.mark.case("C1")
async def test_a_chain_of_calls_runs_through_with_one_slot() -> None:
    lab = Lab()
    lab.add("step0")
    for step in range(1, 20):
        lab.add(f"step{step}", depends_on=[f"step{step - 1}"])
    calls = [request(f"step{step}", tag=str(step)) for step in range(20)]
    outcomes = await lab.run(*reversed(calls), max_concurrency=1)
    assert results(outcomes) == [str(step) for step in reversed(range(20))]
    assert anyio.current_time() == 20


@pytest.mark.clause("C44")
@pytest.mark.case("C1")
async def test_waiting_for_a_slot_costs_no_timeout(lab: Lab) -> None:
    outcomes = await lab.run(
        *(request("work", seconds=0.9, tag="ok") for _ in range(500)), max_concurrency=16, tool_timeout=1
    )
    assert results(outcomes) == ["ok"] * 500
    assert lab.peak == 16


@pytest.mark.clause("C44")
async def test_waiting_for_a_dependency_costs_no_timeout(lab: Lab) -> None:
    lab.add("after", depends_on=["work"])
    calls = [request("work", seconds=0.9), request("after", seconds=0.9, tag="ok")]
    assert results(await lab.run(*calls, tool_timeout=1))[1] == "ok"


@pytest.mark.clause("C44")
@pytest.mark.parametrize(
    ("seconds", "outcome"), [(0.999, "done"), (1.0, "[timed_out]"), (1.001, "[timed_out]")]
)
async def test_a_call_that_ends_at_its_deadline_has_overrun(lab: Lab, seconds: float, outcome: str) -> None:
    got = await lab.run(request("work", seconds=seconds, tag="done"), tool_timeout=1)
    assert results(got) == [outcome]
    assert anyio.current_time() == min(seconds, 1)


@pytest.mark.clause("C44")
async def test_an_overrun_is_told_with_the_tool_and_the_time_and_what_may_have_happened(lab: Lab) -> None:
    [outcome] = await lab.run(request("work", seconds=9), tool_timeout=0.25)
    assert error_of(outcome).error == "Tool 'work' timed out after 0.25s; it may have taken effect"


@pytest.mark.clause("C44")
@pytest.mark.parametrize("extra", [0, 2])
async def test_a_call_that_swallows_its_cancellation_and_returns_a_value_has_overrun(
    lab: Lab, extra: float
) -> None:
    @lab.tools.tool()
    async def stubborn() -> str:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await anyio.sleep(extra)
        return "done"

    outcomes = await lab.run(request("stubborn"), request("work", tag="beside"), tool_timeout=1.5)
    assert results(outcomes) == ["[timed_out]", "beside"]
    assert anyio.current_time() == 1.5 + extra


@pytest.mark.clause("C44")
async def test_a_shielded_call_that_returns_late_has_overrun(lab: Lab) -> None:
    @lab.tools.tool()
    async def shielded() -> str:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(3)
        return "done"

    assert results(await lab.run(request("shielded"), tool_timeout=1)) == ["[timed_out]"]


@pytest.mark.clause("C44")
async def test_a_call_that_raises_after_its_deadline_has_overrun(lab: Lab) -> None:
    @lab.tools.tool()
    async def late() -> None:
        try:
            await anyio.sleep(3)
        finally:
            raise ValueError("late")

    [outcome] = await lab.run(request("late"), tool_timeout=1)
    assert error_of(outcome).kind == "timed_out"


@pytest.mark.clause("C44")
@pytest.mark.real_time
async def test_a_call_that_blocks_the_loop_past_its_deadline_has_overrun() -> None:
    lab = Lab()

    @lab.tools.tool()
    async def block() -> str:
        end = anyio.current_time() + 0.02
        while anyio.current_time() < end:
            pass
        return "done"

    lab.add("work")
    calls = [request("block"), request("work", seconds=0, tag="next")]
    assert results(await lab.run(*calls, tool_timeout=0.01, max_concurrency=1)) == ["[timed_out]", "next"]


@pytest.mark.clause("C44")
async def test_a_call_never_finds_the_deadline_of_the_call_before_it(lab: Lab) -> None:
    lab.add("quick", timeout=2)
    found: list[float] = []

    @lab.tools.tool(timeout=30)
    async def look() -> None:
        found.append(anyio.current_effective_deadline() - anyio.current_time())

    @lab.tools.tool()
    async def look_for_ever() -> None:
        found.append(anyio.current_effective_deadline())

    await lab.run(request("quick"), request("look"), request("look_for_ever"), max_concurrency=1)
    assert found == [30, math.inf]


@pytest.mark.clause("C44")
async def test_a_timeout_error_of_the_tool_itself_is_the_tools_error(lab: Lab) -> None:
    @lab.tools.tool()
    async def impatient() -> None:
        with anyio.fail_after(1):
            await anyio.sleep(5)

    @lab.tools.tool()
    async def silent() -> None:
        raise TimeoutError

    @lab.tools.tool()
    async def talkative() -> None:
        raise TimeoutError("the database is slow")

    outcomes = await lab.run(request("impatient"), request("silent"), request("talkative"), tool_timeout=10)
    assert [error_of(outcome).kind for outcome in outcomes] == ["failed"] * 3
    assert error_of(outcomes[0]).error == "Tool 'impatient' failed: TimeoutError"
    assert "the database is slow" in error_of(outcomes[2]).error


@pytest.mark.clause("C44")
async def test_a_tools_own_timeout_overrides_the_clients_whether_it_is_longer_or_shorter(lab: Lab) -> None:
    lab.add("patient", timeout=5)
    lab.add("hasty", timeout=0.5)
    calls = [request(name, seconds=3, tag=name) for name in ("patient", "hasty", "work")]
    assert results(await lab.run(*calls, tool_timeout=2)) == ["patient", "[timed_out]", "[timed_out]"]
    assert lab.times("end") == {"hasty": 0.5, "work": 2, "patient": 3}


@pytest.mark.clause("C44")
async def test_a_worker_gives_each_of_its_calls_a_deadline_of_its_own(lab: Lab) -> None:
    lab.add("patient", timeout=50)
    calls = [
        request("work", seconds=0.9, tag="a"),
        request("patient", seconds=9, tag="b"),
        request("work", seconds=0.9, tag="c"),
        request("work", seconds=5, tag="d"),
        request("work", seconds=0.9, tag="e"),
    ]
    outcomes = await lab.run(*calls, tool_timeout=1, max_concurrency=1)
    assert results(outcomes) == ["a", "b", "c", "[timed_out]", "e"]


@pytest.mark.clause("C44")
async def test_there_is_no_timeout_unless_one_is_set(lab: Lab) -> None:
    assert results(await lab.run(request("work", seconds=1e6, tag="done"))) == ["done"]


@pytest.mark.clause("C44")
@pytest.mark.parametrize(
    ("source", "tool", "told"),
    [(3, 0, "the tool itself had not started"), (1, 1.5, "it may have taken effect"), (1, 0.5, None)],
)
async def test_the_timeout_covers_the_search_for_hidden_values_and_the_tool_together(
    lab: Lab, source: float, tool: float, told: str | None
) -> None:
    async def find_user() -> str:
        await anyio.sleep(source)
        return "u1"

    @lab.tools.tool(server_populated=["user"])
    async def greet(user: str) -> str:
        await anyio.sleep(tool)
        return user

    options = {"tool_timeout": 2, "param_registry": {"user": find_user}}
    [outcome] = await lab.run(request("greet"), **options)
    if told is None:
        assert results([outcome]) == ["u1"]
    else:
        assert error_of(outcome).error == f"Tool 'greet' timed out after 2s; {told}"
        assert anyio.current_time() == 2


@pytest.mark.clause("C50")
async def test_the_same_arguments_twice_are_two_executions(lab: Lab) -> None:
    outcomes = await lab.run(request("work", tag="same"), request("work", tag="same"))
    assert (results(outcomes), lab.started) == (["same", "same"], ["same", "same"])


@pytest.mark.clause("C50")
async def test_one_request_object_listed_twice_has_an_outcome_at_each_place(lab: Lab) -> None:
    ran: list[int] = []

    @lab.tools.tool()
    async def number() -> str:
        ran.append(len(ran))
        return str(ran[-1])

    call = request("number")
    outcomes = await lab.run(call, call, call)
    assert sorted(results(outcomes)) == ["0", "1", "2"]


@pytest.mark.clause("C50")
@pytest.mark.case("B5")
async def test_call_ids_that_repeat_confuse_nothing(lab: Lab) -> None:
    lab.add("after", depends_on=["work"])
    calls = [
        ToolCallRequest(id="k0", name="work", arguments={"tag": "a", "seconds": 2}),
        ToolCallRequest(id="k0", name="after", arguments={"tag": "b"}),
        ToolCallRequest(id="k0", name="work", arguments={"tag": "c", "ok": False}),
    ]
    async with lab.client() as client:
        for _ in range(2):
            outcomes = await client.run_tool_calls(calls)
            assert results(outcomes) == ["a", "b", "[failed]"]
            assert {outcome.tool_call_id for outcome in outcomes} == {"k0"}
    assert lab.started == ["a", "c", "b"] * 2


@pytest.mark.clause("C50")
async def test_the_callers_requests_are_not_changed(lab: Lab) -> None:
    @lab.tools.tool()
    async def change(items: list[int], options: dict[str, Any]) -> None:
        items.append(3)
        options["new"] = True

    call = request("change", items=[1, 2], options={"old": {}})
    before = call.model_copy(deep=True)
    await lab.run(call)
    assert call == before


@pytest.mark.clause("C42", "C55")
async def test_what_cannot_run_settles_at_once_and_without_a_slot(lab: Lab) -> None:
    calls = [
        request("work", seconds=5),
        request("nobody"),
        request("blocked"),
        request("work", seconds="soon"),
        ToolCallRequest(id="broken", name="work", invalid_arguments="{'seconds': "),
        ToolCallRequest(id="cut", name="work", invalid_arguments="{", truncated=True),
        request("work", surprise=1),
    ]
    lab.add("blocked")
    seen = []
    async with lab.client(max_concurrency=1, blocked_tools=["blocked"]) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.run_tool_calls, [request("work", seconds=9)])
            await anyio.sleep(1)
            async with client.run_call_stream(calls) as stream:
                for _ in range(6):
                    call, outcome = await anext(stream)
                    seen.append((calls.index(call), error_of(outcome).kind))
                assert anyio.current_time() == 1
                assert client.stats().waiting == {"work": 1}
            group.cancel_scope.cancel()
        assert_idle(client)
    assert seen == [
        (1, "unknown_tool"),
        (2, "unknown_tool"),
        *[(place, "invalid_arguments") for place in (3, 4, 5, 6)],
    ]
    assert lab.started == [""]


@pytest.mark.clause("C42", "C55")
async def test_a_batch_of_nothing_but_refused_calls_needs_no_free_slot(lab: Lab) -> None:
    async with lab.client(max_concurrency=1) as client, anyio.create_task_group() as group:
        group.start_soon(client.run_tool_calls, [request("work", seconds=9)])
        await anyio.sleep(1)
        assert results(await client.run_tool_calls([request("nobody")])) == ["[unknown_tool]"]
        assert anyio.current_time() == 1
        group.cancel_scope.cancel()


@pytest.mark.clause("C42")
async def test_results_and_errors_carry_what_ties_them_to_their_request(lab: Lab) -> None:
    calls = [
        ToolCallRequest(id="1", name="work", arguments={"tag": "x"}, response_id="r1"),
        ToolCallRequest(id="2", name="work", arguments={"ok": False}, response_id="r1"),
        ToolCallRequest(id="3", name="nobody", response_id="r2"),
    ]
    outcomes = await lab.run(*calls)
    assert [type(outcome) for outcome in outcomes] == [ToolCallResult, ToolCallError, ToolCallError]
    for call, outcome in zip(calls, outcomes, strict=True):
        assert (outcome.tool_call_id, outcome.name, outcome.response_id) == (
            call.id,
            call.name,
            call.response_id,
        )


@pytest.mark.clause("C43")
async def test_tools_that_never_suspend_do_not_hold_the_loop(lab: Lab) -> None:
    @lab.tools.tool()
    async def instant() -> str:
        return "done"

    looked = 0

    async def look() -> None:
        nonlocal looked
        while True:
            looked += 1
            await anyio.lowlevel.checkpoint()

    async with lab.client(max_concurrency=1) as client, anyio.create_task_group() as group:
        group.start_soon(look)
        outcomes = await client.run_tool_calls([request("instant") for _ in range(1000)])
        group.cancel_scope.cancel()
    assert results(outcomes) == ["done"] * 1000
    assert looked >= 10


@pytest.mark.clause("C43")
async def test_a_batch_of_tools_that_never_suspend_can_be_cancelled(lab: Lab) -> None:
    ran = 0

    @lab.tools.tool()
    async def instant() -> str:
        nonlocal ran
        ran += 1
        if ran == 10:
            scope.cancel()
        return "done"

    async with lab.client() as client:
        with anyio.CancelScope() as scope:
            await client.run_tool_calls([request("instant") for _ in range(1000)])
        assert scope.cancelled_caught
        assert_idle(client)
    assert ran < 200


@pytest.mark.clause("C6")
@pytest.mark.case("M1")
def test_both_backends_give_the_same_outcomes_in_the_same_order_at_the_same_times() -> None:
    async def everything() -> list[Any]:
        lab = Lab()
        lab.add("work")
        lab.add("hasty", timeout=0.75)
        lab.add("after", depends_on=["work", "hasty"])

        @lab.tools.tool()
        def in_thread() -> str:
            return anyio.from_thread.run(give, "from a thread")

        @lab.tools.tool(server_populated=["user"])
        async def greet(user: str) -> str:
            return await give(user)

        @lab.tools.tool()
        async def crash() -> None:
            raise BaseException("crashed")

        async def give(value: str) -> str:
            await anyio.sleep(0.25)
            return value

        calls = [
            request("after", seconds=1, tag="never"),
            request("work", seconds=1, tag="work"),
            request("hasty", seconds=9),
            request("in_thread"),
            request("greet"),
            request("crash"),
            request("nobody"),
            request("work", seconds=2, ok=False),
        ]
        seen: list[Any] = []
        options = {"max_concurrency": 6, "param_registry": {"user": lambda: "u1"}}
        async with lab.client(**options) as client, client.run_call_stream(calls) as stream:
            async for call, outcome in stream:
                assert call.id == outcome.tool_call_id
                seen.append((anyio.current_time(), call.name, *results([outcome])))
            assert_idle(client)
        return sorted(seen)

    on_asyncio, on_trio = run_on_both(everything)
    assert on_asyncio == on_trio
    assert [text for _, _, text in on_asyncio] == [
        "[failed]",
        "[unknown_tool]",
        "u1",
        "from a thread",
        "[timed_out]",
        "work",
        "[skipped]",
        "[failed]",
    ]


@pytest.mark.clause("C6")
@pytest.mark.case("M1")
@pytest.mark.real_time
async def test_a_batch_runs_in_real_time_under_every_event_loop(lab: Lab) -> None:
    lab.add("after", depends_on=["work"])
    lab.add("hasty", timeout=0.01)

    @lab.tools.tool()
    def in_thread() -> str:
        return anyio.from_thread.run(nested, "in a thread")

    @lab.tools.tool()
    async def parent() -> str:
        return await nested("nested")

    async def nested(tag: str) -> str:
        return results(await client.run_tool_calls([request("other", seconds=0, tag=tag)]))[0]

    calls = [
        request("after", seconds=0, tag="after"),
        request("hasty", seconds=60),
        request("work", seconds=0.01, tag="work"),
        request("in_thread"),
        request("parent"),
        request("nobody"),
    ]
    async with lab.client(max_concurrency=2) as client:
        outcomes = await client.run_tool_calls(calls)
        assert results(outcomes) == [
            "after",
            "[timed_out]",
            "work",
            "in a thread",
            "nested",
            "[unknown_tool]",
        ]
        with anyio.move_on_after(0.01) as scope:
            await client.run_tool_calls([request("work", seconds=60)] * 5)
        assert scope.cancelled_caught
        assert_idle(client)
