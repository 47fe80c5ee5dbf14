from typing import Any

import anyio
import pytest

from seqoria_runtime._base.catalogue import build_catalogue
from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.models import ToolCallRequest
from seqoria_runtime.testing import ScriptedProvider, call, calls, says
from seqoria_runtime.toolbox import LocalToolbox
from tests.support.talk import Talk, collect

pytestmark = pytest.mark.clause("C103")


def names(client: AsyncAIClient) -> list[str]:
    return [tool["function"]["name"] for tool in client.list_tools()]


def box(**functions: Any) -> LocalToolbox:
    tools = LocalToolbox()
    for name, function in functions.items():
        tools.add(function, name=name)
    return tools


async def one(a: int) -> str:
    """First of two."""
    return f"one {a}"


async def two(b: str) -> str:
    return f"two {b}"


async def test_the_tools_are_listed_as_definitions_that_may_be_changed() -> None:
    talk = Talk(tools=box(add=one))
    async with talk.client:
        [listed] = talk.client.list_tools()
        assert listed["type"] == "function"
        assert listed["function"]["name"] == "add"
        assert listed["function"]["description"] == "First of two."
        assert listed["function"]["parameters"]["required"] == ["a"]
        listed["function"]["parameters"].clear()
        [again] = talk.client.list_tools()
        assert again["function"]["parameters"]["required"] == ["a"]


@pytest.mark.clause("C70")
async def test_hidden_parameters_are_not_listed() -> None:
    tools = LocalToolbox()

    @tools.tool(server_populated=["user_id"])
    async def pay(amount: int, user_id: str) -> None: ...

    talk = Talk(tools=tools)
    async with talk.client:
        assert "user_id" not in str(talk.client.list_tools())


@pytest.mark.clause("C104")
async def test_of_two_tools_of_one_name_the_second_is_named_by_its_schema() -> None:
    client = AsyncAIClient(
        [ScriptedProvider([])],
        local_toolbox=[box(add=one), box(add=two), box(add=one)],
        system_prompt="",
    )
    async with client:
        [plain, variant] = names(client)
        assert plain == "add"
        assert variant.startswith("add__")
        requests = [
            ToolCallRequest(id="c1", name="add", arguments={"a": 1}),
            ToolCallRequest(id="c2", name=variant, arguments={"b": "x"}),
        ]
        outcomes = await client.run_tool_calls(requests)
    assert [outcome.result for outcome in outcomes] == ["one 1", "two x"]  # type: ignore[union-attr]
    assert [outcome.name for outcome in outcomes] == ["add", variant]


async def test_a_base_name_blocks_all_its_variants_and_an_alias_that_one() -> None:
    boxes = [box(add=one, other=one), box(add=two)]
    client = AsyncAIClient(
        [ScriptedProvider([])], local_toolbox=boxes, blocked_tools=["add"], system_prompt=""
    )
    async with client:
        assert names(client) == ["other"]
        await client.set_blocked_tools(["other"])
        plain, variant = names(client)
        assert plain == "add"
        await client.block_tools([variant])
        assert names(client) == ["add"]
        await client.unblock_tools(iter([variant, "never blocked"]))
        assert names(client) == ["add", variant]
        await client.block_tools(["ADD", " add"])
        assert names(client) == ["add", variant]


async def test_a_blocked_name_that_matches_no_tool_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    boxes = [box(add=one), box(add=two)]
    client = AsyncAIClient([ScriptedProvider([])], local_toolbox=boxes, blocked_tools=["add", "Add"])
    async with client:
        _, variant = build_catalogue([boxes[0].tools, boxes[1].tools]).entries
        await client.block_tools([variant])
        await client.block_tools(["ad"])
        await client.refresh_tools()
    assert [record.getMessage() for record in caplog.records] == [
        "The blocked name 'Add' matches no tool that is known now",
        "The blocked name 'ad' matches no tool that is known now",
    ]


@pytest.mark.clause("C104")
async def test_an_equal_tool_that_gives_way_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    boxes = [box(add=one), box(add=one)]
    async with AsyncAIClient([ScriptedProvider([])], local_toolbox=boxes):
        pass
    async with AsyncAIClient([ScriptedProvider([])], local_toolbox=[boxes[0], boxes[0]]):
        pass
    [record] = caplog.records
    assert record.getMessage() == (
        "Tool 'add' of a toolbox is left out: a toolbox has one of the same name and schema"
    )


async def test_a_blocked_tool_is_neither_offered_nor_run() -> None:
    talk = Talk(calls(call("work", tag="a")), says("done"), blocked_tools=["work"])
    [messages, _] = await talk.chat()
    assert messages[1].kind == "unknown_tool"
    assert "work" not in messages[1].error.partition("Available tools")[2]
    assert all("work" not in {tool.name for tool in request.tools} for request in talk.model.requests)
    assert talk.deeds.begun == []


async def test_the_blocklist_is_kept_while_the_client_is_closed() -> None:
    talk = Talk()
    await talk.client.block_tools(["work"])
    for _ in range(2):
        async with talk.client:
            assert "work" not in names(talk.client)
    await talk.client.unblock_tools(["work"])
    async with talk.client:
        assert "work" in names(talk.client)


async def test_tools_are_enabled_while_one_is_left() -> None:
    talk = Talk(tools=box(one=one, two=two))
    async with talk.client:
        assert talk.client.tools_enabled()
        await talk.client.block_tools(["one"])
        assert talk.client.tools_enabled()
        await talk.client.block_tools(["two"])
        assert not talk.client.tools_enabled()


@pytest.mark.parametrize("method", ["set_blocked_tools", "block_tools", "unblock_tools"])
@pytest.mark.parametrize("wrong", ["work", 3, [3], [""], None])
async def test_a_blocklist_has_to_be_a_collection_of_names(method: str, wrong: Any) -> None:
    talk = Talk()
    async with talk.client:
        with pytest.raises(TypeError, match="'names' must"):
            await getattr(talk.client, method)(wrong)
        assert "work" in names(talk.client)


async def test_a_change_takes_effect_at_once_or_with_the_next_refresh() -> None:
    tools = box(one=one)
    talk = Talk(tools=tools)
    async with talk.client:
        await talk.client.block_tools(["one"], refresh=False)
        assert names(talk.client) == ["one"]
        tools.add(two)
        assert names(talk.client) == ["one"]
        await talk.client.refresh_tools()
        assert names(talk.client) == ["two"]


async def test_a_round_keeps_the_tools_that_it_started_with_and_the_next_has_the_new_ones() -> None:
    talk = Talk(
        calls(call("work", tag="a", seconds=1), call("after", tag="b", seconds=1), delay=1),
        calls(call("work", tag="c")),
        says("done"),
    )
    async with talk.client, anyio.create_task_group() as group:
        turn = talk.client.chat("q", history=talk.history)
        events: list[Any] = []
        group.start_soon(collect, turn, events)
        await anyio.sleep(0.5)
        await talk.client.block_tools(["work", "after"])
    assert talk.deeds.done == ["a", "b"]
    first, second, _ = events
    assert [outcome.result for outcome in first[1::2]] == ["a done", "b done"]
    assert second[1].kind == "unknown_tool"
    offered = [{tool.name for tool in request.tools} for request in talk.model.requests]
    assert "work" in offered[0]
    assert all("work" not in one for one in offered[1:])
