"""Sync tools that use the client from their thread while their time runs out."""

import threading

import anyio
import anyio.from_thread
import pytest

from seqoria_runtime import AsyncAIClient, LocalToolbox
from seqoria_runtime.models import ToolCallRequest
from seqoria_runtime.testing import ScriptedProvider


@pytest.mark.clause("C49", "C51")
@pytest.mark.real_time
async def test_a_nested_call_that_comes_after_its_parents_deadline_ends_and_gives_the_slot_back() -> None:
    tools = LocalToolbox()
    about_to_call = threading.Event()
    ended = anyio.Event()
    client = AsyncAIClient([ScriptedProvider([])], local_toolbox=tools, max_concurrency=2)

    @tools.tool()
    async def leaf() -> str:
        return "leaf"

    @tools.tool(timeout=0.5)
    def outer() -> str:
        about_to_call.set()
        try:
            anyio.from_thread.run(client.run_tool_calls, [ToolCallRequest(id="n", name="leaf")])
        finally:
            anyio.from_thread.run_sync(ended.set)
        return "outer"

    async def block_the_loop_over_the_deadline() -> None:
        while not about_to_call.is_set():
            await anyio.lowlevel.checkpoint()
        deadline = anyio.current_time() + 0.6
        while anyio.current_time() < deadline:
            pass

    async with client, anyio.create_task_group() as group:
        group.start_soon(block_the_loop_over_the_deadline)
        with anyio.fail_after(30):
            [outcome] = await client.run_tool_calls([ToolCallRequest(id="o", name="outer")])
            assert outcome.role == "tool_error"
            await ended.wait()
            while client.stats().free_slots < 2:
                await anyio.lowlevel.checkpoint()
