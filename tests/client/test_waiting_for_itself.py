"""Work that would wait for its own end gets an error instead."""

from typing import Any

import anyio
import pytest

from seqoria_runtime import AsyncAIClient, LocalToolbox
from seqoria_runtime.models.errors import TurnInProgressError
from seqoria_runtime.testing import ScriptedProvider, call, calls, says


@pytest.mark.clause("C31")
async def test_a_tool_cannot_close_a_turn_that_waits_for_the_tools_own_turn() -> None:
    tools = LocalToolbox()
    turns: dict[str, Any] = {}
    ready = anyio.Event()
    refused: list[str] = []

    @tools.tool()
    async def close_b() -> str:
        await ready.wait()
        await turns["b"].aclose()
        return "closed"

    @tools.tool()
    async def close_a() -> str:
        try:
            ready.set()
            await anyio.sleep_forever()
        finally:
            try:
                await turns["a"].aclose()
            except RuntimeError as error:
                refused.append(str(error))
        raise AssertionError("sleeps forever")

    provider_a = ScriptedProvider([calls(call("close_b")), says("a is done")])
    provider_b = ScriptedProvider([calls(call("close_a")), says("b is done")])
    async with (
        AsyncAIClient([provider_a], local_toolbox=tools) as client_a,
        AsyncAIClient([provider_b], local_toolbox=tools) as client_b,
        anyio.create_task_group() as group,
    ):
        turns["a"] = client_a.chat("q", history=[])
        turns["b"] = client_b.chat("q", history=[])

        async def read(name: str) -> None:
            async for _ in turns[name]:
                pass

        with anyio.fail_after(60):
            group.start_soon(read, "a")
            group.start_soon(read, "b")
    assert len(refused) == 1
    assert "waits for itself" in refused[0]


@pytest.mark.clause("C22")
async def test_a_tools_cleanup_cannot_start_a_turn_on_its_own_turns_history() -> None:
    tools = LocalToolbox()
    history: list[Any] = []
    seen: list[type[BaseException]] = []
    client: AsyncAIClient

    @tools.tool()
    async def stays() -> str:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                try:
                    await anext(client.chat("again", history=history))
                except TurnInProgressError as error:
                    seen.append(type(error))
        raise AssertionError("sleeps forever")

    async with AsyncAIClient([ScriptedProvider([calls(call("stays"))])], local_toolbox=tools) as client:
        with anyio.move_on_after(1):
            async with client.chat("q", history=history) as turn:
                await anext(turn)
    assert seen == [TurnInProgressError]
