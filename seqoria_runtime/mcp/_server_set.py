"""The set of a client's servers: their order, and how they start, change and close together."""

import logging
from collections.abc import Callable, Coroutine, Iterable, MutableMapping, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, TypeAlias

import anyio

from seqoria_runtime._base.redaction import redact
from seqoria_runtime._base.tools import Tool
from seqoria_runtime.models.errors import MCPConnectionError

from ._config.oauth_config import InMemoryTokenStorage, TokenStorage
from ._config.server_config import MCPServerConfig
from ._config.status import ServerStatus
from ._connection.server_connection import ServerConnection, ServerOptions
from ._tools.mcp_server import MCPServer
from ._tools.server_calls import ServerCalls

Spawn: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, None]]], object]


class ServerSet:
    """Servers in configured order. All methods may be called from any task of the event loop.

    `on_tools_changed` is called whenever the tools of a server change.
    """

    def __init__(
        self,
        configs: Iterable[MCPServerConfig],
        options: ServerOptions,
        *,
        on_tools_changed: Callable[[], None],
        logger: logging.Logger,
    ) -> None:
        self._options = options
        self._on_tools_changed = on_tools_changed
        self._logger = logger
        self._spawn: Spawn | None = None
        self._servers: list[ServerCalls] = []
        self._include(configs)

    @property
    def configs(self) -> tuple[MCPServerConfig, ...]:
        return tuple(server.connection.config for server in self._servers)

    def tools(self) -> list[tuple[Tool, ...]]:
        """Return the tools of each server, as they are known now."""
        return [server.tools for server in self._servers]

    def status(self) -> tuple[ServerStatus, ...]:
        """Return how each server is now."""
        return tuple(server.connection.status() for server in self._servers)

    @property
    def started(self) -> bool:
        """Whether the servers have tasks to run in."""
        return self._spawn is not None

    def server(self, wanted: str | MCPServerConfig) -> MCPServer:
        """Return the server with this configuration, name or URL.

        Raises `ValueError` if it is not exactly one.
        """
        found = [server for server in self._servers if _is(server, wanted)]
        if len(found) != 1:
            names = ", ".join(repr(config.name) for config in self.configs) or "none"
            many = "no server" if not found else "more than one server"
            shown = redact(wanted) if isinstance(wanted, str) else wanted
            raise ValueError(f"there is {many} {shown!r}; the servers are: {names}")
        return MCPServer(found[0])

    async def start(self, spawn: Spawn) -> None:
        """Connect all servers at once; return when each is connected or its first attempt has failed.

        `spawn(function)` must start a task that lives until `close`. Raises `MCPConnectionError` if a
        required server cannot be connected. The tasks keep running then, and if the caller is cancelled.
        """
        # A tool may add a server. Without this copy, the server's task would keep the context variables of
        # that call, such as the credentials of one user, for all later calls.
        context = copy_context()
        self._spawn = lambda function: context.copy().run(spawn, function)
        await self._connect(self._servers)

    async def add(self, configs: Iterable[MCPServerConfig], *, connect: bool = True) -> int:
        """Append servers and return how many were new. `connect` waits for them.

        Raises like `start`. The servers stay then, and if the caller is cancelled.
        """
        new = self._include(configs)
        if connect:
            await self._connect(new)
        return len(new)

    async def remove(self, wanted: Iterable[str | MCPServerConfig], *, disconnect: bool = True) -> int:
        """Remove servers and return how many. Their calls in flight fail at once.

        Returns when they are closed. `disconnect=False` does not wait for that; neither does a cancelled
        caller, and they are closed all the same.
        """
        named = tuple(wanted)
        removed = [server for server in self._servers if any(_is(server, one) for one in named)]
        self._servers = [server for server in self._servers if server not in removed]
        await self._stop(removed, "was removed", wait=disconnect)
        return len(removed)

    async def refresh(self, *, may_ask: bool = True) -> None:
        """Read all tool lists again, and try again to connect the servers that are down.

        `may_ask=False`: never start an interactive login. If the caller is cancelled, lists that were not
        read to their end stay as they were.
        """
        servers = tuple(self._servers)
        self._start(servers)
        async with anyio.create_task_group() as group:
            for server in servers:
                group.start_soon(partial(server.connection.refresh, may_ask=may_ask))

    async def close(self) -> None:
        """Close all connections, within some seconds each; the servers can be started again.

        If the caller is cancelled, they are closed all the same.
        """
        servers, self._servers, self._spawn = self._servers, [], None
        # New objects for the next start. They keep the storage: a user who has logged in is not asked again.
        for server in servers:
            self._servers.append(self._server(server.connection.config, server.connection.storage))
        await self._stop(servers, "was closed", wait=True)

    async def _stop(self, servers: Sequence[ServerCalls], cause: str, *, wait: bool) -> None:
        for server in servers:
            server.connection.stop(cause)
        if any(server.tools for server in servers):
            self._on_tools_changed()
        if wait:
            for server in servers:
                await server.connection.closed.wait()

    def _include(self, configs: Iterable[MCPServerConfig]) -> list[ServerCalls]:
        new: list[ServerCalls] = []
        for config in configs:
            if config not in self.configs:
                new.append(self._server(config, InMemoryTokenStorage()))
                self._servers.append(new[-1])
        return new

    def _server(self, config: MCPServerConfig, storage: TokenStorage) -> ServerCalls:
        log = _ServerLog(self._logger, {"server": config.name})
        connection = ServerConnection(
            config, self._options, storage, on_tools_changed=self._on_tools_changed, log=log
        )
        return ServerCalls(connection, self._options)

    def _start(self, servers: Iterable[ServerCalls]) -> None:
        if self._spawn is not None:
            for server in servers:
                server.connection.start(self._spawn)

    async def _connect(self, servers: Sequence[ServerCalls]) -> None:
        self._start(servers)
        refusals: list[MCPConnectionError] = []

        async def attempt(connection: ServerConnection) -> None:
            failure = await connection.attempted()
            if failure is not None and connection.config.required:
                name = connection.name
                refusals.append(MCPConnectionError(failure.sentence(name), server=name))
                group.cancel_scope.cancel("a required server cannot be connected")

        async with anyio.create_task_group() as group:
            for server in servers:
                group.start_soon(attempt, server.connection)
        if refusals:
            raise refusals[0]


class _ServerLog(logging.LoggerAdapter[logging.Logger]):
    """Starts each message with the server's name."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        name = str((self.extra or {}).get("server")).replace("%", "%%")
        return f"MCP server {name!r} {msg}", kwargs


def _is(server: ServerCalls, wanted: str | MCPServerConfig) -> bool:
    config = server.connection.config
    if isinstance(wanted, MCPServerConfig):
        return config == wanted
    return wanted in {config.name, config.url}
