"""Stores the tokens of a login, with everything that is needed to renew them after a restart."""

import time
from collections.abc import Mapping
from typing import Any

from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)

from seqoria_runtime.mcp._config.oauth_config import TokenStorage

# Expired by any clock: a token of unknown age is renewed before it is tried.
_LONG_AGO = 1.0


class OAuthTokens(OAuthToken):
    """The SDK's `OAuthToken`, with when it expires (Unix time) and where it can be renewed."""

    expires_at: float | None = None
    discovered: dict[str, Any] | None = None


class KeptTokens:
    """An application's storage, as the SDK sees it. `context` is the SDK's state of the login."""

    def __init__(self, storage: TokenStorage) -> None:
        self._storage = storage
        self._seen: str | None = None
        self.context: OAuthContext | None = None

    async def get_tokens(self) -> OAuthToken | None:
        """Return the stored tokens; the storage may return a model or a dictionary."""
        kept = await self._storage.get_tokens()
        if kept is None:
            return None
        tokens = OAuthTokens.model_validate(kept if isinstance(kept, Mapping) else kept.model_dump())
        self._seen = tokens.access_token
        return tokens

    async def changed_tokens(self) -> OAuthToken | None:
        """Return the stored tokens if they are not those that were last read or stored here."""
        seen = self._seen
        tokens = await self.get_tokens()
        return None if tokens is None or tokens.access_token == seen else tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._seen = tokens.access_token
        await self._storage.set_tokens(
            OAuthTokens(
                **tokens.model_dump(include=set(OAuthToken.model_fields)),
                expires_at=None if tokens.expires_in is None else time.time() + tokens.expires_in,
                discovered=None if self.context is None else _discovered(self.context),
            )
        )

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        kept = await self._storage.get_client_info()
        if kept is None or isinstance(kept, OAuthClientInformationFull):
            return kept
        return OAuthClientInformationFull.model_validate(
            kept if isinstance(kept, Mapping) else kept.model_dump()
        )

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await self._storage.set_client_info(client_info)


def restore(context: OAuthContext) -> None:
    """Put what was stored with the tokens back to where the SDK looks for it."""
    tokens = context.current_tokens
    if not isinstance(tokens, OAuthTokens):
        return
    if tokens.expires_at is not None:
        context.token_expiry_time = tokens.expires_at
    elif tokens.refresh_token is not None:
        context.token_expiry_time = _LONG_AGO
    found = tokens.discovered or {}
    if context.oauth_metadata is None and found.get("server"):
        context.oauth_metadata = OAuthMetadata.model_validate(found["server"])
        context.auth_server_url = found.get("server_url")
    if context.protected_resource_metadata is None and found.get("resource"):
        context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(found["resource"])


def _discovered(context: OAuthContext) -> dict[str, Any]:
    server, resource = context.oauth_metadata, context.protected_resource_metadata
    return {
        "server": None if server is None else server.model_dump(mode="json", exclude_none=True),
        "server_url": context.auth_server_url,
        "resource": None if resource is None else resource.model_dump(mode="json", exclude_none=True),
    }
