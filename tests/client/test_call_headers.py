"""Headers for each call from its trusted context, over both ways of HTTP."""

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.mcp import MCPServerConfig
from seqoria_runtime.models import ToolCallError, ToolCallRequest, ToolCallResult
from seqoria_runtime.testing import ScriptedProvider, call, calls, says
from tests.support.mcp_fakes import HTTPFake

pytestmark = [pytest.mark.real_time, pytest.mark.clause("C75")]

WAYS = ["modern", "legacy", "sse"]
CALL = ToolCallRequest(id="1", name="t")


def token_of(context: Mapping[str, Any]) -> dict[str, str]:
    return {"Authorization": f"Bearer {context['token']}"} if "token" in context else {}


async def token_later(context: Mapping[str, Any]) -> dict[str, str]:
    return token_of(context)


def client_of(server: HTTPFake, way: str, headers: Any, *script: Any) -> AsyncAIClient:
    url, transport = (server.sse_url, "sse") if way == "sse" else (server.url, "http")
    config = MCPServerConfig(url, transport, headers)
    return AsyncAIClient([ScriptedProvider(script)], mcp_servers=[config], system_prompt="")


def seen(server: HTTPFake, method: str) -> list[str | None]:
    return [headers.get("authorization") for asked, headers in server.headers_of if asked == method]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("headers", [token_of, token_later], ids=["sync", "async"])
async def test_each_call_carries_the_credentials_of_its_request(way: str, headers: Any) -> None:
    server = HTTPFake(modern=way == "modern")
    server.tool("t")
    async with server.serving(), client_of(server, way, headers) as client:
        for user in ("ada", "bob"):
            [outcome] = await client.run_tool_calls([CALL], context={"token": user})
            assert isinstance(outcome, ToolCallResult)
        await client.refresh_tools()
        assert seen(server, "tools/call") == ["Bearer ada", "Bearer bob"]
        assert set(seen(server, "tools/list")) == {None}
        assert "ada" not in str(server.asked)


async def test_turns_at_the_same_time_do_not_mix_their_credentials() -> None:
    server = HTTPFake(modern=True)
    server.tool("t")
    script = [calls(call("t")), calls(call("t")), says("done"), says("done")]
    async with server.serving(), client_of(server, "modern", token_of, *script) as client:

        async def turn(user: str) -> None:
            async with client.chat("go", history=[], context={"token": user}) as events:
                async for _ in events:
                    pass

        async with anyio.create_task_group() as group:
            group.start_soon(turn, "ada")
            group.start_soon(turn, "bob")
        assert sorted(str(header) for header in seen(server, "tools/call")) == ["Bearer ada", "Bearer bob"]


@pytest.mark.clause("C96", "C105")
@pytest.mark.parametrize("way", WAYS)
async def test_a_value_that_no_header_may_have_fails_its_call_alone_and_is_not_shown(way: str) -> None:
    server = HTTPFake(modern=way == "modern")
    server.tool("t")
    async with server.serving(), client_of(server, way, token_of) as client:
        for token in ("sécret", "secret\nX-Admin: 1", "secret ", "secret\0"):
            [outcome] = await client.run_tool_calls([CALL], context={"token": token})
            assert isinstance(outcome, ToolCallError)
            assert "the result of 'headers' must hold ASCII" in outcome.error
            assert "'Authorization' does not" in outcome.error
            assert "cret" not in outcome.error
        [outcome] = await client.run_tool_calls([CALL], context={"token": "good"})
        assert isinstance(outcome, ToolCallResult)
        assert server.connections == 1
        assert client.mcp_status()[0].state == "connected"


async def test_a_header_function_that_fails_fails_the_call_without_asking_the_server() -> None:
    server = HTTPFake(modern=True)
    server.tool("t")

    def fragile(context: Mapping[str, Any]) -> dict[str, str]:
        if context.get("user") == "nobody":
            raise KeyError("the secret of nobody")
        return {}

    async with server.serving(), client_of(server, "modern", fragile) as client:
        [outcome] = await client.run_tool_calls([CALL], context={"user": "nobody"})
        assert isinstance(outcome, ToolCallError)
        assert outcome.error.endswith("was not asked: 'headers' failed with KeyError")
        assert "secret" not in outcome.error
        assert server.calls() == []
        assert client.mcp_status()[0].state == "connected"
