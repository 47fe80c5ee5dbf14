"""Remote servers as a client's own: their tools in turns, changes while turns run, errors, and the close."""

from typing import Any

import anyio
import pytest

from seqoria_runtime.client import AsyncAIClient, ClientSettings
from seqoria_runtime.mcp import MCPServerConfig
from seqoria_runtime.models import (
    AssistantMessage,
    ToolCallError,
    ToolCallRequest,
    ToolCallResult,
    ToolMessages,
    ToolOutcome,
    ToolProgress,
)
from seqoria_runtime.models.errors import (
    ClientStateError,
    MCPConnectionError,
    MCPRequestError,
    ToolExecutionError,
    ToolNotFoundError,
)
from seqoria_runtime.testing import ScriptedProvider, call, calls, says
from seqoria_runtime.toolbox import LocalToolbox
from tests.support.histories import check_history
from tests.support.mcp_fakes import FakeServer, Json, text_result


def config(server: FakeServer, **options: Any) -> MCPServerConfig:
    return MCPServerConfig(server=server, **options)


def client_of(*servers: FakeServer | MCPServerConfig, script: Any = (), **options: Any) -> AsyncAIClient:
    configs = [config(server) if isinstance(server, FakeServer) else server for server in servers]
    return AsyncAIClient([ScriptedProvider(script)], mcp_servers=configs, **{"system_prompt": "", **options})


def names(client: AsyncAIClient) -> list[str]:
    return [tool["function"]["name"] for tool in client.list_tools()]


def request(name: str, **arguments: Any) -> ToolCallRequest:
    return ToolCallRequest(id="c1", name=name, arguments=arguments)


class Gate:
    def __init__(self) -> None:
        self.entered = anyio.Event()
        self.open = anyio.Event()

    async def __call__(self, arguments: Json) -> Json:
        self.entered.set()
        await self.open.wait()
        return text_result("through")


@pytest.mark.clause("C101", "C103")
async def test_a_turn_runs_remote_and_local_tools_side_by_side() -> None:
    server, tools = FakeServer("files"), LocalToolbox()
    server.tool("read", description="Read a file.")

    @tools.tool()
    async def think(about: str) -> str:
        return f"thought about {about}"

    script = [calls(call("think", about="it"), call("read", path="/x")), says("done")]
    client = client_of(server, script=script, local_toolbox=tools)
    history: list[Any] = []
    async with client, client.chat("go", history=history) as turn:
        messages, answer = [event async for event in turn]
    assert isinstance(messages, ToolMessages)
    assert [outcome.result for outcome in messages[1::2] if isinstance(outcome, ToolCallResult)] == [
        "thought about it",
        "read",
    ]
    assert isinstance(answer, AssistantMessage)
    check_history(history)
    assert server.asked[-1]["params"]["arguments"] == {"path": "/x"}


@pytest.mark.clause("C103")
async def test_before_entering_and_after_leaving_there_are_servers_but_no_tools() -> None:
    server = FakeServer()
    server.tool("a")
    client = client_of(server)
    assert client.list_mcp_servers() == [config(server)]
    assert await client.add_mcp_servers(["http://127.0.0.1:1/mcp"], connect=False) == 1
    assert await client.remove_mcp_server("http://127.0.0.1:1/mcp") == 1
    with pytest.raises(ClientStateError, match="not open"):
        await client.add_mcp_server("http://127.0.0.1:1/mcp")
    assert (client.list_tools(), client.tools_enabled()) == ([], False)
    for _ in range(2):
        async with client:
            assert names(client) == ["a"]
            assert [status.state for status in client.mcp_status()] == ["connected"]
        assert (client.list_tools(), client.tools_enabled()) == ([], False)
        assert client.list_mcp_servers() == [config(server)]
    assert server.connections == 2


@pytest.mark.clause("C103", "C104")
async def test_servers_come_and_go_while_the_client_is_open() -> None:
    first, second = FakeServer("first"), FakeServer("second")
    first.tool("a")
    second.tool("b")
    async with client_of() as client:
        assert client.mcp_status() == []
        assert await client.add_mcp_servers([config(first), config(second), config(first)]) == 2
        assert await client.add_mcp_server(config(first)) == 0
        assert names(client) == ["a", "b"]
        [outcome] = await client.run_tool_calls([request("b")])
        assert isinstance(outcome, ToolCallResult)
        assert await client.remove_mcp_servers([config(first), "unknown"]) == 1
        assert names(client) == ["b"]
        assert client.list_mcp_servers() == [config(second)]
        [outcome] = await client.run_tool_calls([request("a")])
        assert isinstance(outcome, ToolCallError)
        assert outcome.kind == "unknown_tool"


@pytest.mark.clause("C104")
async def test_local_tools_keep_their_names_and_an_alias_reaches_its_own_server() -> None:
    tools = LocalToolbox()

    @tools.tool()
    async def look(at: int) -> str:
        return f"local {at}"

    one, two, three = FakeServer("one"), FakeServer("two"), FakeServer("three")

    async def say_two(arguments: Json) -> Json:
        return text_result("two")

    one.tool("look", inputSchema={"type": "object", "title": "one"})
    two.tool("look", say_two, inputSchema={"type": "object", "title": "two"})
    three.tool("look", inputSchema={"type": "object", "title": "one"})
    three.tool("dots.and spaces")
    client = client_of(one, two, three, local_toolbox=tools)
    async with client:
        plain, first, second, odd = names(client)
        assert plain == "look"
        assert first.startswith("look__")
        assert second.startswith("look__")
        assert odd.startswith("dots_and_spaces__")
        batch = [request("look", at=1), request(first), request(second), request(odd)]
        outcomes = await client.run_tool_calls(batch)
        assert [outcome.result for outcome in outcomes if isinstance(outcome, ToolCallResult)] == [
            "local 1",
            "look",
            "two",
            "dots.and spaces",
        ]
        assert [outcome.name for outcome in outcomes] == [plain, first, second, odd]
        assert two.calls() == ["look"]
        assert three.calls() == ["dots.and spaces"]


@pytest.mark.clause("C104")
@pytest.mark.parametrize("when", ["opened", "added", "refreshed"])
async def test_names_go_by_configuration_and_not_by_the_order_of_connecting(when: str) -> None:
    late, early = titled("late"), titled("early")
    late.delays = {"initialize": [0.5], "server/discover": [0.5]}
    servers = [config(late, timeout=1.0), config(early, timeout=1.0)]
    async with client_of(*(servers if when == "opened" else ())) as client:
        if when == "added":
            assert await client.add_mcp_servers(servers) == 2
        if when == "refreshed":
            assert await client.add_mcp_servers(servers, connect=False) == 2
            await client.refresh_tools()
        assert owner_of_the_plain_name(client) == "late"


@pytest.mark.clause("C104")
async def test_a_plain_name_stays_with_its_server_when_one_before_it_comes_up_later() -> None:
    late, early = titled("late"), titled("early")
    late.silent_to = {"initialize", "server/discover"}
    client = client_of(config(late, timeout=1.0), early)
    async with client:
        assert names(client) == ["t"]
        late.silent_to = set()
        for _ in range(2):
            await client.refresh_tools()
            assert owner_of_the_plain_name(client) == "early"
            # Neither an empty list for a while nor a blocked name sets it free.
            early.tools, tools = [], early.tools
            await client.refresh_tools()
            assert [name[:3] for name in names(client)] == ["t__"]
            await client.block_tools(["t"])
            early.tools = tools
            await client.refresh_tools()
            await client.unblock_tools(["t"])
        [outcome] = await client.run_tool_calls([request("t")])
        assert isinstance(outcome, ToolCallResult)
        assert (early.calls(), late.calls()) == (["t"], [])
        await client.remove_mcp_server(config(early))
        assert owner_of_the_plain_name(client) == "late"
    await client.add_mcp_servers([config(early)], connect=False)
    async with client:
        assert owner_of_the_plain_name(client) == "late"


@pytest.mark.clause("C104")
async def test_an_equal_tool_stays_with_the_server_that_has_been_offering_it() -> None:
    late, early = FakeServer("late"), FakeServer("early")
    late.tool("t")
    early.tool("t")
    late.silent_to = {"initialize", "server/discover"}
    async with client_of(config(late, timeout=1.0), early) as client:
        late.silent_to = set()
        await client.refresh_tools()
        await client.run_tool_calls([request("t")])
        assert (early.calls(), late.calls()) == (["t"], [])


@pytest.mark.clause("C104")
async def test_a_tool_of_a_toolbox_takes_its_plain_name_whenever_it_comes() -> None:
    server, tools = titled("server"), LocalToolbox()
    async with client_of(server, local_toolbox=tools) as client:
        assert owner_of_the_plain_name(client) == "server"
        tools.add(lambda: "local", name="t")
        await client.refresh_tools()
        [outcome] = await client.run_tool_calls([request("t")])
        assert isinstance(outcome, ToolCallResult)
        assert outcome.result == "local"


@pytest.mark.clause("C104")
async def test_an_equal_tool_that_gives_way_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    one, two = FakeServer("one"), FakeServer("two")
    one.tool("t")
    two.tool("t")
    async with client_of(config(one, name="one"), config(two, name="two")) as client:
        await client.refresh_tools()
        await client.refresh_tools()
    assert [record.getMessage() for record in caplog.records] == [
        "Tool 't' of server 'two' is left out: server 'one' has one of the same name and schema"
    ]


def titled(name: str) -> FakeServer:
    server = FakeServer(name)
    server.tool("t", inputSchema={"type": "object", "title": name})
    return server


def owner_of_the_plain_name(client: AsyncAIClient) -> str:
    [title] = [
        tool["function"]["parameters"]["title"]
        for tool in client.list_tools()
        if tool["function"]["name"] == "t"
    ]
    return str(title)


@pytest.mark.clause("C107")
async def test_a_remote_dependency_orders_calls_as_a_local_one_does() -> None:
    server = FakeServer()
    order: list[str] = []

    def step(name: str, seconds: float) -> Any:
        async def run(arguments: Json) -> Json:
            order.append(f"{name} begins")
            await anyio.sleep(seconds)
            order.append(f"{name} ends")
            return text_result(name)

        return run

    server.tool("first", step("first", 5))
    server.tool("second", step("second", 1), annotations={"depends_on": ["first"]})
    async with client_of(server) as client:
        await client.run_tool_calls([request("second"), request("first")])
    assert order == ["first begins", "first ends", "second begins", "second ends"]


@pytest.mark.clause("C55")
async def test_arguments_that_do_not_fit_settle_at_once_and_nothing_is_sent() -> None:
    server = FakeServer()
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "deep": {"type": "object", "required": ["x"]}},
        "required": ["n"],
    }
    server.tool("t", inputSchema=schema)
    async with client_of(server) as client:
        complaints: list[tuple[Json, str]] = [
            ({}, "'n' is a required property"),
            ({"n": "many"}, "n: 'many' is not of type 'integer'"),
            ({"n": 1, "deep": {}}, "deep: 'x' is a required property"),
        ]
        for arguments, said in complaints:
            [outcome] = await client.run_tool_calls([request("t", **arguments)])
            assert isinstance(outcome, ToolCallError)
            assert outcome.kind == "invalid_arguments"
            assert outcome.error == f"Tool 't' failed: the arguments do not fit: {said}"
        assert server.calls() == []
        [outcome] = await client.run_tool_calls([request("t", n=1, extra=True)])
        assert isinstance(outcome, ToolCallResult)


@pytest.mark.clause("C55")
@pytest.mark.parametrize("part", [{"type": "nonsense"}, {"$ref": "http://x/y"}])
async def test_a_schema_that_cannot_be_used_leaves_the_check_to_the_server(part: Json) -> None:
    server = FakeServer()
    server.tool("t", inputSchema={"type": "object", "properties": {"a": part}})
    async with client_of(server) as client:
        [outcome] = await client.run_tool_calls([request("t", a=1)])
        assert isinstance(outcome, ToolCallResult)


@pytest.mark.clause("C44", "C105", "C106")
async def test_a_timeout_reaches_the_server_and_counts_for_its_breaker() -> None:
    server = FakeServer()
    gate = Gate()
    server.tool("hang", gate)
    async with client_of(server, tool_timeout=2.0, breaker_threshold=2, breaker_reset_after=30.0) as client:
        for _ in range(2):
            [outcome] = await client.run_tool_calls([request("hang")])
            assert isinstance(outcome, ToolCallError)
            assert outcome.kind == "timed_out"
        await anyio.sleep(0.1)
        assert server.interrupted == ["hang", "hang"]
        [outcome] = await client.run_tool_calls([request("hang")])
        assert isinstance(outcome, ToolCallError)
        assert outcome.kind == "circuit_open"
        assert outcome.error == "Tool 'hang' failed: Circuit open for server 'fake' - retry later."
        assert client.mcp_status()[0].breaker == "open"


async def test_a_call_timeout_of_the_server_beats_the_clients() -> None:
    server = FakeServer()
    server.tool("hang", Gate())
    async with client_of(config(server, call_timeout=1.0), tool_timeout=50.0) as client:
        before = anyio.current_time()
        [outcome] = await client.run_tool_calls([request("hang")])
        assert anyio.current_time() - before == 1
        assert isinstance(outcome, ToolCallError)


@pytest.mark.clause("C43", "C54")
async def test_the_tools_of_a_server_share_its_limit_and_leave_other_tools_alone() -> None:
    async def slow(arguments: Json) -> Json:
        running.append(1)
        peaks.append(len(running))
        await anyio.sleep(1)
        running.pop()
        return text_result("done")

    running: list[int] = []
    peaks: list[int] = []
    server, other = FakeServer("small"), FakeServer("large")
    server.tool("a", slow)
    server.tool("b", slow)
    other.tool("c", slow)
    async with client_of(config(server, max_concurrency=2), other) as client:
        began = anyio.current_time()
        await client.run_tool_calls([request("a"), request("b")] * 3)
        assert (max(peaks), anyio.current_time() - began) == (2, 3)
        [cap] = client.stats().caps
        assert (cap.name, cap.limit, cap.free) == (f"server {config(server).name!r}", 2, 2)
        await client.run_tool_calls([request("c")] * 6)
        assert max(peaks) == 6


@pytest.mark.case("K9")
@pytest.mark.clause("C103")
async def test_a_round_keeps_the_tools_that_it_started_with() -> None:
    server = FakeServer()
    gate = Gate()
    server.tool("wait", gate)
    server.tool("x")
    script = [calls(call("wait"), call("x")), calls(call("x")), says("done")]
    client = client_of(server, script=script, max_concurrency=1)
    history: list[Any] = []
    async with client, client.chat("go", history=history) as turn, anyio.create_task_group() as group:
        rounds: list[Any] = []

        async def consume() -> None:
            rounds.extend([event async for event in turn])

        group.start_soon(consume)
        await gate.entered.wait()
        server.tools = [tool for tool in server.tools if tool["name"] != "x"]
        del server.handlers["x"]
        await client.refresh_tools()
        assert names(client) == ["wait"]
        gate.open.set()
    first, second, _ = rounds
    assert [type(outcome) for outcome in first[1::2]] == [ToolCallResult, ToolCallError]
    assert "answered with an error" in first[3].error
    assert second[1].kind == "unknown_tool"
    check_history(history)


@pytest.mark.clause("C3", "C105")
async def test_a_call_in_flight_fails_when_the_client_closes_and_the_history_can_go_on() -> None:
    server = FakeServer()
    gate = Gate()
    server.tool("wait", gate)
    client = client_of(server, script=[calls(call("wait")), says("again")])
    history: list[Any] = []
    async with anyio.create_task_group() as group, client:
        turn = client.chat("go", history=history)

        async def consume() -> None:
            with pytest.raises(Exception, match="the client was closed"):
                await anext(turn)

        group.start_soon(consume)
        await gate.entered.wait()
    await turn.aclose()
    check_history(history)
    assert "may have taken effect" in history[-1].error
    async with client, client.chat("go on", history=history) as second:
        answer = [event async for event in second][-1]
        assert isinstance(answer, AssistantMessage)
        assert answer.content == "again"


@pytest.mark.clause("C108")
async def test_a_required_server_that_is_down_fails_the_entering_and_what_was_opened_is_closed() -> None:
    healthy, silent = FakeServer("healthy"), FakeServer("silent")
    silent.silent_to = {"initialize", "server/discover"}
    client = client_of(healthy, config(silent, timeout=1.0, required=True))
    with pytest.raises(MCPConnectionError, match="server 'silent' did not answer within 1 s"):
        async with client:
            raise AssertionError
    assert healthy.peers == []
    silent.silent_to = set()
    async with client:
        assert [status.state for status in client.mcp_status()] == ["connected", "connected"]


@pytest.mark.clause("C108")
async def test_a_cancelled_entering_closes_what_was_opened() -> None:
    healthy, silent = FakeServer("healthy"), FakeServer("silent")
    silent.silent_to = {"initialize", "server/discover"}
    client = client_of(healthy, silent)
    with anyio.move_on_after(3) as scope:
        async with client:
            raise AssertionError
    assert scope.cancelled_caught
    assert healthy.peers == silent.peers == []


@pytest.mark.clause("C103")
async def test_the_refresher_finds_new_tools_and_servers_that_are_back() -> None:
    server, silent = FakeServer("quiet"), FakeServer("silent")
    server.tool("a")
    silent.tool("b")
    silent.silent_to = {"initialize", "server/discover"}
    async with client_of(server, config(silent, timeout=1.0), refresh_interval=10.0) as client:
        server.tool("c")
        silent.silent_to = set()
        await anyio.sleep(11)
        assert names(client) == ["a", "c", "b"]


@pytest.mark.clause("C103")
async def test_blocked_remote_tools_are_neither_offered_nor_run() -> None:
    server = FakeServer()
    server.tool("a")
    server.tool("b")
    async with client_of(server, blocked_tools=["a"]) as client:
        assert names(client) == ["b"]
        await client.set_blocked_tools(["b"])
        assert names(client) == ["a"]
        with pytest.raises(ToolNotFoundError):
            await client.call_mcp_tool("b")
        await client.unblock_tools(["b"])
        assert names(client) == ["a", "b"]
        assert server.methods().count("tools/list") == 1


@pytest.mark.clause("C75")
async def test_a_direct_call_returns_text_and_takes_no_trusted_values_for_a_server() -> None:
    server = FakeServer()

    async def refuse(arguments: Json) -> Json:
        return {**text_result("not today"), "isError": True}

    server.tool("fine")
    server.tool("refuse", refuse)
    async with client_of(server) as client:
        [content] = await client.call_mcp_tool("fine", {"x": 1})
        assert content.text == "fine"
        with pytest.raises(ToolExecutionError, match="not today") as error:
            await client.call_mcp_tool("refuse")
        assert error.value.kind == "failed"
        with pytest.raises(ValueError, match="Unknown server parameter: user_id"):
            await client.call_mcp_tool("fine", server_args={"user_id": "u1"})


@pytest.mark.clause("C75")
async def test_trusted_values_never_reach_a_server_whatever_its_annotations_say() -> None:
    server = FakeServer()
    schema = {"type": "object", "properties": {"user_id": {"type": "string"}}}
    server.tool("t", inputSchema=schema, annotations={"server_populated": ["user_id"]})
    async with client_of(server, param_registry={"user_id": "secret"}) as client:
        await client.run_tool_calls([request("t")], context={"user_id": "secret"})
    assert "secret" not in str(server.asked)


@pytest.mark.clause("C11", "C35")
async def test_progress_reaches_the_consumer_and_only_the_latest_waits_for_it() -> None:
    server = FakeServer()

    async def steps(arguments: Json) -> Json:
        token = server.asked[-1]["params"]["_meta"]["progressToken"]
        for number in range(1, 6):
            await server.notify(
                "notifications/progress", progressToken=token, progress=number, total=5, message="on"
            )
            await anyio.sleep(1)
        return text_result("there")

    server.tool("steps", steps)
    script = [calls(call("steps")), says("done")]
    client = client_of(server, script=script * 3)
    async with client:
        async with client.stream_chat("go", history=[], tool_events=True) as turn:
            events = [event async for event in turn]
        progress = [event for event in events if isinstance(event, ToolProgress)]
        assert [(one.done, one.total, one.message) for one in progress] == [
            (n, 5.0, "on") for n in range(1, 6)
        ]
        assert {one.request.name for one in progress} == {"steps"}
        async with client.stream_chat("go", history=[], tool_events=True) as turn:
            first = await anext(turn)
            assert isinstance(first, ToolProgress)
            await anyio.sleep(60)
            rest = [event async for event in turn]
        assert [type(event) for event in rest[:2]] == [ToolProgress, ToolOutcome]
        assert isinstance(rest[0], ToolProgress)
        assert rest[0].done == 5
        async with client.stream_chat("go", history=[], tool_events=False) as turn:
            assert not [event async for event in turn if isinstance(event, ToolProgress)]


async def test_resources_and_prompts_of_one_server_are_reached_by_its_name() -> None:
    server = FakeServer("library")
    server.first = {
        "resources/list": [
            {"result": {"resources": [{"uri": "x://1", "name": "one"}], "nextCursor": "2"}},
            {"result": {"resources": [{"uri": "x://2", "name": "two"}]}},
        ],
        "resources/templates/list": [
            {"result": {"resourceTemplates": [{"uriTemplate": "x://{n}", "name": "n"}]}}
        ],
        "resources/read": [{"result": {"contents": [{"uri": "x://1", "text": "body"}]}}],
        "prompts/list": [{"result": {"prompts": [{"name": "hello"}]}}],
        "prompts/get": [
            {"result": {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]}}
        ],
    }
    async with client_of(server) as client:
        library = client.mcp("library")
        assert library.name == "library"
        assert library.status().state == "connected"
        assert [resource.name for resource in await library.list_resources()] == ["one", "two"]
        assert [template.name for template in await library.list_resource_templates()] == ["n"]
        [content] = (await library.read_resource("x://1")).contents
        assert content.model_dump(by_alias=True)["text"] == "body"
        assert [prompt.name for prompt in await library.list_prompts()] == ["hello"]
        prompt = await library.get_prompt("hello", {"who": "you"})
        assert prompt.messages[0].role == "user"
        assert server.asked[-1]["params"]["arguments"] == {"who": "you"}
        with pytest.raises(
            MCPRequestError, match="server 'library' answered with an error: no resources/read"
        ):
            await library.read_resource("x://none")
        with pytest.raises(ValueError, match="no server 'nobody'"):
            client.mcp("nobody")
        server.silent_to = {"initialize", "server/discover"}
        server.die()
        await anyio.sleep(0.1)
        with pytest.raises(MCPConnectionError, match="server 'library' did not answer within 30 s") as error:
            await library.read_resource("x://1")
        assert error.value.server == "library"
    with pytest.raises(ClientStateError, match="not open"):
        client.mcp("library")
    with pytest.raises(ValueError, match="there is no server 'x': the client has none"):
        async with client_of() as client:
            client.mcp("x")


@pytest.mark.clause("C2")
@pytest.mark.parametrize(
    ("servers", "complaint"),
    [(5, "'mcp_servers' takes"), ([5], r"'mcp_servers\[0\]' must be"), ("ftp://x", "not ftp://")],
)
def test_bad_servers_are_refused_at_construction(servers: Any, complaint: str) -> None:
    with pytest.raises((TypeError, ValueError), match=complaint):
        AsyncAIClient([ScriptedProvider([])], mcp_servers=servers)
    with pytest.raises((TypeError, ValueError), match=complaint):
        AsyncAIClient([ScriptedProvider([])], settings=ClientSettings(mcp_servers=servers))


async def test_a_server_to_remove_has_to_be_given_by_name_or_configuration() -> None:
    async with client_of() as client:
        with pytest.raises(TypeError, match="'servers' takes URLs and MCPServerConfig objects, not int"):
            await client.remove_mcp_servers([5])  # type: ignore[list-item]


async def test_a_server_that_is_added_by_a_tool_outlives_the_call() -> None:
    server, tools = FakeServer("late"), LocalToolbox()
    server.tool("remote")
    client = client_of(local_toolbox=tools)

    @tools.tool()
    async def add_server() -> str:
        await client.add_mcp_server(config(server))
        return "added"

    async with client:
        await client.run_tool_calls([request("add_server")])
        server.die()
        await anyio.sleep(5)
        [outcome] = await client.run_tool_calls([request("remote")])
        assert isinstance(outcome, ToolCallResult)
