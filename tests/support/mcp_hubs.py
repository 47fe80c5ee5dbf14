"""A hub under test, and helpers for it."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from seqoria_runtime._base.tools import Tool, ToolFailure
from seqoria_runtime.mcp import MCPServerConfig
from seqoria_runtime.mcp._config.status import ServerStatus
from seqoria_runtime.mcp._connection.server import ServerOptions
from seqoria_runtime.mcp._hub import McpHub


@dataclass
class Hub:
    """The hub, and how often its tools have changed."""

    hub: McpHub
    changes: list[None] = field(default_factory=list)

    def names(self) -> list[str]:
        return [tool.name for tools in self.hub.tools() for tool in tools]

    def tool(self, name: str) -> Tool:
        return next(tool for tools in self.hub.tools() for tool in tools if tool.name == name)

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
        """The status of the only server, or the first one."""
        return self.hub.status()[0]

    async def until(self, *states: str) -> ServerStatus:
        """Wait until the first server is in one of these states."""
        while self.status().state not in states:
            await anyio.sleep(0.01)
        return self.status()


@asynccontextmanager
async def running_hub(
    *configs: MCPServerConfig, start: bool = True, **options: Any
) -> AsyncGenerator[Hub, None]:
    """Open a hub with its tasks in a task group of the test, and close it at the end."""
    made = Hub(
        McpHub(
            configs,
            ServerOptions(random=lambda: 1.0, **options),
            on_tools_changed=lambda: made.changes.append(None),
            logger=logging.getLogger("test"),
        )
    )
    async with anyio.create_task_group() as group:
        if start:
            await made.hub.start(group.start_soon)
        try:
            yield made
        finally:
            with anyio.CancelScope(shield=True):
                await made.hub.close()
