"""The set of servers: start, loss, return, removal; over memory streams, in virtual time."""

from itertools import pairwise
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from seqoria_runtime.mcp import MCPServerConfig
from seqoria_runtime.models.errors import MCPConnectionError
from tests.support.mcp_fakes import FakeServer, Json, text_result
from tests.support.server_sets import running_servers


def config(server: FakeServer, **options: Any) -> MCPServerConfig:
    return MCPServerConfig(server=server, **options)


class Gate:
    """A tool that reports that it runs, and ends when it may."""

    def __init__(self) -> None:
        self.entered = anyio.Event()
        self.open = anyio.Event()

    async def __call__(self, arguments: Json) -> Json:
        self.entered.set()
        await self.open.wait()
        return text_result("through")


@pytest.mark.clause("C108")
async def test_servers_are_connected_at_the_same_time_and_tools_come_in_configured_order() -> None:
    slow, quick = FakeServer("slow"), FakeServer("quick")
    slow.tool("a")
    quick.tool("b")
    listing = slow.pages

    async def late(cursor: str | None) -> Json:
        await anyio.sleep(3)
        return await listing(cursor)

    slow.pages = late
    before = anyio.current_time()
    async with running_servers(config(slow), config(quick)) as made:
        assert anyio.current_time() - before == 3
        assert made.names() == ["a", "b"]
        assert await made.call("b") == "b"
        assert [status.state for status in made.servers.status()] == ["connected", "connected"]


@pytest.mark.clause("C108")
async def test_a_silent_server_costs_its_timeout_and_is_reported_alone() -> None:
    silent, healthy = FakeServer("silent"), FakeServer("healthy")
    silent.silent_to = {"initialize", "server/discover"}
    healthy.tool("b")
    before = anyio.current_time()
    async with running_servers(config(silent, timeout=5.0), config(healthy)) as made:
        assert anyio.current_time() - before == 5
        down, up = made.servers.status()
        assert (down.state, down.error) == ("down", "did not answer within 5 s")
        assert (up.state, up.error) == ("connected", None)
        assert await made.call("b") == "b"


@pytest.mark.clause("C108")
async def test_the_status_tells_since_when() -> None:
    server = FakeServer("s")
    server.tool("a")
    async with running_servers(config(server, timeout=2.0), wall=lambda: 1000 + anyio.current_time()) as made:
        begun = made.status().since
        await anyio.sleep(10)
        assert (made.status().state, made.status().since) == ("connected", begun)
        server.silent_to = {"initialize", "server/discover"}
        server.die()
        await anyio.sleep(2.25)
        assert (made.status().state, made.status().since - begun) == ("down", 12)


@pytest.mark.clause("C108")
async def test_a_required_server_that_cannot_be_connected_fails_the_start_with_its_error() -> None:
    silent, slow = FakeServer("silent"), FakeServer("slow")
    silent.silent_to = slow.silent_to = {"initialize", "server/discover"}
    before = anyio.current_time()
    required = config(silent, timeout=2.0, required=True)
    async with (
        running_servers(required, config(slow), start=False) as made,
        anyio.create_task_group() as group,
    ):
        with pytest.raises(MCPConnectionError, match="server 'silent' did not answer within 2 s") as error:
            await made.servers.start(group.start_soon)
        assert error.value.server == "silent"
        assert anyio.current_time() - before == 2
        await made.servers.close()


@pytest.mark.clause("C105")
async def test_a_server_that_dies_fails_its_calls_and_is_connected_again_for_the_next() -> None:
    mortal, other = FakeServer("mortal"), FakeServer("other")
    gate, elsewhere = Gate(), Gate()
    mortal.tool("wait", gate)
    mortal.tool("quick")
    other.tool("stay", elsewhere)
    async with running_servers(config(mortal), config(other)) as made:
        said: list[str] = []

        async def call(name: str) -> None:
            said.append(str(await made.failure(name)) if name == "wait" else await made.call(name))

        async with anyio.create_task_group() as group:
            for name in ("wait", "wait", "stay"):
                group.start_soon(call, name)
            await gate.entered.wait()
            await elsewhere.entered.wait()
            mortal.die()
            await anyio.sleep(0.1)
            assert said == ["Tool 'wait' failed: server 'mortal' ended; it may have taken effect"] * 2
            elsewhere.open.set()
        assert said[2] == "through"
        assert await made.call("quick") == "quick"
        assert mortal.calls() == ["wait", "wait", "quick"]
        assert mortal.connections == 2


@pytest.mark.clause("C108")
async def test_a_server_that_is_down_is_tried_again_with_longer_and_longer_pauses() -> None:
    server = FakeServer("flaky")
    server.tool("a")
    attempts: list[float] = []
    listing = server.pages

    async def refused(cursor: str | None) -> Json:
        attempts.append(anyio.current_time())
        return {"tools": 5, "nextCursor": 5}

    server.pages = refused
    async with running_servers(config(server)) as made:
        assert made.status().state == "down"
        await anyio.sleep(100)
        pauses = [later - earlier for earlier, later in pairwise(attempts)]
        assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
        server.pages = listing
        await made.until("connected")
        assert made.names() == ["a"]
        assert made.status().error is None


@pytest.mark.clause("C105")
async def test_a_server_that_dies_again_and_again_is_not_started_without_pause() -> None:
    server = FakeServer("mortal")
    server.tool("a")
    async with running_servers(config(server)) as made:
        for _ in range(200):
            server.die()
            await anyio.sleep(0.5)
        assert server.connections < 20
        assert made.names() == ["a"]


@pytest.mark.clause("C105")
async def test_the_tools_of_a_server_that_is_down_are_kept_and_their_calls_say_why() -> None:
    server = FakeServer("mortal")
    server.tool("a")
    async with running_servers(config(server, timeout=2.0)) as made:
        server.silent_to = {"initialize", "server/discover"}
        server.die()
        await made.until("down")
        failure = await made.failure("a")
        assert failure.kind == "unavailable"
        assert str(failure) == "Tool 'a' failed: server 'mortal' did not answer within 2 s"
        assert made.names() == ["a"]
        assert made.status().state == "down"


@pytest.mark.clause("C103")
@pytest.mark.case("K3")
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
async def test_servers_are_removed_in_any_order_and_the_others_work_on(order: tuple[int, ...]) -> None:
    servers = [FakeServer(f"s{number}") for number in range(3)]
    for number, server in enumerate(servers):
        server.tool(f"t{number}")
    async with running_servers(*(config(server) for server in servers)) as made:
        left = {0, 1, 2}
        for number in order:
            assert await made.servers.remove([servers[number].name]) == 1
            left.discard(number)
            assert made.names() == [f"t{one}" for one in sorted(left)]
            for one in left:
                assert await made.call(f"t{one}") == f"t{one}"
        assert await made.servers.remove(["s0"]) == 0


@pytest.mark.clause("C103")
@pytest.mark.case("K3")
async def test_removal_from_another_task_ends_calls_in_flight_at_once() -> None:
    server = FakeServer("gone")
    gate = Gate()
    server.tool("wait", gate)
    async with running_servers(config(server)) as made:
        said: list[str] = []

        async def call() -> None:
            said.append(str(await made.failure("wait")))

        async def remove() -> None:
            await gate.entered.wait()
            await made.servers.remove([config(server)])

        before = anyio.current_time()
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            group.start_soon(remove)
            group.start_soon(remove)
        assert anyio.current_time() == before
        assert said == ["Tool 'wait' failed: server 'gone' was removed; it may have taken effect"]
        assert made.names() == []


@pytest.mark.clause("C103")
@pytest.mark.case("K3")
async def test_a_hub_may_be_closed_twice_at_once_and_started_again() -> None:
    server = FakeServer("again")
    server.tool("a")
    async with running_servers(config(server)) as made:
        async with anyio.create_task_group() as group:
            group.start_soon(made.servers.close)
            group.start_soon(made.servers.close)
        assert made.names() == []
        assert [status.state for status in made.servers.status()] == ["closed"]
        async with anyio.create_task_group() as group:
            await made.servers.start(group.start_soon)
            assert await made.call("a") == "a"
            await made.servers.close()


@pytest.mark.clause("C103")
async def test_a_server_is_added_once_and_waits_for_a_refresh_where_it_is_not_to_be_connected() -> None:
    first, second = FakeServer("first"), FakeServer("second")
    first.tool("a")
    second.tool("b")
    async with running_servers(config(first)) as made:
        assert await made.servers.add([config(first), config(second), config(second)], connect=False) == 1
        assert made.names() == ["a"]
        assert [status.state for status in made.servers.status()] == ["connected", "closed"]
        await made.servers.refresh()
        assert made.names() == ["a", "b"]
        assert made.servers.configs == (config(first), config(second))


@pytest.mark.clause("C103")
async def test_one_name_for_two_servers_finds_neither() -> None:
    one, two = FakeServer("same"), FakeServer("same")
    async with running_servers(config(one), config(two)) as made:
        with pytest.raises(ValueError, match="more than one server 'same'"):
            made.servers.server("same")
        with pytest.raises(ValueError, match="no server 'other'; the servers are: 'same', 'same'"):
            made.servers.server("other")
        await made.servers.server(config(two)).request(lambda session: session.list_tools())
        assert [server.methods().count("tools/list") for server in (one, two)] == [1, 2]


async def test_a_server_that_is_removed_while_it_is_connecting_is_given_up() -> None:
    silent = FakeServer("silent")
    silent.silent_to = {"initialize", "server/discover"}
    async with running_servers(start=False) as made, anyio.create_task_group() as group:
        await made.servers.start(group.start_soon)
        async with anyio.create_task_group() as adding:
            adding.start_soon(made.servers.add, [config(silent)])
            await anyio.sleep(1)
            before = anyio.current_time()
            assert await made.servers.remove(["silent"]) == 1
        assert anyio.current_time() == before


@pytest.mark.clause("C105")
@pytest.mark.parametrize("steps", range(12))
async def test_a_caller_may_be_cancelled_at_any_step_of_its_servers_death(steps: int) -> None:
    server = FakeServer("mortal")
    gate = Gate()
    server.tool("wait", gate)
    server.tool("quick")
    async with running_servers(config(server)) as made:
        async with anyio.create_task_group() as group:
            group.start_soon(made.failure, "wait")
            await gate.entered.wait()
            server.die()
            for _ in range(steps):
                await checkpoint()
            group.cancel_scope.cancel()
        await anyio.sleep(1)
        assert await made.call("quick") == "quick"


async def test_a_cancelled_hub_leaves_nothing_running() -> None:
    server = FakeServer("cut")
    gate = Gate()
    server.tool("wait", gate)
    with anyio.move_on_after(5):
        async with running_servers(config(server)) as made:
            await made.call("wait")
    assert server.peers == []
