from collections.abc import Callable
from typing import Any

import anyio
import pytest

from seqoria_runtime import AsyncAIClient, LocalToolbox
from seqoria_runtime.models import (
    ToolCallError,
    ToolCallOutcome,
    ToolCallRequest,
    ToolCallResult,
    ToolProgress,
)
from seqoria_runtime.models.errors import MCPConnectionError, MCPRequestError
from seqoria_runtime.testing import (
    Backend,
    LeakError,
    ScriptedProvider,
    call,
    calls,
    check_no_leaks,
    explore,
    no_leaks,
    says,
)
from seqoria_runtime.testing.mcp import (
    MCPRefusal,
    Protocol,
    RawResult,
    ScriptedMCPServer,
    ServerDeath,
    report_progress,
)
from seqoria_runtime.testing.tools import (
    Behaviour,
    FaultPlan,
    ScriptedTool,
    ToolDag,
    blocks_thread,
    fails,
    hangs,
    returns,
    sleeps,
)

pytestmark = pytest.mark.clause("C120")

each_era = pytest.mark.parametrize("protocol", ["2025-11-25", "2026-07-28"])


def offering(**behaviours: Behaviour) -> LocalToolbox:
    return ToolDag(*(ScriptedTool(name, behaviour) for name, behaviour in behaviours.items())).toolbox()


def client_of(
    *servers: ScriptedMCPServer, model: ScriptedProvider | None = None, **options: Any
) -> AsyncAIClient:
    configs = [server.config() for server in servers]
    return AsyncAIClient([model or ScriptedProvider([])], mcp_servers=configs, **options)


async def outcome_of(client: AsyncAIClient, name: str, **arguments: Any) -> ToolCallOutcome:
    [outcome] = await client.run_tool_calls([ToolCallRequest(id=name, name=name, arguments=arguments)])
    return outcome


async def error_of(client: AsyncAIClient, name: str) -> ToolCallError:
    outcome = await outcome_of(client, name)
    assert isinstance(outcome, ToolCallError)
    return outcome


async def result_of(client: AsyncAIClient, name: str, **arguments: Any) -> str:
    outcome = await outcome_of(client, name, **arguments)
    assert isinstance(outcome, ToolCallResult), outcome
    return outcome.result


@each_era
async def test_functions_answer_with_texts_json_or_what_the_protocol_has(protocol: Protocol) -> None:
    tools = LocalToolbox()

    @tools.tool()
    async def add(a: int, b: int) -> int:
        return a + b

    @tools.tool()
    def greet(name: str = "you") -> str:
        return f"hello {name}"

    @tools.tool()
    async def structured() -> RawResult:
        return RawResult({"content": [], "structuredContent": {"n": 1}})

    server = ScriptedMCPServer("maths", tools, protocol=protocol)
    async with client_of(server) as client:
        assert await result_of(client, "add", a=1, b=2) == "3"
        assert await result_of(client, "greet") == "hello you"
        assert await result_of(client, "structured") == '{"n": 1}'
        assert client.mcp_status()[0].protocol == protocol
    assert [(served.name, served.arguments, served.state) for served in server.calls] == [
        ("add", {"a": 1, "b": 2}, "answered"),
        ("greet", {}, "answered"),
        ("structured", {}, "answered"),
    ]
    assert server.connections == 0


@each_era
async def test_tools_take_their_time_fail_and_refuse_as_they_are_told(protocol: Protocol) -> None:
    tools = offering(
        slow=sleeps(3), broken=fails(KeyError("key")), refusing=fails(MCPRefusal(-32000, "not today")),
        threaded=blocks_thread(2),
    )  # fmt: skip
    server = ScriptedMCPServer("s", tools, protocol=protocol)
    async with client_of(server) as client:
        assert await result_of(client, "slow") == "slow 1"
        assert anyio.current_time() == 3
        assert await result_of(client, "threaded") == "threaded 1"
        assert anyio.current_time() == 5
        assert (await error_of(client, "broken")).error == "Tool 'broken' failed: KeyError: 'key'"
        assert "server 's' answered with an error: not today" in (await error_of(client, "refusing")).error
        with pytest.raises(MCPRequestError, match="no tool 'absent'"):
            await client.mcp("s").request(lambda session: session.call_tool("absent", {}))


async def test_a_call_that_is_given_up_is_cancelled_at_the_server() -> None:
    server = ScriptedMCPServer("s", offering(endless=hangs()))
    async with client_of(server, tool_timeout=2) as client:
        assert (await error_of(client, "endless")).kind == "timed_out"
        await anyio.sleep(1)
        assert [(served.began, served.state) for served in server.calls] == [(0, "cancelled")]


@each_era
async def test_a_server_that_dies_in_mid_call_fails_its_open_calls_and_can_be_connected_again(
    protocol: Protocol,
) -> None:
    deadly = sleeps(3).then(fails(ServerDeath()))
    server = ScriptedMCPServer(
        "s", offering(deadly=deadly, endless=hangs(), fine=sleeps(1)), protocol=protocol
    )
    other = ScriptedMCPServer("other", offering(beside=sleeps(5)))
    requests = [ToolCallRequest(id=name, name=name) for name in ("deadly", "endless", "beside")]
    async with client_of(server, other) as client:
        outcomes = await client.run_tool_calls(requests)
        assert ["it may have taken effect" in getattr(one, "error", "") for one in outcomes] == [
            True,
            True,
            False,
        ]
        assert sorted(served.state for served in server.calls) == ["cancelled", "lost"]
        assert await result_of(client, "fine") == "fine 1"
    assert server.methods.count("server/discover") == 2


async def test_a_server_that_is_down_lets_nobody_in_until_it_is_up_again() -> None:
    server = ScriptedMCPServer("s", offering(fine=sleeps(1)))
    server.down = True
    async with client_of(server) as client:
        assert client.mcp_status()[0].state == "down"
        server.down = False
        await client.refresh_tools()
        assert await result_of(client, "fine") == "fine 1"
        server.down = True
        server.die()
        await anyio.sleep(1)
        assert (await error_of(client, "fine")).kind == "unavailable"
    required = AsyncAIClient([ScriptedProvider([])], mcp_servers=[server.config(required=True)])
    with pytest.raises(MCPConnectionError, match="'s'"):
        async with required:
            pass


@each_era
async def test_other_tools_are_told_to_those_who_are_connected(protocol: Protocol) -> None:
    server = ScriptedMCPServer("s", offering(old=sleeps(0)), protocol=protocol)
    async with client_of(server) as client:
        await anyio.sleep(1)
        await server.offer(offering(new=sleeps(0)))
        await anyio.sleep(1)
        assert [tool["function"]["name"] for tool in client.list_tools()] == ["new"]
        assert await result_of(client, "new") == "new 1"


async def test_a_methods_answer_may_come_late_and_methods_may_be_added() -> None:
    server = ScriptedMCPServer("s", offering(fine=sleeps(0)))
    server.delays["tools/list"] = 4
    server.answers["prompts/list"] = lambda params: {"prompts": [{"name": "greet"}]}
    async with client_of(server) as client:
        assert anyio.current_time() == 4
        assert [prompt.name for prompt in await client.mcp("s").list_prompts()] == ["greet"]
        with pytest.raises(MCPRequestError, match="no resources/list"):
            await client.mcp("s").list_resources()


async def test_single_calls_go_wrong_as_a_plan_of_faults_says() -> None:
    plan = FaultPlan({("fine", 2): sleeps(2).then(returns("late")), ("fine", 3): fails(ServerDeath())})
    server = ScriptedMCPServer("s", offering(fine=sleeps(0)), faults=plan)
    async with client_of(server) as client:
        assert [await result_of(client, "fine") for _ in range(2)] == ["fine 1", "late"]
        assert anyio.current_time() == 2
        assert "may have taken effect" in (await error_of(client, "fine")).error
        assert await result_of(client, "fine") == "fine 2"


async def test_progress_reaches_the_consumer_of_a_turn() -> None:
    tools = LocalToolbox()

    @tools.tool()
    async def long() -> str:
        await report_progress(1, 2, "half of it")
        await anyio.sleep(1)
        return "done"

    model = ScriptedProvider([calls(call("long")), says("done")])
    async with (
        client_of(ScriptedMCPServer("s", tools), model=model) as client,
        client.stream_chat("go", history=[], tool_events=True) as turn,
    ):
        told = [event async for event in turn if isinstance(event, ToolProgress)]
    assert [(event.done, event.total, event.message) for event in told] == [(1, 2, "half of it")]


async def test_dependencies_of_a_remote_tool_order_its_calls() -> None:
    dag = ToolDag(ScriptedTool("first", sleeps(2)), ScriptedTool("then", sleeps(1), after=["first"]))
    server = ScriptedMCPServer("s", dag.toolbox())
    async with client_of(server) as client:
        await client.run_tool_calls(list(reversed(dag.calls())))
    assert [(served.name, served.began) for served in server.calls] == [("first", 0), ("then", 2)]


async def test_a_session_that_is_left_open_is_a_leak() -> None:
    server = ScriptedMCPServer("files", offering(fine=sleeps(0)))
    with no_leaks(servers=[server]):
        async with client_of(server):
            with pytest.raises(LeakError, match=r"left behind:\n  1 MCP session with 'files'$"):
                check_no_leaks(servers=[server])


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@each_era
def test_a_client_and_its_server_can_be_explored_together(backend: Backend, protocol: Protocol) -> None:
    tools = offering(quick=sleeps(0), deadly=sleeps(0).then(fails(ServerDeath())))

    async def scenario() -> None:
        server = ScriptedMCPServer("s", tools, protocol=protocol)
        client = client_of(server)
        with no_leaks(client, servers=[server]):
            async with client:
                requests = [ToolCallRequest(id=name, name=name) for name in ("quick", "deadly", "quick")]
                outcomes = await client.run_tool_calls(requests)
                assert isinstance(outcomes[1], ToolCallError)

    assert explore(scenario, schedules=20, seed=1, backend=backend).distinct > 10


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ScriptedMCPServer("s", protocol="2024"), "'protocol' must be one of 2025-11-25, 2026-07-28"),  # type: ignore[arg-type]
        (lambda: ScriptedMCPServer("s", faults=FaultPlan({("x", 1): hangs()})), "names a tool 'x'"),
        (lambda: ScriptedMCPServer("s", hiding()), "'whoami' has hidden parameters.*: user"),
    ],
)
def test_what_no_server_could_be_is_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def hiding() -> LocalToolbox:
    tools = LocalToolbox()

    @tools.tool(server_populated=["user"])
    def whoami(user: str) -> str:
        return user

    return tools
