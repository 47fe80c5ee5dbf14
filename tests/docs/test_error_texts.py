"""The table of errors in docs/tools.md: its texts are those that models read."""

import re
from typing import Annotated, Any, get_args

import anyio
import pytest

from seqoria_runtime import HIDDEN, AsyncAIClient, LocalToolbox
from seqoria_runtime._base.tools import HiddenParameter, ToolFailure
from seqoria_runtime._execution.batches import outcomes
from seqoria_runtime._execution.calls.hidden_parameters import ParameterRegistry, resolve_hidden
from seqoria_runtime._execution.calls.threads import run_in_thread
from seqoria_runtime.mcp import MCPServerConfig
from seqoria_runtime.models import ToolCallError, ToolCallRequest, ToolErrorKind
from seqoria_runtime.testing import ScriptedProvider
from tests.support.mcp_fakes import FakeServer
from tests.support.pages import ROOT

PAGE = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
X = ToolCallRequest(id="1", name="x")

WHOLE = [
    outcomes.unknown(X, ["b", "a"]),
    outcomes.cut_off(X),
    outcomes.timed_out(X, 2.0, began=True),
    outcomes.timed_out(X, 2.0, began=False),
    outcomes.skipped(X, ["a", "b"]),
    outcomes.cyclic(X),
    outcomes.cancelled_before_start(X),
    outcomes.cancelled_while_running(X),
    outcomes.unavailable(X, 30.0, ["slow"]),
]
BEGINNINGS = [
    (outcomes.not_an_object(X, "[1]"), "the arguments are not a JSON object: [1]"),
    (outcomes.raised(X, ValueError("oops")), "oops"),
]


@pytest.mark.parametrize("error", WHOLE, ids=lambda error: error.error[:40])
def test_a_text_stands_in_the_table_as_it_is(error: ToolCallError) -> None:
    assert f"`{error.error}`" in PAGE


@pytest.mark.parametrize(("error", "rest"), BEGINNINGS)
def test_a_beginning_stands_in_the_table(error: ToolCallError, rest: str) -> None:
    cells = re.findall(r"`(Tool 'x'[^`]*)`", PAGE)
    assert error.error.endswith(rest)
    assert any(error.error.startswith(cell) and len(cell) > len("Tool 'x'") for cell in cells)


@pytest.mark.parametrize("registry", [None, ParameterRegistry({"user_id": lambda: int("none")})])
async def test_the_texts_about_hidden_values_stand_in_the_table(registry: ParameterRegistry | None) -> None:
    wanted = [HiddenParameter("user_id", required=True)]
    with pytest.raises(ToolFailure) as failure:
        await resolve_hidden(wanted, context={}, registry=registry, run_sync=run_in_thread, tool_name="x")
    assert f"`{failure.value}`" in PAGE


async def test_the_text_about_a_hidden_value_that_does_not_fit_stands_in_the_table() -> None:
    tools = LocalToolbox()

    @tools.tool()
    async def x(user_id: Annotated[int, HIDDEN]) -> str:
        return ""

    async with AsyncAIClient([ScriptedProvider([])], local_toolbox=tools) as client:
        [outcome] = await client.run_tool_calls([X], context={"user_id": "e-17"})
    assert isinstance(outcome, ToolCallError)
    assert f"| `{outcome.error}`" in PAGE


async def test_the_text_about_an_open_circuit_stands_in_the_table() -> None:
    server = FakeServer("files")

    async def hang(arguments: dict[str, Any]) -> dict[str, Any]:
        await anyio.sleep_forever()
        raise AssertionError

    server.tool("x", hang)
    config = MCPServerConfig(server=server, call_timeout=1.0)
    async with AsyncAIClient([ScriptedProvider([])], mcp_servers=config, breaker_threshold=1) as client:
        await client.run_tool_calls([X])
        [outcome] = await client.run_tool_calls([X])
    assert isinstance(outcome, ToolCallError)
    assert outcome.kind == "circuit_open"
    assert f"| `{outcome.error}`" in PAGE


@pytest.mark.parametrize("kind", get_args(ToolErrorKind))
def test_every_kind_is_in_the_page(kind: str) -> None:
    assert f"`{kind}`" in PAGE
