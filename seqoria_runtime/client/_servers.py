"""Owns a client's remote servers, also while it is closed.

What concerns servers is loaded when the first is added, the SDK when there is one to connect.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from seqoria_runtime._base.tools import Tool

from ._root import Root
from ._settings import CheckedSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from seqoria_runtime.mcp import MCPServer, MCPServerConfig, ServerStatus
    from seqoria_runtime.mcp._server_set import ServerSet


class Servers:
    """The servers in configured order. `on_tools_changed` is called whenever their tools are others."""

    def __init__(self, settings: CheckedSettings, on_tools_changed: "Callable[[], None]") -> None:
        self._settings = settings
        self._on_tools_changed = on_tools_changed
        self._hub: ServerSet | None = None

    @property
    def configs(self) -> "tuple[MCPServerConfig, ...]":
        return self._settings.mcp_servers if self._hub is None else self._hub.configs

    @property
    def tools(self) -> "Sequence[Sequence[Tool]]":
        """The tools of each server, as they are known now."""
        return () if self._hub is None else self._hub.tools()

    async def open(self, root: Root) -> None:
        """Connect all servers; raises `MCPConnectionError` if a required one cannot be."""
        if self.configs:
            await self._loaded().start(root.start_soon)

    async def close(self) -> None:
        if self._hub is not None:
            await self._hub.close()

    async def add(self, servers: Any, *, connect: bool, root: Root | None) -> int:
        """Add servers; give how many were new."""
        from seqoria_runtime.mcp._config.server_config import configs_of

        configs = configs_of(servers, option="servers")
        if not configs:
            return 0
        hub = self._loaded()
        if root is not None and not hub.started:
            await hub.start(root.start_soon)
        return await hub.add(configs, connect=connect)

    async def remove(self, servers: Any, *, disconnect: bool) -> int:
        """Take servers out, told by name, URL or configuration; give how many."""
        from seqoria_runtime.mcp import MCPServerConfig

        if isinstance(servers, (str, MCPServerConfig)) or not isinstance(servers, Iterable):
            servers = [servers]
        wanted = list(servers)
        for server in wanted:
            if not isinstance(server, (str, MCPServerConfig)):
                raise TypeError(
                    f"'servers' takes URLs and MCPServerConfig objects, not {type(server).__name__}"
                )
        return await self._loaded().remove(wanted, disconnect=disconnect) if self.configs else 0

    async def refresh(self, *, may_ask: bool = True) -> None:
        """Read all lists again; without `may_ask`, nobody is asked to log in for it."""
        if self._hub is not None:
            await self._hub.refresh(may_ask=may_ask)

    def status(self) -> "tuple[ServerStatus, ...]":
        return self._loaded().status() if self.configs else ()

    def handle(self, server: "str | MCPServerConfig") -> "MCPServer":
        """What the application asks of one server; raises `ValueError` if there is no such one."""
        if not self.configs:
            raise ValueError(f"there is no server {server!r}: the client has none")
        return self._loaded().server(server)

    def _loaded(self) -> "ServerSet":
        if self._hub is None:
            from seqoria_runtime.mcp._connection.server_connection import ServerOptions
            from seqoria_runtime.mcp._server_set import ServerSet

            settings = self._settings
            options = ServerOptions(
                policy=settings.retry_policy,
                breaker_threshold=settings.breaker_threshold,
                breaker_reset_after=settings.breaker_reset_after,
            )
            self._hub = ServerSet(
                settings.mcp_servers, options, on_tools_changed=self._on_tools_changed, logger=settings.logger
            )
        return self._hub
