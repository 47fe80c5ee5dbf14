"""Adding, removing, refreshing, closing, dying and calling, in any order from several tasks at once."""

from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime._base.tools import ToolFailure
from seqoria_runtime.mcp import MCPServerConfig
from tests.support.mcp_fakes import FakeServer, Json, text_result
from tests.support.server_sets import RunningServers, running_servers

pytestmark = [pytest.mark.clause("C103", "C105"), pytest.mark.case("K3")]

DEEDS = ("add", "add unconnected", "remove", "refresh", "call", "slow call", "die", "change", "mute", "heal")
STEP = st.tuples(st.sampled_from(DEEDS), st.integers(0, 2), st.sampled_from([0.0, 0.05, 0.3, 5.0]))
ACTOR = st.lists(STEP, max_size=6)


class World:
    """Three servers, and the outcomes of their calls."""

    def __init__(self, made: RunningServers) -> None:
        self.made = made
        self.servers = [self._server(number) for number in range(3)]
        self.settled: list[str] = []
        self.begun = 0
        self.names_its_server = True

    def _server(self, number: int) -> FakeServer:
        server = FakeServer(f"s{number}", modern=number == 2)
        server.listens = server.modern

        async def slow(arguments: Json) -> Json:
            await anyio.sleep(1)
            return text_result("slow")

        server.tool(f"quick{number}")
        server.tool(f"slow{number}", slow)
        return server

    async def do(self, deed: str, number: int) -> None:
        server = self.servers[number]
        servers, config = self.made.servers, MCPServerConfig(server=server, timeout=2.0)
        match deed:
            case "add":
                await servers.add([config])
            case "add unconnected":
                await servers.add([config], connect=False)
            case "remove":
                await servers.remove([config])
            case "refresh":
                await servers.refresh()
            case "call":
                await self.call(f"quick{number}")
            case "slow call":
                await self.call(f"slow{number}")
            case "die":
                server.die()
            case "change":
                await server.tell_change()
            case "mute":
                server.silent_to = {"initialize", "server/discover", "tools/list"}
            case "heal":
                server.silent_to = set()

    async def call(self, name: str) -> None:
        if name not in self.made.names():
            return
        self.begun += 1
        try:
            self.settled.append(await self.made.call(name))
        except ToolFailure as failure:
            self.settled.append(str(failure))
            self.names_its_server = self.names_its_server and f"server 's{name[-1]}'" in str(failure)


@given(actors=st.lists(ACTOR, min_size=1, max_size=4), close_after=st.sampled_from([0.0, 0.2, 3.0, 100.0]))
async def test_every_call_settles_and_nothing_is_left(actors: list[Any], close_after: float) -> None:
    async with running_servers() as made:
        world = World(made)

        async def act(steps: list[tuple[str, int, float]]) -> None:
            for deed, number, pause in steps:
                await world.do(deed, number)
                await anyio.sleep(pause)

        async with anyio.create_task_group() as group:
            for steps in actors:
                group.start_soon(act, steps)
            await anyio.sleep(close_after)
            before = anyio.current_time()
            await made.servers.close()
            assert anyio.current_time() == before
        assert len(world.settled) == world.begun
        assert world.names_its_server
        await made.servers.close()
        assert [server.peers for server in world.servers] == [[], [], []]
