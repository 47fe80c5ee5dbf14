"""The known limits in docs/tools.md are as they are described there."""

import asyncio
import threading
from concurrent import futures
from functools import partial
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from seqoria_runtime import AsyncAIClient, LocalToolbox
from seqoria_runtime.models import ToolCallError, ToolCallRequest, ToolCallResult
from seqoria_runtime.models.errors import CallEndedError
from seqoria_runtime.testing import ScriptedProvider, call, calls


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_native_cancel_of_the_turns_own_task_ends_the_turn_and_leaves_a_whole_history() -> None:
    tools, history = LocalToolbox(), list[Any]()
    tasks: list[asyncio.Task[object] | None] = []

    @tools.tool()
    async def expose() -> str:
        tasks.append(asyncio.current_task())
        await anyio.sleep_forever()
        return ""

    async def cancel() -> None:
        await anyio.sleep(1)
        assert tasks[0] is not None
        tasks[0].cancel()

    model = ScriptedProvider([calls(call("expose"))])
    async with (
        AsyncAIClient([model], local_toolbox=tools, system_prompt="") as client,
        anyio.create_task_group() as group,
    ):
        group.start_soon(cancel)
        async with client.chat("Go!", history=history) as turn:
            with pytest.raises(RuntimeError, match="own cancel"):
                await anext(turn)
    assert isinstance(history[-1], ToolCallError)
    assert history[-1].kind == "cancelled"


async def test_a_sync_tool_that_is_abandoned_in_a_call_of_the_client_finds_that_call_ended(
    anyio_backend_name: str,
) -> None:
    tools = LocalToolbox()
    found: list[BaseException] = []
    ended = threading.Event()

    @tools.tool()
    async def endless() -> str:
        await anyio.sleep_forever()
        return ""

    def ask() -> None:
        try:
            anyio.from_thread.run(client.run_tool_calls, [ToolCallRequest(id="1", name="endless")])
        except BaseException as error:
            found.append(error)

    @tools.tool(timeout=1.0)
    def nested() -> str:
        ask()
        ask()
        ended.set()
        return ""

    async with AsyncAIClient([ScriptedProvider([])], local_toolbox=tools) as client:
        [outcome] = await client.run_tool_calls([ToolCallRequest(id="2", name="nested")])
        await anyio.to_thread.run_sync(ended.wait)
    assert isinstance(outcome, ToolCallError)
    assert outcome.kind == "timed_out"
    during, afterwards = found
    cancellations = (
        (asyncio.CancelledError, futures.CancelledError) if anyio_backend_name == "asyncio" else ()
    )
    assert isinstance(during, (CallEndedError, *cancellations))
    assert isinstance(afterwards, CallEndedError)


async def test_two_full_clients_whose_tools_call_each_other_wait_until_a_timeout_ends_them() -> None:
    here, there = LocalToolbox(), LocalToolbox()
    clients: dict[str, AsyncAIClient] = {}

    async def call_over(client: str) -> str:
        await anyio.sleep(1)
        [outcome] = await clients[client].run_tool_calls([ToolCallRequest(id="1", name="answer")])
        return outcome.result if isinstance(outcome, ToolCallResult) else outcome.kind

    for tools, other in ((here, "there"), (there, "here")):
        tools.add(partial(call_over, other), name="call_over")
        tools.add(lambda: "answered", name="answer")
    outcomes = []

    async def run(client: AsyncAIClient) -> None:
        outcomes.extend(await client.run_tool_calls([ToolCallRequest(id="1", name="call_over")]))

    model = ScriptedProvider([])
    async with (
        AsyncAIClient([model], local_toolbox=here, max_concurrency=1, tool_timeout=10) as clients["here"],
        AsyncAIClient([model], local_toolbox=there, max_concurrency=1, tool_timeout=20) as clients["there"],
        anyio.create_task_group() as group,
    ):
        for client in clients.values():
            group.start_soon(run, client)
    first, second = outcomes
    assert isinstance(first, ToolCallError)
    assert isinstance(second, ToolCallResult)
    assert (first.kind, second.result, anyio.current_time()) == ("timed_out", "answered", 10)
