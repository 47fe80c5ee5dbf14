"""A tool that the application calls directly, with explicit values."""

import contextvars
import threading
from typing import Any

import anyio
import pytest
from pydantic import BaseModel, ValidationError

from seqoria_runtime.models.errors import ToolExecutionError, ToolNotFoundError
from seqoria_runtime.toolbox import LocalToolbox, TextContent, ToolInfo

request_id = contextvars.ContextVar("request_id", default="none")


class Order(BaseModel):
    amount: int
    user_id: str = "nobody"


@pytest.fixture
def tools() -> LocalToolbox:
    tools = LocalToolbox()

    @tools.tool
    def add(a: int, b: int = 2) -> list[int]:
        """Add numbers."""
        return [a + b]

    @tools.tool(depends_on=["add"], server_populated=["user_id", "db"])
    async def pay(order: Order, user_id: str, db: Any = None) -> str:
        """Pay."""
        await anyio.sleep(0)
        return f"{order.amount} {order.user_id} {user_id} {db}"

    @tools.tool
    def where() -> str:
        before, thread = request_id.get(), threading.current_thread() is threading.main_thread()
        request_id.set("changed")
        return f"{before} {thread}"

    @tools.tool
    def later() -> Any:
        async def value() -> str:
            return "later"

        return value()

    @tools.tool
    def fail(kind: str) -> Any:
        if kind == "stop":
            raise StopIteration
        if kind == "bytes":
            return b"\xff"
        raise LookupError(kind)

    return tools


@pytest.mark.clause("C63")
async def test_the_result_is_a_list_of_content(tools: LocalToolbox) -> None:
    assert await tools.call_tool("add", {"a": "1"}) == [TextContent("[\n  3\n]")]
    (content,) = await tools.call_tool("later")
    assert (content.type, content.text) == ("text", "later")


@pytest.mark.clause("C63", "C70")
async def test_trusted_values_fill_hidden_parameters_at_every_depth(tools: LocalToolbox) -> None:
    db = object()
    (content,) = await tools.call_tool(
        "pay", {"order": {"amount": 1}}, server_args={"user_id": "u1", "db": db}
    )
    assert content.text == f"1 u1 u1 {db}"
    (content,) = await tools.call_tool("pay", {"order": {"amount": 1}}, {"user_id": "u1"})
    assert content.text == "1 u1 u1 None"


@pytest.mark.clause("C63")
@pytest.mark.parametrize(
    ("name", "arguments", "server_args", "error", "message"),
    [
        ("nope", {}, None, ToolNotFoundError, "Tool 'nope' not found in LocalToolbox"),
        ("add", [1], None, TypeError, "'arguments' must be a mapping, not list"),
        ("add", {"a": 1}, "b", TypeError, "'server_args' must be a mapping, not str"),
        ("add", {"a": "x"}, None, ValidationError, "valid integer"),
        ("add", {"a": 1, "c": 1}, None, ValidationError, "Extra inputs"),
        ("add", {"a": 1}, {"b": 1}, ValueError, "Unknown server parameter: b"),
        ("pay", {"order": {"amount": 1}}, {}, RuntimeError,
         "Missing server-populated parameters for 'pay': user_id"),
        ("pay", {"order": {"amount": 1}, "user_id": "u"}, {"user_id": "u"}, ValueError,
         "Cannot override server-populated param: user_id"),
        ("pay", {"order": {"amount": 1}}, {"user_id": b"\xff"}, ToolExecutionError,
         r"Server-populated parameter 'user_id' is not valid \(string_unicode\)"),
        ("fail", {"kind": "lookup"}, None, LookupError, "lookup"),
        ("fail", {"kind": "stop"}, None, RuntimeError, "StopIteration"),
        ("fail", {"kind": "bytes"}, None, ToolExecutionError,
         "Tool 'fail' failed: its result, of type bytes"),
    ],
)  # fmt: skip
async def test_what_goes_wrong_is_raised_to_the_caller(
    tools: LocalToolbox,
    name: str,
    arguments: Any,
    server_args: Any,
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        await tools.call_tool(name, arguments, server_args)


@pytest.mark.clause("C63")
async def test_failures_tell_their_kind(tools: LocalToolbox) -> None:
    with pytest.raises(ToolExecutionError) as missing:
        await tools.call_tool("pay", {"order": {"amount": 1}})
    assert missing.value.kind == "missing_parameter"
    with pytest.raises(ToolExecutionError) as failed:
        await tools.call_tool("fail", {"kind": "bytes"})
    assert failed.value.kind == "failed"


@pytest.mark.clause("C63", "C37")
@pytest.mark.case("D1")
async def test_a_sync_function_runs_in_a_thread_with_a_copy_of_the_callers_context(
    tools: LocalToolbox,
) -> None:
    request_id.set("r1")
    (content,) = await tools.call_tool("where")
    assert content.text == "r1 False"
    assert request_id.get() == "r1"


@pytest.mark.clause("C61")
def test_the_list_tells_name_description_schema_and_annotations_in_copies(tools: LocalToolbox) -> None:
    listed = {info.name: info for info in tools.list_tools()}
    assert list(listed) == ["add", "pay", "where", "later", "fail"]
    assert listed["add"] == ToolInfo(
        name="add",
        description="Add numbers.",
        input_schema={
            "title": "addArguments",
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "a": {"title": "A", "type": "integer"},
                "b": {"title": "B", "type": "integer", "default": 2},
            },
            "required": ["a"],
        },
        annotations={},
    )
    assert listed["pay"].annotations == {"server_populated": ["db", "user_id"], "depends_on": ["add"]}
    listed["add"].input_schema["properties"].clear()
    info = tools.get_tool_info("add")
    assert info is not None
    assert list(info.input_schema["properties"]) == ["a", "b"]
    assert info.inputSchema is info.input_schema
    assert tools.get_tool_info("nope") is None
