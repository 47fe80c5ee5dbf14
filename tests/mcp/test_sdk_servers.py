"""Servers made with the SDK, over every transport, in both eras, under uvicorn and hypercorn on trio."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, TypeAlias

import anyio
import pytest

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.mcp import MCPServerConfig
from seqoria_runtime.models import ToolCallError, ToolCallRequest, ToolCallResult, ToolProgress
from seqoria_runtime.models.errors import MCPRequestError
from seqoria_runtime.testing import ScriptedProvider, call, calls, says
from tests.support.fork_server import Command
from tests.support.processes import listening
from tests.support.sockets import unused_port

pytestmark = [
    pytest.mark.real_time,
    # The SDK leaves generators of its HTTP client to the garbage collector when it stops reading a stream.
    pytest.mark.filterwarnings("ignore:Async generator '(httpx2|httpcore2|seqoria):ResourceWarning"),
]

Configured: TypeAlias = Callable[..., MCPServerConfig]

SERVERS = ["http-asyncio", "http-trio", "sse-asyncio", "sse-trio"]
WAYS = [
    ("stdio-asyncio", "auto"),
    ("stdio-trio", "legacy"),
    ("http-asyncio", "auto"),
    ("http-asyncio", "legacy"),
    ("http-trio", "auto"),
    ("http-trio", "legacy"),
    ("sse-asyncio", "auto"),
    ("sse-trio", "legacy"),
]


@pytest.fixture(scope="module")
def config(forked: Command) -> Iterator[Configured]:
    """Return a function that returns the configuration of a server by name; HTTP servers already run."""
    with ExitStack() as stack:
        urls: dict[str, str] = {}
        for name in SERVERS:
            transport, _, backend = name.partition("-")
            port = unused_port()
            stack.enter_context(listening(forked("sdk_server", transport, backend, str(port)), port))
            urls[name] = url(transport, port)

        def make(name: str, **options: Any) -> MCPServerConfig:
            transport, _, backend = name.partition("-")
            if transport == "stdio":
                program, *arguments = forked("sdk_server", "stdio", backend, "0")
                return MCPServerConfig(command=program, args=arguments, name=name, **options)
            return MCPServerConfig(urls[name], transport, name=name, **options)

        yield make


def url(transport: str, port: int) -> str:
    return f"http://127.0.0.1:{port}/{'mcp' if transport == 'http' else 'sse'}"


def client_of(*configs: MCPServerConfig, script: Any = (), **options: Any) -> AsyncAIClient:
    return AsyncAIClient([ScriptedProvider(script)], mcp_servers=configs, system_prompt="", **options)


def request(name: str, **arguments: Any) -> ToolCallRequest:
    return ToolCallRequest(id=name, name=name, arguments=arguments)


@pytest.mark.clause("C6", "C100")
@pytest.mark.parametrize(("name", "protocol"), WAYS)
async def test_tools_resources_prompts_errors_and_timeouts(
    name: str, protocol: str, config: Configured
) -> None:
    async with client_of(config(name, protocol=protocol), tool_timeout=20) as client:
        [status] = client.mcp_status()
        assert (status.state, status.error) == ("connected", None)
        assert status.protocol == ("2026-07-28" if protocol == "auto" else "2025-11-25")
        text = "é\n" * 1000
        echo, add, fail, bad = await client.run_tool_calls([
            request("echo", text=text),
            request("add", a=1, b=2),
            request("fail"),
            request("add", a="x"),
        ])
        assert isinstance(echo, ToolCallResult)
        assert echo.result == text
        assert isinstance(add, ToolCallResult)
        assert add.result == "3"
        assert isinstance(fail, ToolCallError)
        assert fail.error == "Tool 'fail' failed: Error executing tool fail"
        assert isinstance(bad, ToolCallError)
        assert bad.kind == "invalid_arguments"
        handle = client.mcp(name)
        [content] = (await handle.read_resource("notes://one")).contents
        assert content.model_dump()["text"] == "note one"
        assert [template.name for template in await handle.list_resource_templates()] == ["note"]
        assert [prompt.name for prompt in await handle.list_prompts()] == ["greet"]
        assert (await handle.get_prompt("greet", {"name": "Ada"})).messages[0].role == "user"
        with pytest.raises(MCPRequestError):
            await handle.read_resource("nowhere://x")
        with anyio.move_on_after(0.2) as scope:
            await client.call_mcp_tool("slow", {"seconds": 30})
        assert scope.cancelled_caught
        [again] = await client.run_tool_calls([request("add", a=2, b=2)])
        assert isinstance(again, ToolCallResult)


@pytest.mark.clause("C107")
@pytest.mark.parametrize(("name", "protocol"), WAYS)
async def test_dependencies_and_progress(name: str, protocol: str, config: Configured) -> None:
    batch = calls(call("slow", seconds=0.4), call("add", a="no", b=1), call("echo", text="x"))
    script = [batch, says("done")]
    async with client_of(config(name, protocol=protocol), script=script) as client:
        async with client.stream_chat("go", history=[], tool_events=True) as turn:
            events = [event async for event in turn]
        progress = [event for event in events if isinstance(event, ToolProgress)]
        assert progress
        assert [one.done for one in progress] == sorted(one.done for one in progress)
        assert progress[-1].message == f"step {int(progress[-1].done)}"
        messages = next(event for event in events if isinstance(event, list))
        echo = messages[5]
        assert isinstance(echo, ToolCallError)
        assert echo.kind == "skipped"


@pytest.mark.clause("C103")
@pytest.mark.case("K9")
@pytest.mark.parametrize(("name", "protocol"), WAYS)
async def test_a_changed_list_is_followed(name: str, protocol: str, config: Configured) -> None:
    async with client_of(config(name, protocol=protocol)) as client:
        await anyio.sleep(0.3)  # until the subscription of the newer era is there
        new = f"grown_{name}_{protocol}_{id(client)}".replace("-", "_")
        await client.call_mcp_tool("grow", {"name": new})
        with anyio.fail_after(10):
            while new not in [tool["function"]["name"] for tool in client.list_tools()]:
                await anyio.sleep(0.02)
        [content] = await client.call_mcp_tool(new)
        assert content.text == new


@pytest.mark.clause("C105")
@pytest.mark.case("K1")
@pytest.mark.parametrize(("backend", "protocol"), [("asyncio", "legacy"), ("trio", "auto")])
async def test_a_process_that_dies_in_mid_call_is_started_again(
    backend: str, protocol: str, config: Configured
) -> None:
    async with client_of(config(f"stdio-{backend}", protocol=protocol)) as client:
        [died] = await client.run_tool_calls([request("die")])
        assert isinstance(died, ToolCallError)
        assert "exited with code 3; it may have taken effect" in died.error
        [content] = await client.call_mcp_tool("add", {"a": 1, "b": 1})
        assert content.text == "2"


@pytest.mark.clause("C105")
@pytest.mark.case("K5")
@pytest.mark.parametrize(
    ("transport", "backend", "protocol"),
    [("http", "asyncio", "auto"), ("http", "trio", "legacy"), ("sse", "asyncio", "legacy")],
)
async def test_a_server_that_is_killed_in_mid_call_and_started_again_is_found_again(
    transport: str, backend: str, protocol: str, forked: Command
) -> None:
    port = unused_port()
    command = forked("sdk_server", transport, backend, str(port))
    there = MCPServerConfig(url(transport, port), transport, protocol=protocol)
    with listening(command, port) as process:
        async with client_of(there) as client:
            with anyio.fail_after(10):
                [died] = await client.run_tool_calls([request("die")])
            assert isinstance(died, ToolCallError)
            assert "may have taken effect" in died.error
            while process.poll() is None:
                await anyio.sleep(0.005)
            [absent] = await client.run_tool_calls([request("add", a=1, b=1)])
            assert isinstance(absent, ToolCallError)
            assert absent.kind == "unavailable"
            with listening(command, port):
                [content] = await client.call_mcp_tool("add", {"a": 1, "b": 1})
                assert content.text == "2"
