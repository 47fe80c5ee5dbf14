"""A set of servers under test, with helpers that many tests need."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from seqoria_runtime._base.tools import Tool, ToolFailure
from seqoria_runtime.mcp import MCPServerConfig
from seqoria_runtime.mcp._config.status import ServerStatus
from seqoria_runtime.mcp._connection.server_connection import ServerOptions
from seqoria_runtime.mcp._server_set import ServerSet


@dataclass
class RunningServers:
    """The servers, and how often their tools changed."""

    servers: ServerSet
    changes: list[None] = field(default_factory=list)

    def names(self) -> list[str]:
        return [tool.name for tools in self.servers.tools() for tool in tools]

    def tool(self, name: str) -> Tool:
        return next(tool for tools in self.servers.tools() for tool in tools if tool.name == name)

    def tools_of(self, server: str) -> tuple[Tool, ...]:
        """Return the tools of the server with this name."""
        return self.servers.tools()[[config.name for config in self.servers.configs].index(server)]

    async def call(self, name: str, **arguments: Any) -> str:
        tool = self.tool(name)
        return tool.render(await tool.call(tool.validate(arguments)))

    async def failure(self, name: str, **arguments: Any) -> ToolFailure:
        try:
            answer = await self.call(name, **arguments)
        except ToolFailure as failure:
            return failure
        raise AssertionError(f"{name} answered {answer!r}")

    def status(self) -> ServerStatus:
        """Return the status of the first server."""
        return self.servers.status()[0]

    async def until(self, *states: str) -> ServerStatus:
        """Wait until the first server is in one of these states."""
        while self.status().state not in states:
            await anyio.sleep(0.01)
        return self.status()


@asynccontextmanager
async def running_servers(
    *configs: MCPServerConfig, start: bool = True, **options: Any
) -> AsyncGenerator[RunningServers, None]:
    """Servers whose tasks live in a task group of the test, and which are closed at the end."""
    made = RunningServers(
        ServerSet(
            configs,
            ServerOptions(random=lambda: 1.0, **options),
            on_tools_changed=lambda: made.changes.append(None),
            logger=logging.getLogger("test"),
        )
    )
    async with anyio.create_task_group() as group:
        if start:
            await made.servers.start(group.start_soon)
        try:
            yield made
        finally:
            with anyio.CancelScope(shield=True):
                await made.servers.close()
