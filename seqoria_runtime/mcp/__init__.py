"""Remote servers of the Model Context Protocol (extra `mcp`).

Configurations do not load the SDK. It is loaded when a name that needs it is first used, or when a client
with servers is opened.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._config.endpoint import HTTPEndpoint, InProcess, StdioCommand
from ._config.oauth_config import InMemoryTokenStorage, OAuthConfig, TokenStorage
from ._config.server_config import MCPServerConfig
from ._config.server_config import require_sdk as _require_sdk
from ._config.status import ServerStatus

if TYPE_CHECKING:
    from ._connect import MCPConnection, MCPTransportFactory, connect_mcp
    from ._connection.tool_list import DEPENDS_ON_META_KEY
    from ._login.tokens import OAuthTokens
    from ._tools.mcp_server import MCPServer

__all__ = [
    "DEPENDS_ON_META_KEY",
    "HTTPEndpoint",
    "InMemoryTokenStorage",
    "InProcess",
    "MCPConnection",
    "MCPServer",
    "MCPServerConfig",
    "MCPTransportFactory",
    "OAuthConfig",
    "OAuthTokens",
    "ServerStatus",
    "StdioCommand",
    "TokenStorage",
    "connect_mcp",
]


def __getattr__(name: str) -> Any:
    homes = {
        "DEPENDS_ON_META_KEY": "_connection.tool_list",
        "MCPConnection": "_connect",
        "MCPServer": "_tools.mcp_server",
        "MCPTransportFactory": "_connect",
        "OAuthTokens": "_login.tokens",
        "connect_mcp": "_connect",
    }
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _require_sdk()
    return getattr(import_module(f".{homes[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
