"""Remote servers of the Model Context Protocol (extra `mcp`).

Configurations are light; what needs the SDK is loaded when a client with servers is opened.
"""

from ._config import MCPServerConfig
from ._oauth_config import InMemoryTokenStorage, OAuthConfig, TokenStorage

__all__ = ["InMemoryTokenStorage", "MCPServerConfig", "OAuthConfig", "TokenStorage"]
