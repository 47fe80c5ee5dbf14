"""Owns the making of a server's login: what signs its HTTP requests."""

from typing import Any

from ._config import MCPServerConfig
from ._oauth_config import TokenStorage


def auth_for(config: MCPServerConfig, storage: TokenStorage) -> Any:
    """The `httpx2.Auth` of a configuration, if it has one; `storage` is used where it names no other."""
    return config.oauth
