"""A single connection for code that needs no client: `connect_mcp`."""

import logging
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import anyio
from mcp import ClientSession

from seqoria_runtime.models.errors import MCPConnectionError

from ._config.endpoint import HTTPEndpoint, Transport, detect_transport
from ._config.oauth_config import InMemoryTokenStorage
from ._config.server_config import MCPServerConfig
from ._connection.connection import ConnectionEvents, SingleConnection
from ._login.login import auth_for

_logger = logging.getLogger("seqoria_runtime")


@dataclass(frozen=True, slots=True)
class MCPConnection:
    """An open connection: the SDK's session, and what it is connected to."""

    session: ClientSession
    url: str
    transport_type: Transport


@asynccontextmanager
async def connect_mcp(
    server: str | MCPServerConfig, *, transport: str = "auto"
) -> AsyncGenerator[MCPConnection]:
    """Connect to one server, by its URL or configuration, and yield the SDK's session.

    The connection is not opened again when it is lost. Raises `MCPConnectionError` if it cannot be opened;
    an exception of the body leaves unwrapped. If the caller is cancelled, the connection is closed before
    the cancellation leaves.
    """
    config = MCPServerConfig(server, transport) if isinstance(server, str) else server
    connection = SingleConnection(
        config, _IGNORED, protocol=config.protocol, auth=auth_for(config, InMemoryTokenStorage()), log=_logger
    )
    raised: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(connection.run)
        try:
            await connection.opened.wait()
            yield _opened(connection, config)
        except Exception as exc:  # noqa: BLE001 - raised again outside of the task group, which would wrap it
            raised = exc
        finally:
            connection.close("was closed")
    if raised is not None:
        raise raised


class MCPTransportFactory:
    """An older name for `connect_mcp`."""

    @staticmethod
    def connect(server: str | MCPServerConfig) -> AbstractAsyncContextManager[MCPConnection]:
        """Connect to one server, as `connect_mcp` does."""
        return connect_mcp(server)

    @staticmethod
    def detect_transport(url: str) -> Transport:
        """Return the transport for a URL's scheme; raise `ValueError` for an unknown one."""
        return detect_transport(url)


def _opened(connection: SingleConnection, config: MCPServerConfig) -> MCPConnection:
    if connection.failure is not None:
        raise MCPConnectionError(connection.failure.sentence(config.name), server=config.name)
    session = connection.session
    assert session is not None
    url = config.target.url if isinstance(config.target, HTTPEndpoint) else config.url
    return MCPConnection(session, url, config.target.transport)


async def _accept(session: ClientSession) -> None:
    """Accept every new connection."""


_IGNORED = ConnectionEvents(_accept, lambda: None, lambda _connection, _cause: None)
