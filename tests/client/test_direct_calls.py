from typing import Any

import anyio
import pytest

from seqoria_runtime.models import ToolCallRequest
from seqoria_runtime.models.errors import ToolExecutionError, ToolNotFoundError
from seqoria_runtime.toolbox import LocalToolbox
from tests.support.talk import Talk

pytestmark = pytest.mark.clause("C63", "C75")


def asked(**_: Any) -> str:
    raise AssertionError("the registry was asked")


def tools_for(seen: list[Any]) -> LocalToolbox:
    tools = LocalToolbox()

    @tools.tool(server_populated=["user_id", "region"])
    async def pay(amount: int, user_id: str, region: str = "north") -> dict[str, Any]:
        seen.append((amount, user_id, region))
        return {"paid": amount}

    @tools.tool()
    def refuse() -> str:
        raise ValueError("not today")

    @tools.tool(timeout=0.5)
    async def slow() -> str:
        await anyio.sleep(5)
        return "late"

    @tools.tool(depends_on=["slow"])
    async def dependent() -> str:
        return "ran"

    return tools


def talk_with(seen: list[Any], **options: Any) -> Talk:
    registry = {"user_id": asked, "region": asked}
    return Talk(tools=tools_for(seen), param_registry=registry, **options)


async def call(talk: Talk, name: str, *args: Any, **options: Any) -> str:
    async with talk.client:
        [content] = await talk.client.call_mcp_tool(name, *args, **options)
    assert content.type == "text"
    return content.text


async def test_a_tool_is_called_by_name_with_explicit_trusted_values() -> None:
    seen: list[Any] = []
    text = await call(talk_with(seen), "pay", {"amount": "5"}, server_args={"user_id": "u1"})
    assert text == '{\n  "paid": 5\n}'
    assert seen == [(5, "u1", "north")]


async def test_a_tool_without_parameters_needs_no_arguments() -> None:
    assert await call(talk_with([]), "dependent") == "ran"


@pytest.mark.parametrize("allow_override", [False, True])
async def test_a_hidden_name_among_the_arguments_is_refused(allow_override: bool) -> None:
    seen: list[Any] = []
    talk = talk_with(seen, allow_override=allow_override)
    with pytest.raises(ValueError, match="Cannot override server-populated param: user_id"):
        await call(talk, "pay", {"amount": 5, "user_id": "u1"}, server_args={"user_id": "u1"})
    assert seen == []


async def test_a_trusted_value_that_no_hidden_parameter_takes_is_refused() -> None:
    with pytest.raises(ValueError, match="Unknown server parameter: amount"):
        await call(talk_with([]), "pay", {}, server_args={"amount": 5})


async def test_a_missing_trusted_value_is_not_looked_for() -> None:
    with pytest.raises(ToolExecutionError, match="user_id") as caught:
        await call(talk_with([]), "pay", {"amount": 5})
    assert caught.value.kind == "missing_parameter"


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "text"),
    [
        ("pay", {"amount": "many"}, "invalid_arguments", "amount"),
        ("pay", {"amount": 5, "extra": 1}, "invalid_arguments", "extra"),
        ("refuse", {}, "failed", "Tool 'refuse' failed: not today"),
        ("slow", {}, "timed_out", "Tool 'slow' timed out after 0.5s"),
    ],
)
async def test_a_failed_call_is_raised_with_its_kind(
    name: str, arguments: dict[str, Any], kind: str, text: str
) -> None:
    server_args = {"user_id": "u1"} if name == "pay" else None
    with pytest.raises(ToolExecutionError, match=text) as caught:
        await call(talk_with([]), name, arguments, server_args=server_args)
    assert caught.value.kind == kind


@pytest.mark.clause("C103")
async def test_an_unknown_or_blocked_tool_is_not_found() -> None:
    for name in ("nothing", "pay"):
        with pytest.raises(ToolNotFoundError, match=f"Tool '{name}' not found on any connected server"):
            await call(talk_with([], blocked_tools=["pay"]), name, {"amount": 5})


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("",), "'name' must be the name of a tool"),
        ((None,), "'name' must be the name of a tool"),
        (("pay", [1]), "'arguments' must be a mapping"),
        (("pay", {}, {}), "positional"),
    ],
)
async def test_a_wrong_argument_is_refused_by_name(args: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        await call(talk_with([]), *args)


@pytest.mark.clause("C43", "C48")
async def test_a_direct_call_takes_a_slot_and_waits_for_one() -> None:
    tools = LocalToolbox()

    @tools.tool()
    async def work() -> str:
        await anyio.sleep(1)
        return str(anyio.current_time())

    talk = Talk(tools=tools, max_concurrency=1)
    batch = [ToolCallRequest(id=f"c{number}", name="work") for number in range(5)]
    async with talk.client, anyio.create_task_group() as group:
        group.start_soon(talk.client.run_tool_calls, batch)
        await anyio.sleep(0.5)
        assert talk.client.stats().free_slots == 0
        [content] = await talk.client.call_mcp_tool("work")
    assert content.text == "2.0"


async def test_a_cancelled_direct_call_ends_before_its_caller_goes_on() -> None:
    talk = Talk()
    async with talk.client:
        with anyio.move_on_after(1):
            await talk.client.call_mcp_tool("lingers", {"tag": "a", "seconds": 5})
        assert talk.deeds.cleaned == ["a"]
        assert talk.client.stats().free_slots == 16


@pytest.mark.parametrize("method", ["run_tool_calls", "run_call_stream"])
@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (ToolCallRequest(id="1", name="add"), r"not a single one: use \[call\]"),
        ("add", "'calls' must be a list of ToolCallRequest objects, not str"),
        ([{"id": "1", "name": "add"}], r"calls\[0\] must be a ToolCallRequest, not dict"),
    ],
)
def test_what_is_not_a_list_of_calls_is_refused_at_the_call(method: str, wrong: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        getattr(Talk().client, method)(wrong)
