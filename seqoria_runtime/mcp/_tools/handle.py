"""Owns what an application can ask of one server beside its tools: resources, prompts, and the session."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeVar

from mcp import ClientSession
from mcp_types import (
    GetPromptResult,
    PaginatedRequestParams,
    Prompt,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)

from seqoria_runtime.mcp._config.status import ServerStatus
from seqoria_runtime.mcp._connection.tool_list import all_pages

from . import input_rounds as _exchanges
from .remote import RemoteServer

T = TypeVar("T")


class MCPServer:
    """One server of a client. Results are the SDK's models.

    Every method connects the server if it is down. They raise `MCPConnectionError` if it cannot be
    reached or is lost, `MCPRequestError` if it answers with an error, and `CircuitOpenError`. A
    cancelled caller has its request cancelled at the server.
    """

    def __init__(self, remote: RemoteServer) -> None:
        self._remote = remote

    @property
    def name(self) -> str:
        return self._remote.name

    def status(self) -> ServerStatus:
        """How the connection is now."""
        return self._remote.status()

    async def list_resources(self) -> list[Resource]:
        """All resources that the server lists."""

        async def page(session: ClientSession, cursor: str | None) -> tuple[list[Resource], str | None]:
            result = await session.list_resources(params=_page(cursor))
            return result.resources, result.next_cursor

        return await self._remote.request(lambda session: all_pages(partial(page, session)))

    async def list_resource_templates(self) -> list[ResourceTemplate]:
        """All templates of resources that the server lists."""

        async def page(
            session: ClientSession, cursor: str | None
        ) -> tuple[list[ResourceTemplate], str | None]:
            result = await session.list_resource_templates(params=_page(cursor))
            return result.resource_templates, result.next_cursor

        return await self._remote.request(lambda session: all_pages(partial(page, session)))

    async def read_resource(self, uri: str) -> ReadResourceResult:
        """Read a resource."""
        return await self._remote.request(lambda session: _exchanges.read_resource(session, uri))

    async def list_prompts(self) -> list[Prompt]:
        """All prompts that the server lists."""

        async def page(session: ClientSession, cursor: str | None) -> tuple[list[Prompt], str | None]:
            result = await session.list_prompts(params=_page(cursor))
            return result.prompts, result.next_cursor

        return await self._remote.request(lambda session: all_pages(partial(page, session)))

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> GetPromptResult:
        """Get a prompt, filled in with these arguments."""
        given = None if arguments is None else dict(arguments)
        return await self._remote.request(lambda session: _exchanges.get_prompt(session, name, given))

    async def request(self, ask: Callable[[ClientSession], Awaitable[T]]) -> T:
        """Await `ask(session)` with the SDK's session, for what has no method here.

        The session is the connection's of the moment and may not be kept. With a retry policy that
        allows it, `ask` may be awaited again after a failure of the connection.
        """
        return await self._remote.request(ask)


def _page(cursor: str | None) -> PaginatedRequestParams | None:
    return None if cursor is None else PaginatedRequestParams(cursor=cursor)
