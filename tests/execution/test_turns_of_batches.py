"""How batches share slots over time, seen from outside."""

import anyio
import pytest

from seqoria_runtime import AsyncAIClient, LocalToolbox
from seqoria_runtime.models import ToolCallRequest
from seqoria_runtime.testing import ScriptedProvider


def requests(name: str, count: int) -> list[ToolCallRequest]:
    return [ToolCallRequest(id=f"{name}{n}", name=name) for n in range(count)]


@pytest.mark.clause("C48")
async def test_a_batch_that_runs_one_slow_call_is_not_left_out_by_others() -> None:
    tools = LocalToolbox()
    started: list[str] = []

    def short(name: str) -> None:
        @tools.tool(name=name)
        async def run() -> str:
            started.append(name)
            await anyio.sleep(0.01)
            return name

    for name in ("a", "b", "c"):
        short(name)

    @tools.tool()
    async def slow() -> str:
        await anyio.sleep(100)
        return "slow"

    async with (
        AsyncAIClient([ScriptedProvider([])], local_toolbox=tools, max_concurrency=2) as client,
        anyio.create_task_group() as group,
    ):
        group.start_soon(client.run_tool_calls, [*requests("slow", 1), *requests("a", 50)])
        group.start_soon(client.run_tool_calls, requests("b", 50))
        group.start_soon(client.run_tool_calls, requests("c", 50))
    among_all = started[:100]
    assert max(map(among_all.count, "abc")) - min(map(among_all.count, "abc")) <= 4
