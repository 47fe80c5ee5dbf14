"""The official servers, over every transport that they have, each through a client."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import mcp_types as t
import pytest

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.mcp import MCPServerConfig
from seqoria_runtime.models import (
    ToolCallError,
    ToolCallOutcome,
    ToolCallRequest,
    ToolCallResult,
    ToolProgress,
)
from seqoria_runtime.testing import ScriptedProvider, call, calls, says
from tests.support.processes import listening
from tests.support.sockets import unused_port

from .conftest import FOLDER

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.clause("C6", "C100"),
    pytest.mark.filterwarnings("ignore:Async generator '(httpx2|httpcore2|seqoria):ResourceWarning"),
]

EVERYTHING = ["stdio", "streamableHttp", "sse"]


@pytest.fixture(scope="module")
def everything(node: Path) -> Iterator[Callable[..., MCPServerConfig]]:
    """Configurations of the server that has everything, over the transport of that name."""
    program = str(node / "mcp-server-everything")
    with ExitStack() as stack:
        urls = {}
        for transport, path in (("streamableHttp", "mcp"), ("sse", "sse")):
            port = unused_port()
            stack.enter_context(listening([program, transport], port, PORT=str(port)))
            urls[transport] = f"http://127.0.0.1:{port}/{path}"

        def config(transport: str, **options: Any) -> MCPServerConfig:
            if transport == "stdio":
                return MCPServerConfig(command=program, args=["stdio"], name="everything", **options)
            way = "sse" if transport == "sse" else "http"
            return MCPServerConfig(urls[transport], way, name="everything", **options)

        yield config


def client_of(config: MCPServerConfig, script: Any = ()) -> AsyncAIClient:
    return AsyncAIClient([ScriptedProvider(script)], mcp_servers=[config], system_prompt="", tool_timeout=30)


def request(name: str, **arguments: Any) -> ToolCallRequest:
    return ToolCallRequest(id=name, name=name, arguments=arguments)


def result(outcome: ToolCallOutcome) -> str:
    assert isinstance(outcome, ToolCallResult), outcome
    return outcome.result


def names(client: AsyncAIClient) -> set[str]:
    return {tool["function"]["name"] for tool in client.list_tools()}


@pytest.mark.parametrize("transport", EVERYTHING)
async def test_everything(transport: str, everything: Callable[..., MCPServerConfig]) -> None:
    async with client_of(everything(transport)) as client:
        assert client.mcp_status()[0].error is None
        assert len(names(client)) >= 12
        assert "simulate-research-query" not in names(client)  # works as a task only
        echo, total, image, structured, bad = await client.run_tool_calls([
            request("echo", message="hi"),
            request("get-sum", a=1, b=2),
            request("get-tiny-image"),
            request("get-structured-content", location="New York"),
            request("get-sum", a="x"),
        ])
        assert result(echo) == "Echo: hi"
        assert "3" in result(total)
        assert "[image: image/png" in result(image)
        assert '"temperature"' in result(structured)
        assert isinstance(bad, ToolCallError)
        assert bad.kind == "invalid_arguments"
        handle = client.mcp("everything")
        resources = await handle.list_resources()
        assert resources
        assert (await handle.read_resource(str(resources[0].uri))).contents
        prompts = await handle.list_prompts()
        assert (await handle.get_prompt(prompts[0].name)).messages


@pytest.mark.parametrize("transport", EVERYTHING)
async def test_everything_tells_its_progress_and_can_be_cancelled(
    transport: str, everything: Callable[..., MCPServerConfig]
) -> None:
    script = [calls(call("trigger-long-running-operation", duration=1, steps=4)), says("done")]
    async with client_of(everything(transport), script) as client:
        async with client.stream_chat("go", history=[], tool_events=True) as turn:
            events = [event async for event in turn]
        assert [event.done for event in events if isinstance(event, ToolProgress)][-1] == 4
        with anyio.move_on_after(0.3) as scope:
            await client.call_mcp_tool("trigger-long-running-operation", {"duration": 30, "steps": 30})
        assert scope.cancelled_caught
        [echo] = await client.run_tool_calls([request("echo", message="still here")])
        assert result(echo) == "Echo: still here"


@pytest.mark.parametrize("transport", EVERYTHING)
async def test_everything_asks_what_it_may_ask(
    transport: str, everything: Callable[..., MCPServerConfig]
) -> None:
    async def sample(context: Any, params: Any) -> t.CreateMessageResult:
        return t.CreateMessageResult(
            role="assistant", content=t.TextContent(type="text", text="sampled"), model="m"
        )

    async def elicit(context: Any, params: Any) -> t.ElicitResult:
        return t.ElicitResult(action="decline")

    async def roots(context: Any) -> t.ListRootsResult:
        return t.ListRootsResult(roots=[t.Root(uri="file:///work")])

    asking = everything(transport, sampling=sample, elicitation=elicit, roots=roots)
    async with client_of(asking) as client:
        assert {"trigger-sampling-request", "trigger-elicitation-request", "get-roots-list"} <= names(client)
        outcomes = await client.run_tool_calls([
            request("trigger-sampling-request", prompt="x"),
            request("trigger-elicitation-request"),
        ])
        assert "sampled" in result(outcomes[0])
        assert "declin" in result(outcomes[1])


async def test_filesystem(node: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    server = MCPServerConfig(command=str(node / "mcp-server-filesystem"), args=[str(tmp_path)])
    async with client_of(server) as client:
        read, listed, outside = await client.run_tool_calls([
            request("read_text_file", path=str(tmp_path / "a.txt")),
            request("list_directory", path=str(tmp_path)),
            request("read_text_file", path="/etc/passwd"),
        ])
        assert result(read) == "hello"
        assert "a.txt" in result(listed)
        assert isinstance(outside, ToolCallError)


async def test_memory(node: Path, tmp_path: Path) -> None:
    server = MCPServerConfig(
        command=str(node / "mcp-server-memory"), env={"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}
    )
    async with client_of(server) as client:
        entity = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
        [made] = await client.run_tool_calls([request("create_entities", entities=[entity])])
        assert "Ada" in result(made)
        [found] = await client.run_tool_calls([request("search_nodes", query="programs")])
        assert "Ada" in result(found)


async def test_time() -> None:
    program = str(FOLDER / "time" / "bin" / "mcp-server-time")
    async with client_of(MCPServerConfig(command=program, args=["--local-timezone=UTC"])) as client:
        now, wrong = await client.run_tool_calls([
            request("get_current_time", timezone="UTC"),
            request("get_current_time", timezone="Nowhere/X"),
        ])
        assert "UTC" in result(now)
        assert isinstance(wrong, ToolCallError)


async def test_git(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "new.txt").write_text("x")
    program = str(FOLDER / "git" / "bin" / "mcp-server-git")
    async with client_of(MCPServerConfig(command=program, args=["--repository", str(tmp_path)])) as client:
        status, wrong = await client.run_tool_calls([
            request("git_status", repo_path=str(tmp_path)),
            request("git_status", repo_path="/"),
        ])
        assert "new.txt" in result(status)
        assert isinstance(wrong, ToolCallError)


async def test_a_server_behind_npx_is_ended_with_its_wrapper(node: Path) -> None:
    arguments = ["--no-install", "mcp-server-everything"]
    server = MCPServerConfig(command="npx", args=arguments, cwd=node.parents[1])
    async with client_of(server) as client:
        [echo] = await client.run_tool_calls([request("echo", message="wrapped")])
        assert result(echo) == "Echo: wrapped"
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "mcp-server-everything stdio" not in running
