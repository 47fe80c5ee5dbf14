"""The public `MCPServer`: what an application can ask one server for besides its tools."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from mcp import ClientSession
from mcp_types import (
    GetPromptResult,
    Prompt,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)

from seqoria_runtime.mcp._config.status import ServerStatus
from seqoria_runtime.mcp._connection.tool_list import all_pages

from . import input_rounds as _input_rounds
from .server_calls import ServerCalls

T = TypeVar("T")


class MCPServer:
    """One server of a client. Results are the SDK's models.

    Every async method connects the server if it is down. It raises `MCPConnectionError` if the server cannot
    be reached or is lost, `MCPRequestError` if it answers with an error, and `CircuitOpenError`. If the
    caller is cancelled, the request is cancelled at the server, and the server stays connected.
    """

    def __init__(self, calls: ServerCalls) -> None:
        self._calls = calls

    @property
    def name(self) -> str:
        return self._calls.connection.name

    def status(self) -> ServerStatus:
        """Return how the connection is now."""
        return self._calls.connection.status()

    async def list_resources(self) -> list[Resource]:
        """Return all resources that the server lists. If cancelled, no further page is asked for."""
        return await self._calls.request(
            lambda session: all_pages(
                lambda page: session.list_resources(params=page), lambda found: found.resources
            )
        )

    async def list_resource_templates(self) -> list[ResourceTemplate]:
        """Return all resource templates that the server lists. If cancelled, no further page is asked for."""
        return await self._calls.request(
            lambda session: all_pages(
                lambda page: session.list_resource_templates(params=page),
                lambda found: found.resource_templates,
            )
        )

    async def read_resource(self, uri: str) -> ReadResourceResult:
        """Read a resource. If cancelled, the request is cancelled at the server."""
        return await self._calls.request(lambda session: _input_rounds.read_resource(session, uri))

    async def list_prompts(self) -> list[Prompt]:
        """Return all prompts that the server lists. If cancelled, no further page is asked for."""
        return await self._calls.request(
            lambda session: all_pages(
                lambda page: session.list_prompts(params=page), lambda found: found.prompts
            )
        )

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> GetPromptResult:
        """Return a prompt with these arguments. If cancelled, the request is cancelled at the server."""
        copied = None if arguments is None else dict(arguments)
        return await self._calls.request(lambda session: _input_rounds.get_prompt(session, name, copied))

    async def request(self, ask: Callable[[ClientSession], Awaitable[T]]) -> T:
        """Await `ask(session)` with the SDK's session, for what has no method here.

        The session belongs to the current connection: do not keep it. If the retry policy allows it, `ask`
        is awaited again after a failure of the connection. If cancelled, `ask` is cancelled.
        """
        return await self._calls.request(ask)
