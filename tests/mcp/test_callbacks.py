"""What a server may ask the application for in each era, and the answer without a callback."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as t
import pytest
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

from seqoria_runtime.mcp import MCPServerConfig
from tests.support.mcp_fakes import FakeServer, Json, text_result
from tests.support.server_sets import RunningServers, running_servers

# The SDK has deprecated the server side of the older era.
pytestmark = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")


class Name(BaseModel):
    name: str


def asking_server() -> MCPServer:
    """An SDK server whose tools ask back, as the older era allows."""
    server = MCPServer("asking")

    @server.tool()
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Your name?", Name)
        return f"{answer.action} {getattr(answer, 'data', None)}"

    @server.tool()
    async def sample(ctx: Context) -> str:
        question = t.SamplingMessage(role="user", content=t.TextContent(type="text", text="2+2?"))
        answer = await ctx.session.create_message(messages=[question], max_tokens=5)
        return str(getattr(answer.content, "text", answer.content))

    @server.tool()
    async def roots(ctx: Context) -> str:
        answer = await ctx.session.list_roots()
        return ", ".join(str(root.uri) for root in answer.roots)

    @server.tool()
    async def log(ctx: Context) -> str:
        await ctx.info("noted")
        return "logged"

    return server


async def elicit(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
    return t.ElicitResult(action="accept", content={"name": "Ada"})


async def sample(context: Any, params: t.CreateMessageRequestParams) -> t.CreateMessageResult:
    return t.CreateMessageResult(role="assistant", content=t.TextContent(type="text", text="4"), model="m")


async def roots(context: Any) -> t.ListRootsResult:
    return t.ListRootsResult(roots=[t.Root(uri="file:///work")])


@asynccontextmanager
async def older(**callbacks: Any) -> AsyncGenerator[RunningServers, None]:
    config = MCPServerConfig(server=asking_server(), protocol="legacy", **callbacks)
    async with running_servers(config) as made:
        yield made


async def test_in_the_older_era_the_server_asks_the_applications_callbacks() -> None:
    async with older(elicitation=elicit, sampling=sample, roots=roots) as made:
        assert await made.call("ask") == "accept name='Ada'"
        assert await made.call("sample") == "4"
        assert await made.call("roots") == "file:///work"


async def test_what_is_not_configured_is_off() -> None:
    async with older() as made:
        for name in ("ask", "sample", "roots"):
            assert (await made.failure(name)).kind == "failed"
        assert await made.call("log") == "logged"


@pytest.mark.parametrize("protocol", ["legacy", "2026-07-28"])
async def test_log_messages_reach_the_callback_in_both_eras(protocol: str) -> None:
    heard: list[Any] = []

    async def hear(params: t.LoggingMessageNotificationParams) -> None:
        heard.append(params.data)

    config = MCPServerConfig(server=asking_server(), protocol=protocol, logging=hear)
    async with running_servers(config) as made:
        assert await made.call("log") == "logged"
        await anyio.sleep(0.1)
    assert heard == ["noted"]


async def test_a_callback_that_fails_is_an_answer_to_the_server_and_the_connection_lives() -> None:
    async def fail(context: Any, params: Any) -> Any:
        raise ValueError("no way")

    async with older(elicitation=fail) as made:
        assert (await made.failure("ask")).kind == "failed"
        assert await made.call("log") == "logged"


def questioner(*rounds: Json) -> FakeServer:
    """A server of the newer era, which answers a call with questions, and in the end with their answers."""
    server = FakeServer(modern=True)
    left = list(rounds)

    async def ask(arguments: Json) -> Json:
        params = server.asked[-1]["params"]
        if left:
            return {"resultType": "input_required", **left.pop(0)}
        return text_result(f"{params.get('inputResponses')} {params.get('requestState')}")

    server.tool("ask", ask)
    return server


QUESTION = {
    "inputRequests": {
        "who": {
            "method": "elicitation/create",
            "params": {
                "mode": "form",
                "message": "Your name?",
                "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
            },
        },
        "where": {"method": "roots/list", "params": {}},
    },
    "requestState": "opaque",
}


async def test_in_the_newer_era_a_result_that_asks_for_input_is_answered_and_the_call_made_again() -> None:
    server = questioner(QUESTION, {"requestState": "wait"})
    config = MCPServerConfig(server=server, elicitation=elicit, roots=roots)
    async with running_servers(config) as made:
        assert await made.call("ask") == "None wait"
    asked = [message["params"] for message in server.asked if message["method"] == "tools/call"]
    answers = [params.get("inputResponses") for params in asked]
    assert answers[1]["who"] == {"action": "accept", "content": {"name": "Ada"}}
    assert answers[1]["where"]["roots"] == [{"uri": "file:///work"}]
    assert [params.get("requestState") for params in asked] == [None, "opaque", "wait"]


async def test_an_unanswered_question_fails_the_call_and_not_the_connection() -> None:
    server = questioner(QUESTION)
    async with running_servers(MCPServerConfig(server=server)) as made:
        failure = await made.failure("ask")
        assert "Elicitation not supported" in str(failure)
        assert await made.call("ask") == "None None"


async def test_a_callback_that_fails_in_the_newer_era_fails_the_call() -> None:
    async def fail(context: Any, params: Any) -> Any:
        raise ValueError("secret reason")

    async with running_servers(MCPServerConfig(server=questioner(QUESTION), elicitation=fail)) as made:
        failure = await made.failure("ask")
        assert "a callback of the application failed with ValueError" in str(failure)
        assert "secret" not in str(failure)


async def test_a_server_that_never_stops_asking_is_not_answered_for_ever() -> None:
    server = questioner(*[{"requestState": str(number)} for number in range(100)])
    async with running_servers(MCPServerConfig(server=server)) as made:
        failure = await made.failure("ask")
        assert "asked for input more than 10 times" in str(failure)
