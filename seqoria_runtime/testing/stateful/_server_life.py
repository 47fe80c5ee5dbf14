"""The random life of a client's MCP servers: added, removed, dead, down, and with other tools."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.mcp import MCPServerConfig
from seqoria_runtime.testing._trace.trace import InvariantError
from seqoria_runtime.testing.mcp import ScriptedMCPServer
from seqoria_runtime.toolbox import LocalToolbox

from ._machine import AsyncRuleBasedStateMachine, initialize, invariant, rule

_STATES = {"connected", "connecting", "down"}
_CHANGES = ("back", "dies", "down", "slow", "empty")


def _has_servers(machine: Any) -> bool:
    return bool(machine.mcp_servers)


class ServerLife(AsyncRuleBasedStateMachine):
    """The rules about the servers of a machine that has a `client`."""

    client: AsyncAIClient

    def __init__(self) -> None:
        super().__init__()
        self.mcp_servers: tuple[ScriptedMCPServer, ...] = tuple(self.servers())
        self._configs = [self.config_of(server) for server in self.mcp_servers]
        self._offers: list[LocalToolbox] = [server.toolbox for server in self.mcp_servers]
        self._added: list[str] = []

    def servers(self) -> Sequence[ScriptedMCPServer]:
        """Return the servers that come and go, with different names; called once for each example."""
        return ()

    def config_of(self, server: ScriptedMCPServer) -> MCPServerConfig:
        """Return the client's configuration of a server."""
        return server.config()

    @initialize(start_with_one=st.booleans())
    async def start_with_a_server(self, start_with_one: bool) -> None:
        if self.mcp_servers and start_with_one:
            await self._add(0)

    @precondition(_has_servers)
    @rule(data=st.data())
    async def add_server(self, data: st.DataObject) -> None:
        """A server is added, perhaps again."""
        await self._add(self._place(data))

    async def _add(self, place: int) -> None:
        name = self.mcp_servers[place].name
        added = await self.client.add_mcp_server(self._configs[place])
        if bool(added) is (name in self._added):
            raise InvariantError(f"server {name!r} was added as new {added} times; known were {self._added}")
        if added:
            self._added.append(name)

    @precondition(_has_servers)
    @rule(data=st.data())
    async def remove_server(self, data: st.DataObject) -> None:
        """A server is removed, and its session is closed."""
        place = self._place(data)
        server = self.mcp_servers[place]
        removed = await self.client.remove_mcp_server(self._configs[place])
        if bool(removed) is not (server.name in self._added):
            raise InvariantError(f"server {server.name!r} was removed {removed} times of {self._added}")
        if server.connections:
            raise InvariantError(f"server {server.name!r} is removed, but its session is still open")
        if removed:
            self._added.remove(server.name)

    @precondition(_has_servers)
    @rule(data=st.data(), change=st.sampled_from(_CHANGES))
    async def change_server(self, data: st.DataObject, change: str) -> None:
        """A server dies, refuses connections, is slow, offers no tools, or is back to normal."""
        place = self._place(data)
        server = self.mcp_servers[place]
        server.down = change == "down"
        server.delays["tools/list"] = 40.0 if change == "slow" else 0.0
        if change in {"dies", "down"}:
            server.die()
        await server.offer(LocalToolbox() if change == "empty" else self._offers[place])

    @precondition(_has_servers)
    @rule()
    async def refresh_tools(self) -> None:
        await self.client.refresh_tools()

    @invariant()
    def the_client_knows_its_servers(self) -> None:
        listed = [config.name for config in self.client.list_mcp_servers()]
        known = [(status.name, status.state) for status in self.client.mcp_status()]
        if listed != self._added or [name for name, _ in known] != listed:
            raise InvariantError(f"of the servers {self._added} the client lists {listed} and knows {known}")
        if not {state for _, state in known} <= _STATES:
            raise InvariantError(f"an open client's server cannot be in such a state: {known}")

    def _place(self, data: st.DataObject) -> int:
        return data.draw(st.integers(0, len(self.mcp_servers) - 1))
