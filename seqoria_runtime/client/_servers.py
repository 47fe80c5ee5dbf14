"""The remote servers of a client, also while it is closed.

The room `mcp` is loaded when the first server is added, the SDK when there is one to connect.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from seqoria_runtime._base.tools import Tool

from ._root import Root
from ._settings import CheckedSettings, ServerLike

if TYPE_CHECKING:
    from seqoria_runtime.mcp import MCPServer, MCPServerConfig, ServerStatus
    from seqoria_runtime.mcp._hub import McpHub


class Servers:
    """The servers in configured order. `on_tools_changed` is called whenever their tools change."""

    def __init__(self, settings: CheckedSettings, on_tools_changed: Callable[[], None]) -> None:
        self._settings = settings
        self._on_tools_changed = on_tools_changed
        self._hub: McpHub | None = None
        self._attempts = 0

    @property
    def connecting(self) -> bool:
        """Whether `add` or `refresh` waits for servers."""
        return self._attempts > 0

    @property
    def configs(self) -> "tuple[MCPServerConfig, ...]":
        return self._settings.mcp_servers if self._hub is None else self._hub.configs

    @property
    def tools(self) -> tuple[Sequence[object], Sequence[Sequence[Tool]]]:
        """The servers, and the tools of each as they are known now."""
        return ((), ()) if self._hub is None else (self._hub.configs, self._hub.tools())

    async def open(self, root: Root) -> None:
        """Connect all servers; raise `MCPConnectionError` if a required one fails.

        A cancelled caller has to close the client, which ends what was started.
        """
        if self.configs:
            await self._loaded().start(root.start_soon)

    async def close(self) -> None:
        """Close all connections; to be called under a shield."""
        if self._hub is not None:
            await self._hub.close()

    async def add(
        self, servers: ServerLike | Iterable[ServerLike], *, connect: bool, root: Root | None
    ) -> int:
        """Add servers and return how many were new; for a cancelled caller they are added all the same."""
        from seqoria_runtime.mcp._config.server_config import configs_of

        configs = configs_of(servers, option="servers")
        if not configs:
            return 0
        hub = self._loaded()
        if root is not None and not hub.started:
            await hub.start(root.start_soon)
        with self._attempt():
            return await hub.add(configs, connect=connect)

    async def remove(self, servers: ServerLike | Iterable[ServerLike], *, disconnect: bool) -> int:
        """Remove servers, given by name, URL or configuration, and return how many there were.

        They are removed for a cancelled caller too, who does not wait for their connections to close.
        """
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
        """Read all tool lists again; `may_ask=False` never starts an interactive login.

        A cancelled caller finds some lists read and the others as they were.
        """
        if self._hub is not None:
            with self._attempt():
                await self._hub.refresh(may_ask=may_ask)

    @contextmanager
    def _attempt(self) -> Generator[None, None, None]:
        self._attempts += 1
        try:
            yield
        finally:
            self._attempts -= 1

    def status(self) -> "tuple[ServerStatus, ...]":
        """Return the state of each server."""
        return self._loaded().status() if self.configs else ()

    def handle(self, server: ServerLike) -> "MCPServer":
        """Return one server's requests; raise `ValueError` if there is no such server."""
        if not self.configs:
            raise ValueError(f"there is no server {server!r}: the client has none")
        return self._loaded().handle(server)

    def _loaded(self) -> "McpHub":
        if self._hub is None:
            from seqoria_runtime.mcp._connection.server import ServerOptions
            from seqoria_runtime.mcp._hub import McpHub

            settings = self._settings
            options = ServerOptions(
                policy=settings.retry_policy,
                breaker_threshold=settings.breaker_threshold,
                breaker_reset_after=settings.breaker_reset_after,
            )
            self._hub = McpHub(
                settings.mcp_servers, options, on_tools_changed=self._on_tools_changed, logger=settings.logger
            )
        return self._hub
