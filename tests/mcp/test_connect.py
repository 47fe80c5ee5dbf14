"""A single connection without a client."""

import pytest

from seqoria_runtime.mcp import MCPServerConfig, MCPTransportFactory, connect_mcp
from seqoria_runtime.models.errors import MCPConnectionError
from tests.support.mcp_fakes import FakeServer, HTTPFake
from tests.support.sockets import unused_port

pytestmark = pytest.mark.clause("C100")


async def test_a_connection_hands_out_the_sdks_session_and_is_closed_at_the_end() -> None:
    server = FakeServer("solo")
    server.tool("a")
    async with connect_mcp(MCPServerConfig(server=server)) as connection:
        result = await connection.session.list_tools()
        assert [tool.name for tool in result.tools] == ["a"]
        assert (connection.url, connection.transport_type) == ("", "in_process")
        assert len(server.peers) == 1
    assert server.peers == []


@pytest.mark.real_time
async def test_a_url_is_enough() -> None:
    server = HTTPFake()
    server.tool("a")
    async with server.serving():
        origin = server.url.removesuffix("/mcp")
        async with MCPTransportFactory.connect(origin) as connection:
            assert (connection.url, connection.transport_type) == (server.url, "http")
        async with connect_mcp(server.sse_url, transport="sse") as connection:
            assert connection.transport_type == "sse"


@pytest.mark.real_time
async def test_a_server_that_is_not_there_is_a_plain_error() -> None:
    with pytest.raises(MCPConnectionError, match="could not be reached"):
        async with connect_mcp(f"http://127.0.0.1:{unused_port()}/mcp"):
            raise AssertionError


async def test_an_exception_of_the_body_leaves_as_itself() -> None:
    with pytest.raises(KeyError):
        async with connect_mcp(MCPServerConfig(server=FakeServer())):
            raise KeyError


def test_the_factory_tells_transports() -> None:
    assert MCPTransportFactory.detect_transport("SSE://host/x") == "sse"
