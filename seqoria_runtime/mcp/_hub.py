"""Owns the set of a client's servers: which there are, in which order, and their common start and end.

Knows nothing of the client: it is given a way to start tasks, and tells when the tools have changed.
"""

import logging
from collections.abc import Callable, Coroutine, Iterable, MutableMapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import anyio

from seqoria_runtime._base.redaction import redact
from seqoria_runtime._base.tools import Tool
from seqoria_runtime.models.errors import MCPConnectionError

from ._config.oauth_config import InMemoryTokenStorage, TokenStorage
from ._config.server_config import MCPServerConfig
from ._config.status import ServerStatus
from ._connection.server import Server, ServerOptions
from ._login.login import auth_for
from ._tools.handle import MCPServer
from ._tools.remote import RemoteServer

Spawn: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, None]]], object]


class McpHub:
    """Servers in configured order. All methods may be called from any task of the event loop."""

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
        self._entries: list[_Entry] = []
        self._include(configs)

    @property
    def configs(self) -> tuple[MCPServerConfig, ...]:
        return tuple(entry.config for entry in self._entries)

    def tools(self) -> list[tuple[Tool, ...]]:
        """The tools of each server, as they are known now."""
        return [entry.remote.tools for entry in self._entries]

    def status(self) -> tuple[ServerStatus, ...]:
        """How each server is."""
        return tuple(entry.server.status() for entry in self._entries)

    @property
    def started(self) -> bool:
        """Whether there are tasks for the servers to run in."""
        return self._spawn is not None

    def handle(self, wanted: str | MCPServerConfig) -> MCPServer:
        """What the application asks of one server; raises like `find`."""
        return MCPServer(self.find(wanted))

    def find(self, wanted: str | MCPServerConfig) -> RemoteServer:
        """The server of this configuration, name or URL; raises `ValueError` if it is not exactly one."""
        found = [entry.remote for entry in self._entries if _is(entry.config, wanted)]
        if len(found) != 1:
            names = ", ".join(repr(config.name) for config in self.configs) or "none"
            many = "no server" if not found else "more than one server"
            shown = redact(wanted) if isinstance(wanted, str) else wanted
            raise ValueError(f"there is {many} {shown!r}; the servers are: {names}")
        return found[0]

    async def start(self, spawn: Spawn) -> None:
        """Connect all servers at once; returns when each is connected or its first attempt has failed.

        `spawn(function)` has to start a task that lives until `close`. Raises `MCPConnectionError` if a
        required server cannot be connected; the tasks then still run, as with a cancelled caller.
        """
        # Servers may be added later from within a call, whose context variables are not theirs.
        context = copy_context()
        self._spawn = lambda function: context.copy().run(spawn, function)
        await self._connect(self._entries)

    async def add(self, configs: Iterable[MCPServerConfig], *, connect: bool = True) -> int:
        """Add servers behind those that are there; give how many were new. `connect` waits for them.

        Raises like `start`, and the servers then stay.
        """
        fresh = self._include(configs)
        if connect:
            await self._connect(fresh)
        return len(fresh)

    async def remove(self, wanted: Iterable[str | MCPServerConfig], *, disconnect: bool = True) -> int:
        """Take servers out; give how many. Their calls in flight fail at once.

        Returns when all is closed; `disconnect=False` does not wait for that, nor does a cancelled
        caller, and it is closed all the same.
        """
        named = tuple(wanted)
        gone = [entry for entry in self._entries if any(_is(entry.config, one) for one in named)]
        self._entries = [entry for entry in self._entries if entry not in gone]
        await self._stop(gone, "was removed", wait=disconnect)
        return len(gone)

    async def refresh(self, *, may_ask: bool = True) -> None:
        """Read all lists of tools again, and try again to connect the servers that are down.

        Without `may_ask`, nobody is asked to log in for it.
        """
        entries = tuple(self._entries)
        self._start(entries)
        async with anyio.create_task_group() as group:
            for entry in entries:
                group.start_soon(partial(entry.server.refresh, may_ask=may_ask))

    async def close(self) -> None:
        """Close all connections, at most some seconds each; the servers can be started again."""
        entries, self._entries, self._spawn = self._entries, [], None
        for entry in entries:
            self._entries.append(self._entry(entry.config, entry.storage))
        await self._stop(entries, "was closed", wait=True)

    async def _stop(self, entries: Sequence["_Entry"], cause: str, *, wait: bool) -> None:
        for entry in entries:
            entry.server.stop(cause)
        if any(entry.remote.tools for entry in entries):
            self._on_tools_changed()
        if wait:
            for entry in entries:
                await entry.server.closed.wait()

    def _include(self, configs: Iterable[MCPServerConfig]) -> list["_Entry"]:
        fresh: list[_Entry] = []
        for config in configs:
            if config not in self.configs:
                fresh.append(self._entry(config, InMemoryTokenStorage()))
                self._entries.append(fresh[-1])
        return fresh

    def _entry(self, config: MCPServerConfig, storage: TokenStorage) -> "_Entry":
        server = Server(
            config,
            self._options,
            auth=auth_for(config, storage),
            on_tools_changed=self._on_tools_changed,
            log=_ServerLog(self._logger, {"server": config.name}),
        )
        return _Entry(config, storage, server, RemoteServer(server, self._options))

    def _start(self, entries: Iterable["_Entry"]) -> None:
        if self._spawn is not None:
            for entry in entries:
                entry.server.start(self._spawn)

    async def _connect(self, entries: Sequence["_Entry"]) -> None:
        self._start(entries)
        refusals: list[MCPConnectionError] = []

        async def attempt(entry: _Entry) -> None:
            failure = await entry.server.attempted()
            if failure is not None and entry.config.required:
                name = entry.config.name
                refusals.append(MCPConnectionError(failure.said_of(name), server=name))
                group.cancel_scope.cancel("a required server cannot be connected")

        async with anyio.create_task_group() as group:
            for entry in entries:
                group.start_soon(attempt, entry)
        if refusals:
            raise refusals[0]


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """A server, and what outlives its opening: the configuration, and tokens that have no other place."""

    config: MCPServerConfig
    storage: TokenStorage
    server: Server
    remote: RemoteServer


class _ServerLog(logging.LoggerAdapter[logging.Logger]):
    """Begins each message with the server's name."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        name = str((self.extra or {}).get("server")).replace("%", "%%")
        return f"MCP server {name!r} {msg}", kwargs


def _is(config: MCPServerConfig, wanted: str | MCPServerConfig) -> bool:
    if isinstance(wanted, MCPServerConfig):
        return config == wanted
    return wanted in {config.name, config.url}
