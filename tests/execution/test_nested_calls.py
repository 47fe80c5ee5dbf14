"""Tools that use the client that runs them, at any limit and at any depth, and what outlives them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.from_thread
import pytest

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.models import AssistantMessage, ToolCallResult
from seqoria_runtime.models.errors import CallEndedError
from seqoria_runtime.providers import ModelRequest
from seqoria_runtime.testing import ScriptedProvider, call, calls, says, wait_for_abandoned_threads
from tests.support.batches import Lab, assert_idle, error_of, request, results
from tests.support.tools import Gate

pytestmark = pytest.mark.clause("C49")


class Nested(Lab):
    """A lab whose tools know the client that runs them."""

    def __init__(self) -> None:
        super().__init__()
        self.add("work")
        self.tools.add(self.recurse)
        self.tools.add(self.fan_out)
        self.tools.add(self.recurse_in_thread)

    @asynccontextmanager
    async def client(self, **options: Any) -> AsyncGenerator[AsyncAIClient, None]:
        async with super().client(**options) as self.own_client:
            yield self.own_client

    async def recurse(self, depth: int) -> str:
        """Call itself until `depth` is zero, then work."""
        inner = request("recurse", depth=depth - 1) if depth else request("work", tag="leaf")
        [outcome] = await self.own_client.run_tool_calls([inner])
        return f"{depth} {results([outcome])[0]}"

    async def fan_out(self, width: int, depth: int = 0) -> str:
        """Call `work`, or itself until `depth` is zero, `width` times in one batch."""
        inner = request("fan_out", width=width, depth=depth - 1) if depth else request("work", tag="leaf")
        outcomes = await self.own_client.run_tool_calls([inner] * width)
        return "+".join(results(outcomes))

    def recurse_in_thread(self, depth: int) -> str:
        inner = request("recurse_in_thread", depth=depth - 1) if depth else request("work", tag="leaf")
        [outcome] = anyio.from_thread.run(self.own_client.run_tool_calls, [inner])
        return f"{depth} {results([outcome])[0]}"


@pytest.fixture
def lab() -> Nested:
    return Nested()


@pytest.mark.case("C1")
@pytest.mark.parametrize("limit", [1, 2, 16])
async def test_a_tool_that_calls_a_tool_that_calls_a_tool_gets_its_answer(lab: Nested, limit: int) -> None:
    outcomes = await lab.run(request("recurse", depth=5), max_concurrency=limit)
    assert results(outcomes) == ["5 4 3 2 1 0 leaf"]


@pytest.mark.case("C1")
@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_many_nested_calls_at_many_levels_share_the_limit(lab: Nested, limit: int) -> None:
    outcomes = await lab.run(*[request("fan_out", width=3, depth=1)] * 3, max_concurrency=limit)
    assert results(outcomes) == ["leaf+leaf+leaf+leaf+leaf+leaf+leaf+leaf+leaf"] * 3
    assert (lab.peak, len(lab.started)) == (limit, 27)
    assert 27 / limit <= anyio.current_time() <= 27 / limit + 2


async def test_nested_calls_take_free_slots_beside_the_one_that_is_lent(lab: Nested) -> None:
    await lab.run(request("fan_out", width=6), max_concurrency=3)
    assert (lab.peak, anyio.current_time()) == (3, 2)


@pytest.mark.parametrize("limit", [1, 3])
async def test_a_sync_tool_can_call_tools_from_its_thread(lab: Nested, limit: int) -> None:
    outcomes = await lab.run(*[request("recurse_in_thread", depth=2)] * 3, max_concurrency=limit)
    assert results(outcomes) == ["2 1 0 leaf"] * 3


@pytest.mark.parametrize("limit", [1, 2])
async def test_nested_batches_side_by_side_in_one_tool_share_its_slot(lab: Nested, limit: int) -> None:
    @lab.tools.tool()
    async def both() -> None:
        async with anyio.create_task_group() as group:
            for tag in "ab":
                group.start_soon(lab.own_client.run_tool_calls, [request("work", tag=tag)] * 2)

    await lab.run(request("both"), max_concurrency=limit)
    assert sorted(lab.started) == ["a", "a", "b", "b"]
    assert (lab.peak, anyio.current_time()) == (limit, 4 / limit)


async def test_nested_batches_side_by_side_in_one_tool_use_its_slot_in_turn(lab: Nested) -> None:
    @lab.tools.tool()
    async def both() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(lab.own_client.run_tool_calls, [request("work", tag="long")] * 100)
            await anyio.sleep(0.5)
            await lab.own_client.run_tool_calls([request("work", tag="single")])
            group.cancel_scope.cancel()

    await lab.run(request("both"), max_concurrency=1)
    assert lab.started[:2] == ["long", "single"]


@pytest.mark.parametrize("limit", [1, 2])
async def test_dependencies_inside_a_nested_batch_hold(lab: Nested, limit: int) -> None:
    lab.add("after", depends_on=["work"])

    @lab.tools.tool()
    async def parent() -> str:
        batch = [request("after", tag="after"), request("work", tag="work")]
        return "+".join(results(await lab.own_client.run_tool_calls(batch)))

    assert results(await lab.run(request("parent"), max_concurrency=limit)) == ["after+work"]
    assert lab.started == ["work", "after"]


@pytest.mark.case("C1")
@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_tool_can_hold_a_conversation_of_its_own(in_thread: bool) -> None:
    lab = Lab()
    lab.add("work")
    model = ScriptedProvider([calls(call("work", tag="inner"), call("work", tag="inner")), says("answer")])

    async def converse() -> str:
        async with client.chat("q", history=[]) as turn:
            events = [event async for event in turn]
        assert isinstance(events[-1], AssistantMessage)
        return events[-1].content

    @lab.tools.tool()
    async def ask() -> str:
        return await converse()

    @lab.tools.tool()
    def ask_in_thread() -> str:
        return anyio.from_thread.run(converse)

    client = AsyncAIClient([model], local_toolbox=lab.tools, max_concurrency=1, system_prompt="")
    async with client:
        outcomes = await client.run_tool_calls([request("ask_in_thread" if in_thread else "ask")])
        assert_idle(client)
    assert (results(outcomes), lab.started) == (["answer"], ["inner", "inner"])


async def test_a_tool_can_call_another_by_name_and_read_a_call_stream() -> None:
    lab = Nested()

    @lab.tools.tool()
    async def parent() -> str:
        [content] = await lab.own_client.call_mcp_tool("work", {"tag": "direct"})
        async with lab.own_client.run_call_stream([request("work", tag="streamed")] * 2) as stream:
            seen = [results([outcome])[0] async for _, outcome in stream]
        return "+".join([content.text, *seen])

    outcomes = await lab.run(request("parent"), max_concurrency=1)
    assert results(outcomes) == ["direct+streamed+streamed"]


async def test_tools_of_two_clients_can_call_each_other_with_one_slot_each() -> None:
    first, second = Nested(), Nested()

    @first.tools.tool()
    async def there(depth: int) -> str:
        [outcome] = await second.own_client.run_tool_calls([request("back", depth=depth)])
        return f"there {results([outcome])[0]}"

    @second.tools.tool()
    async def back(depth: int) -> str:
        inner = request("there", depth=depth - 1) if depth else request("work", tag="leaf")
        [outcome] = await first.own_client.run_tool_calls([inner])
        return f"back {results([outcome])[0]}"

    async with first.client(max_concurrency=1) as client, second.client(max_concurrency=1) as other:
        outcomes = await client.run_tool_calls([request("there", depth=2)])
        assert_idle(client)
        assert_idle(other)
    assert results(outcomes) == ["there back there back there back leaf"]


async def test_a_tool_of_one_client_lends_its_slot_to_calls_of_that_client_only() -> None:
    first, second = Nested(), Nested()

    @first.tools.tool()
    async def there() -> None:
        await second.own_client.run_tool_calls([request("work", tag="from there")])

    async with (
        first.client(max_concurrency=1) as client,
        second.client(max_concurrency=1) as other,
        anyio.create_task_group() as group,
    ):
        group.start_soon(other.run_tool_calls, [request("work", seconds=5, tag="busy")])
        await anyio.sleep(1)
        await client.run_tool_calls([request("there")])
    assert second.times("start") == {"busy": 0, "from there": 5}


async def test_a_timeout_of_the_parent_ends_its_nested_calls(lab: Nested) -> None:
    outcomes = await lab.run(request("recurse", depth=3), tool_timeout=0.5, max_concurrency=1)
    assert results(outcomes) == ["[timed_out]"]
    assert (lab.live, anyio.current_time()) == (0, 0.5)


async def test_nested_calls_have_timeouts_of_their_own(lab: Nested) -> None:
    lab.add("hasty", timeout=0.25)

    @lab.tools.tool(timeout=10)
    async def parent() -> str:
        batch = [request("hasty"), request("work", tag="ok")]
        return "+".join(results(await lab.own_client.run_tool_calls(batch)))

    assert results(await lab.run(request("parent"), tool_timeout=2)) == ["[timed_out]+ok"]


@pytest.mark.clause("C48")
async def test_the_calls_of_a_nested_batch_do_not_hold_up_those_of_another_turn(lab: Nested) -> None:
    async with lab.client(max_concurrency=2) as client, anyio.create_task_group() as group:
        group.start_soon(client.run_tool_calls, [request("fan_out", width=100)])
        await anyio.sleep(0.5)
        await client.run_tool_calls([request("work", tag="single")])
        assert lab.times("start")["single"] == 1
        group.cancel_scope.cancel()


# The lease ends with the call


class Outliving(Nested):
    """A lab with a tool that starts its work in a task group of the application's, and returns."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[BaseException] = []
        self.tools.add(self.leave_behind)

    async def leave_behind(self, seconds: float = 1.0) -> str:
        self.group.start_soon(self.outlive)
        await anyio.sleep(seconds)
        return "left"

    async def outlive(self) -> None:
        try:
            await self.own_client.run_tool_calls([request("work", seconds=3, tag=tag) for tag in "ab"])
        except CallEndedError as error:
            self.errors.append(error)

    async def run_left_behind(self, *batch: Any, **options: Any) -> list[Any]:
        async with self.client(**options) as client:
            async with anyio.create_task_group() as self.group:
                outcomes = await client.run_tool_calls(batch)
            assert_idle(client)
        return outcomes


@pytest.mark.parametrize("limit", [1, 2, 16])
async def test_a_batch_that_outlives_the_call_that_started_it_ends_with_an_error_that_names_it(
    limit: int,
) -> None:
    lab = Outliving()
    outcomes = await lab.run_left_behind(request("leave_behind"), max_concurrency=limit)
    assert results(outcomes) == ["left"]
    assert "'leave_behind'" in str(lab.errors[0])
    assert (lab.live, anyio.current_time()) == (0, 1)


async def test_code_that_outlives_its_call_can_start_nothing_more() -> None:
    lab = Nested()
    errors: list[BaseException] = []

    async def too_late() -> None:
        await anyio.sleep(2)
        history: list[Any] = []
        for use in (
            lambda: client.run_tool_calls([request("work")]),
            lambda: client.call_mcp_tool("work"),
            lambda: anext(client.chat("q", history=history)),
            lambda: anext(client.run_call_stream([request("work")])),
        ):
            try:
                await use()
            except CallEndedError as error:
                errors.append(error)

    @lab.tools.tool()
    async def leave_behind() -> None:
        group.start_soon(too_late)

    async with lab.client() as client, anyio.create_task_group() as group:
        await client.run_tool_calls([request("leave_behind")])
    assert len(errors) == 4
    assert all("'leave_behind'" in str(error) for error in errors)
    assert lab.started == []


async def test_code_that_outlives_an_inner_call_but_not_the_outer_one_can_start_nothing_more(
    lab: Nested,
) -> None:
    seen: list[str] = []

    async def too_late() -> None:
        await anyio.sleep(1)
        try:
            await lab.own_client.run_tool_calls([request("work")])
        except CallEndedError as error:
            seen.append(str(error))

    @lab.tools.tool()
    async def inner() -> None:
        groups[0].start_soon(too_late)

    @lab.tools.tool()
    async def outer() -> None:
        async with anyio.create_task_group() as group:
            groups.append(group)
            await lab.own_client.run_tool_calls([request("inner")])

    groups: list[Any] = []
    await lab.run(request("outer"))
    assert ["'inner'" in text for text in seen] == [True]


@pytest.mark.clause("C51")
async def test_a_thread_that_outlives_its_call_gets_an_error_from_the_client(lab: Nested) -> None:
    gate, began = Gate(), anyio.Event()
    errors: list[BaseException] = []

    @lab.tools.tool()
    def outlive() -> None:
        anyio.from_thread.run_sync(began.set)
        gate()
        try:
            anyio.from_thread.run(lab.own_client.run_tool_calls, [request("work")])
        except CallEndedError as error:
            errors.append(error)

    async with lab.client(max_concurrency=1) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.run_tool_calls, [request("outlive")])
            await began.wait()
            group.cancel_scope.cancel()
        gate.open.set()
        await wait_for_abandoned_threads()
        assert_idle(client)
    assert ["'outlive'" in str(error) for error in errors] == [True]
    assert lab.started == []


@pytest.mark.clause("C51")
@pytest.mark.parametrize("limit", [1, 2])
async def test_a_batch_of_a_thread_whose_call_has_timed_out_ends_and_every_slot_comes_back(
    lab: Nested, limit: int
) -> None:
    errors: list[BaseException] = []

    @lab.tools.tool(timeout=1)
    def parent() -> None:
        try:
            anyio.from_thread.run(lab.own_client.run_tool_calls, [request("work", seconds=9)] * 2)
        except BaseException as error:  # on asyncio anyio cancels what the thread waits for
            errors.append(error)
            raise

    async with lab.client(max_concurrency=limit) as client:
        assert results(await client.run_tool_calls([request("parent")])) == ["[timed_out]"]
        await wait_for_abandoned_threads()
        assert_idle(client)
        assert (len(errors), lab.live, anyio.current_time()) == (1, 0, 1)
        assert results(await client.run_tool_calls([request("work", tag="next")])) == ["next"]


async def test_a_turn_that_outlives_the_tool_that_started_it_ends_with_an_error_and_a_true_history() -> None:
    lab = Lab()
    lab.add("work")
    model = ScriptedProvider([
        calls(call("work", seconds=5), call("work", seconds=0, tag="quick")),
        says("no"),
    ])
    history: list[Any] = []
    errors: list[BaseException] = []

    async def converse() -> None:
        try:
            async with client.chat("q", history=history) as turn:
                async for _ in turn:
                    pass
        except CallEndedError as error:
            errors.append(error)

    @lab.tools.tool()
    async def leave_behind() -> None:
        group.start_soon(converse)
        await anyio.sleep(1)

    client = AsyncAIClient([model], local_toolbox=lab.tools, system_prompt="")
    async with client, anyio.create_task_group() as group:
        await client.run_tool_calls([request("leave_behind")])
    assert ["'leave_behind'" in str(error) for error in errors] == [True]
    assert [message.role for message in history] == [
        "user",
        "tool_call",
        "tool_error",
        "tool_call",
        "tool_result",
    ]
    assert error_of(history[2]).kind == "cancelled"
    assert isinstance(history[4], ToolCallResult)
    assert (lab.live, anyio.current_time()) == (0, 1)


async def test_a_turn_whose_model_answers_after_the_tool_that_started_it_has_ended_runs_no_tools() -> None:
    lab = Lab()
    lab.add("work")
    model = ScriptedProvider([calls(call("work"), call("work"), delay=5)])
    errors: list[BaseException] = []

    async def converse() -> None:
        try:
            async with client.chat("q", history=[]) as turn:
                await anext(turn)
        except CallEndedError as error:
            errors.append(error)

    @lab.tools.tool()
    async def leave_behind() -> None:
        group.start_soon(converse)
        await anyio.sleep(1)

    client = AsyncAIClient([model], local_toolbox=lab.tools, system_prompt="")
    async with client, anyio.create_task_group() as group:
        await client.run_tool_calls([request("leave_behind")])
    assert ["'leave_behind'" in str(error) for error in errors] == [True]
    assert (lab.started, anyio.current_time()) == ([], 5)


@pytest.mark.clause("C37")
async def test_a_batch_started_beside_a_call_is_not_taken_for_one_of_it(lab: Nested) -> None:
    """The lease is seen by what the call starts, and by nothing else."""

    async def beside() -> None:
        outcomes = await lab.own_client.run_tool_calls([request("work", seconds=5, tag="beside")])
        assert results(outcomes) == ["beside"]

    async with lab.client() as client, anyio.create_task_group() as group:
        group.start_soon(client.run_tool_calls, [request("work")])
        group.start_soon(beside)


# Deep


@pytest.mark.parametrize("way", ["run_tool_calls", "run_call_stream", "chat"])
@pytest.mark.parametrize("cancelled", [False, True])
async def test_calls_can_be_nested_two_hundred_deep_and_be_cancelled_there(way: str, cancelled: bool) -> None:
    lab = Nested()

    def answer(asked: ModelRequest) -> Any:
        last = asked.messages[-1]
        return calls(call("deep", depth=int(str(last.content)))) if last.role == "user" else says("well")

    @lab.tools.tool()
    async def deep(depth: int) -> str:
        if depth == 0:
            await anyio.sleep(9 if cancelled else 0)
            return "bottom"
        inner = request("deep", depth=depth - 1)
        if way == "run_tool_calls":
            return results(await client.run_tool_calls([inner]))[0]
        if way == "run_call_stream":
            async with client.run_call_stream([inner]) as stream:
                return results([(await anext(stream))[1]])[0]
        history: list[Any] = []
        async with client.chat(str(depth - 1), history=history) as turn:
            async for _ in turn:
                pass
        return results([message for message in history if message.role == "tool_result"])[0]

    client = AsyncAIClient([ScriptedProvider(answer)], local_toolbox=lab.tools, system_prompt="")
    async with client:
        with anyio.move_on_after(5) as scope:
            assert results(await client.run_tool_calls([request("deep", depth=200)])) == ["bottom"]
        assert scope.cancelled_caught == cancelled
        assert_idle(client)


async def test_calls_nested_deeper_than_that_end_with_an_error_that_says_so(lab: Nested) -> None:
    errors: list[RecursionError] = []

    @lab.tools.tool()
    async def endless() -> None:
        try:
            await lab.own_client.run_tool_calls([request("endless")])
        except RecursionError as error:
            errors.append(error)

    await lab.run(request("endless"))
    assert [str(error) for error in errors] == [
        "tool calls are nested more than 200 deep; the last one is of the tool 'endless'"
    ]


@pytest.mark.clause("C53")
@pytest.mark.parametrize("levels", range(0, 30, 5))
async def test_a_capped_tool_that_calls_itself_without_end_leaves_each_place(
    lab: Nested, levels: int
) -> None:
    """From several depths of the caller's stack, since a recursion error could strike anywhere."""

    @lab.tools.tool(max_concurrency=1)
    async def endless() -> str:
        return results(await lab.own_client.run_tool_calls([request("endless")]))[0]

    async def at(levels: int, batch: list[Any]) -> list[Any]:
        return await at(levels - 1, batch) if levels else await lab.own_client.run_tool_calls(batch)

    async with lab.client(max_concurrency=2) as client:
        for _ in range(2):
            assert results(await at(levels, [request("endless")])) == ["[failed]"]
            assert_idle(client)
            assert [cap.free for cap in client.stats().caps] == [1]
