"""Which tools a server offers: pages, changes, order of calls, and what is left out."""

from typing import Any

import anyio
import pytest

from seqoria_runtime.mcp import MCPServerConfig
from seqoria_runtime.mcp._connection.tool_list import DEBOUNCE_SECONDS, DEPENDS_ON_META_KEY, MAX_PAGES
from tests.support.mcp_fakes import FakeServer, Json
from tests.support.server_sets import running_servers


def config(server: FakeServer, **options: Any) -> MCPServerConfig:
    return MCPServerConfig(server=server, **options)


def tools(*names: str) -> list[Json]:
    return [{"name": name, "inputSchema": {"type": "object"}} for name in names]


def paged(server: FakeServer, pages: dict[str | None, Json]) -> list[str | None]:
    """Let the server list these pages by their cursors; return the list of requested cursors."""
    asked: list[str | None] = []

    async def page(cursor: str | None) -> Json:
        asked.append(cursor)
        return {"resultType": "complete", "ttlMs": 0, "cacheScope": "public", **pages[cursor]}

    server.pages = page
    return asked


@pytest.mark.case("K7")
@pytest.mark.parametrize("end", [{}, {"nextCursor": None}, {"nextCursor": ""}])
@pytest.mark.parametrize("modern", [True, False])
async def test_all_pages_are_read_in_order(end: Json, modern: bool) -> None:
    server = FakeServer(modern=modern)
    asked = paged(
        server,
        {
            None: {"tools": tools("a", "b"), "nextCursor": "c=1"},
            "c=1": {"tools": [], "nextCursor": "c=2"},
            "c=2": {"tools": tools("c", "d"), "nextCursor": "c=3"},
            "c=3": {"tools": tools("e", "f"), **end},
        },
    )
    async with running_servers(config(server)) as made:
        assert made.names() == list("abcdef")
        assert asked == [None, "c=1", "c=2", "c=3"]


@pytest.mark.case("K7")
async def test_a_circle_of_pages_is_a_clear_error() -> None:
    server = FakeServer()
    paged(server, {None: {"tools": [], "nextCursor": "x"}, "x": {"tools": tools("a"), "nextCursor": "x"}})
    async with running_servers(config(server)) as made:
        assert made.status().error == "lists its tools in a circle: a page's cursor came twice"
        assert made.names() == []


@pytest.mark.case("K7")
async def test_a_list_without_an_end_is_a_clear_error() -> None:
    server = FakeServer()
    count = 0

    async def page(cursor: str | None) -> Json:
        nonlocal count
        count += 1
        return {"tools": tools(f"t{count}"), "nextCursor": str(count)}

    server.pages = page
    async with running_servers(config(server)) as made:
        assert made.status().error == f"lists its tools on more than {MAX_PAGES} pages"
        assert count == MAX_PAGES


@pytest.mark.case("K7")
@pytest.mark.clause("C108")
async def test_half_a_list_never_counts_as_a_complete_one() -> None:
    server = FakeServer()
    whole: dict[str | None, Json] = {
        None: {"tools": tools("a"), "nextCursor": "x"},
        "x": {"tools": tools("b")},
    }
    paged(server, whole)
    async with running_servers(config(server)) as made:
        paged(server, {None: {"tools": tools("a", "c"), "nextCursor": "x"}, "x": {"nextCursor": 5}})
        await made.servers.refresh()
        assert made.names() == ["a", "b"]
        assert made.status().state == "connected"
        assert "did not list its tools" in str(made.status().error)
        paged(server, {None: {"tools": tools("c")}})
        await made.servers.refresh()
        assert made.names() == ["c"]
        assert made.status().error is None


@pytest.mark.case("K7")
async def test_of_two_tools_of_one_name_the_first_counts(caplog: pytest.LogCaptureFixture) -> None:
    server = FakeServer()
    twice: list[Json] = [
        {"name": "a", "inputSchema": {}, "description": text} for text in ("first", "second")
    ]
    paged(server, {None: {"tools": twice[:1], "nextCursor": "x"}, "x": {"tools": twice[1:]}})
    async with running_servers(config(server)) as made:
        assert [tool.description for tool in made.servers.tools()[0]] == ["first"]
        assert "lists the tool 'a' twice" in caplog.text


@pytest.mark.case("K9")
@pytest.mark.clause("C103")
@pytest.mark.parametrize("modern", [True, False])
async def test_a_change_is_followed_and_a_burst_of_notices_costs_one_reading(modern: bool) -> None:
    server = FakeServer(modern=modern)
    server.listens = modern
    server.tools = tools("x", "z")
    async with running_servers(config(server)) as made:
        await anyio.sleep(DEBOUNCE_SECONDS * 5)
        before, readings = made.servers.tools()[0], server.methods().count("tools/list")
        server.tools = [*tools("y"), {"name": "z", "inputSchema": {"type": "object", "title": "new"}}]
        for _ in range(10):
            await server.tell_change()
        await anyio.sleep(DEBOUNCE_SECONDS * 5)
        assert made.names() == ["y", "z"]
        assert server.methods().count("tools/list") == readings + 1
        assert len(made.changes) == 2
        assert [tool.name for tool in before] == ["x", "z"]


@pytest.mark.case("K9")
async def test_a_notice_while_the_list_is_read_makes_it_be_read_again() -> None:
    server = FakeServer()
    server.tools = tools("a")
    reading, go_on = anyio.Event(), anyio.Event()
    async with running_servers(config(server)) as made:
        listing = server.pages

        async def slow(cursor: str | None) -> Json:
            answer = dict(await listing(cursor))
            reading.set()
            await go_on.wait()
            return answer

        server.pages = slow
        await server.tell_change()
        await reading.wait()
        server.tools = tools("a", "b")
        await server.tell_change()
        await anyio.sleep(0.1)
        go_on.set()
        await anyio.sleep(DEBOUNCE_SECONDS * 5)
        assert made.names() == ["a", "b"]
        assert server.methods().count("tools/list") == 3


@pytest.mark.case("K9")
async def test_a_refresh_that_fails_keeps_the_old_list_and_tells(caplog: pytest.LogCaptureFixture) -> None:
    server = FakeServer()
    server.tool("a")
    async with running_servers(config(server, timeout=3.0)) as made:
        server.silent_to = {"tools/list"}
        await server.tell_change()
        await anyio.sleep(5)
        assert made.names() == ["a"]
        assert made.status().state == "connected"
        assert made.status().error == "did not list its tools within 3 s"
        assert "kept the old list of tools" in caplog.text
        assert await made.call("a") == "a"


@pytest.mark.case("K9")
async def test_a_call_of_a_tool_that_is_gone_is_an_error_of_that_call() -> None:
    server = FakeServer()
    server.tool("x")
    async with running_servers(config(server)) as made:
        old = made.tool("x")
        server.tools, server.handlers = [], {}
        await made.servers.refresh()
        assert made.names() == []
        with pytest.raises(Exception, match="server 'fake' answered with an error: no tools/call"):
            await old.call({})


@pytest.mark.clause("C107")
@pytest.mark.parametrize("modern", [True, False])
@pytest.mark.parametrize(
    ("definition", "names"),
    [
        ({"_meta": {DEPENDS_ON_META_KEY: ["a", "b"]}}, {"a", "b"}),
        ({"annotations": {"depends_on": ["a"]}}, {"a"}),
        ({"annotations": {"depends_on": "ab"}}, {"ab"}),
        ({"annotations": {"depends_on": ["a", 5, ""], "server_populated": ["user"]}}, {"a"}),
        ({"annotations": {"readOnlyHint": True}}, set()),
        ({"_meta": {DEPENDS_ON_META_KEY: {"a": 1}}}, set()),
    ],
)
async def test_a_tool_says_in_meta_or_annotations_which_tools_go_first(
    definition: Json, names: set[str], modern: bool
) -> None:
    server = FakeServer(modern=modern)
    server.tool("t", **definition)
    async with running_servers(config(server)) as made:
        assert made.tool("t").depends_on == names


@pytest.mark.clause("C75")
async def test_a_remote_tool_has_no_hidden_parameters_whatever_it_says() -> None:
    server = FakeServer()
    schema = {"type": "object", "properties": {"user_id": {"type": "string"}}, "required": ["user_id"]}
    server.tool("t", inputSchema=schema, annotations={"server_populated": ["user_id"]})
    async with running_servers(config(server)) as made:
        tool = made.tool("t")
        assert tool.hidden == ()
        assert tool.parameters == schema


async def test_tools_that_work_as_tasks_only_are_left_out() -> None:
    server = FakeServer()
    server.tool("task", execution={"taskSupport": "required"})
    server.tool("either", execution={"taskSupport": "optional"})
    async with running_servers(config(server)) as made:
        assert made.names() == ["either"]


async def test_a_server_without_tools_is_connected_all_the_same() -> None:
    server = FakeServer()
    server.capabilities = {"resources": {}}
    server.refuses = {"tools/list"}
    async with running_servers(config(server)) as made:
        assert made.status().state == "connected"
        assert made.names() == []
    liar = FakeServer()
    liar.refuses = {"tools/list"}
    async with running_servers(config(liar)) as made:
        assert made.status().error == "did not list its tools: MCPError: no tools/list"


@pytest.mark.clause("C108")
async def test_one_odd_tool_does_not_cost_the_others() -> None:
    server = FakeServer()
    server.tools = [*tools("a"), {"name": "no schema"}, 5, *tools("b")]  # type: ignore[list-item]
    async with running_servers(config(server)) as made:
        assert made.names() == ["a", "b"]
