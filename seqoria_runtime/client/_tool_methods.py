"""Owns the part of `AsyncAIClient` that says which tools it offers: servers, blocklist, and their reading."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from ._lifecycle import ClientLifecycle

if TYPE_CHECKING:
    from seqoria_runtime.mcp import MCPServer, MCPServerConfig, ServerStatus

ServerLike: TypeAlias = Union[str, "MCPServerConfig"]


class ClientTools(ClientLifecycle):
    """A client as a set of tools, which may change while turns run.

    A round keeps the tools that it started with.
    """

    def list_tools(self) -> list[dict[str, Any]]:
        """The tools that models are offered now, as copies; empty while the client is closed."""
        return self._tools.listed()

    def tools_enabled(self) -> bool:
        """Whether any tool is offered now."""
        return bool(self._tools.catalogue)

    async def refresh_tools(self) -> None:
        """Read all tool lists again, and try again to connect the servers that are down.

        A list that cannot be read is kept as it was; `mcp_status` tells why.
        """
        self._require_session()
        await self._servers.refresh()
        self._rebuild(True)

    async def set_blocked_tools(self, names: Iterable[str], *, refresh: bool = True) -> None:
        """Block exactly these tools: they are neither offered nor run. A base name hides all its variants."""
        self._tools.set_blocked(names)
        self._rebuild(refresh)

    async def block_tools(self, names: Iterable[str], *, refresh: bool = True) -> None:
        """Block these tools as well."""
        self._tools.block(names)
        self._rebuild(refresh)

    async def unblock_tools(self, names: Iterable[str], *, refresh: bool = True) -> None:
        """Block these tools no longer."""
        self._tools.unblock(names)
        self._rebuild(refresh)

    async def add_mcp_servers(
        self, servers: ServerLike | Iterable[ServerLike], *, connect: bool = True, refresh_tools: bool = True
    ) -> int:
        """Add servers behind those that are there; give how many were new, by their configuration.

        `connect` waits until each is connected or has failed to (see `mcp_status`), and needs an open
        client; without it they are connected by the next `refresh_tools` or the next opening. Raises
        `MCPConnectionError` for a required server that cannot be connected; it stays in the list.
        """
        root = self._require_session().root if connect or self._session is not None else None
        try:
            return await self._servers.add(servers, connect=connect, root=root)
        finally:
            self._rebuild(refresh_tools)

    async def add_mcp_server(
        self, server: ServerLike, *, connect: bool = True, refresh_tools: bool = True
    ) -> int:
        """Add one server, as `add_mcp_servers` does."""
        return await self.add_mcp_servers([server], connect=connect, refresh_tools=refresh_tools)

    async def remove_mcp_servers(
        self,
        servers: ServerLike | Iterable[ServerLike],
        *,
        disconnect: bool = True,
        refresh_tools: bool = True,
    ) -> int:
        """Take servers out, told by configuration, name or URL; give how many.

        Their calls in flight fail at once. Returns when their connections are closed; a cancelled
        caller, or one that gives `disconnect=False`, does not wait for that, and it happens all the same.
        """
        try:
            return await self._servers.remove(servers, disconnect=disconnect)
        finally:
            self._rebuild(refresh_tools)

    async def remove_mcp_server(
        self, server: ServerLike, *, disconnect: bool = True, refresh_tools: bool = True
    ) -> int:
        """Take one server out, as `remove_mcp_servers` does."""
        return await self.remove_mcp_servers([server], disconnect=disconnect, refresh_tools=refresh_tools)

    def list_mcp_servers(self) -> "list[MCPServerConfig]":
        """The configured servers, in order, also while the client is closed."""
        return list(self._servers.configs)

    def mcp_status(self) -> "list[ServerStatus]":
        """How each server is, in the configured order: connected, connecting, or down and why."""
        return list(self._servers.status())

    def mcp(self, server: ServerLike) -> "MCPServer":
        """One server, by configuration, name or URL: its resources, prompts and session.

        Raises `ValueError` unless that is exactly one of the configured servers.
        """
        self._require_session()
        return self._servers.handle(server)

    def _rebuild(self, wanted: bool) -> None:
        if wanted and self._session is not None:
            self._tools.refresh()
