"""An MCP server behind a login, with an authorization server that accepts everyone. Run it as a process.

Arguments: the port, and how many seconds an access token lives.
"""

import math
import secrets
import time
from collections import Counter
from typing import Any, cast

import anyio
import uvicorn
from mcp.server.auth.provider import AccessToken, AuthorizationCode, RefreshToken, construct_redirect_uri
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthToken
from pydantic import AnyHttpUrl

counts: Counter[str] = Counter()


class Provider:
    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        self.clients: dict[str, Any] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> Any:
        return self.clients.get(client_id)

    async def register_client(self, client: Any) -> None:
        counts["register"] += 1
        self.clients[client.client_id] = client

    async def authorize(self, client: Any, params: Any) -> str:
        counts["authorize"] += 1
        code = secrets.token_hex(16)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or ["user"],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client: Any, code: str) -> Any:
        return self.codes.get(code)

    async def exchange_authorization_code(self, client: Any, code: Any) -> OAuthToken:
        counts["exchange"] += 1
        del self.codes[code.code]
        return self._issue(client, code.scopes, code.resource)

    async def load_refresh_token(self, client: Any, token: str) -> Any:
        found = self.refresh.get(token)
        counts["stale"] += found is None
        return found

    async def exchange_refresh_token(self, client: Any, token: Any, scopes: Any, *rest: Any) -> OAuthToken:
        counts["refresh"] += 1
        del self.refresh[token.token]
        return self._issue(client, scopes, token.resource)

    async def load_access_token(self, token: str) -> Any:
        found = self.access.get(token)
        expired = found is None or found.expires_at is None or found.expires_at < time.time()
        return None if expired else found

    async def revoke_token(self, token: Any) -> None:
        self.access.pop(token.token, None)

    def _issue(self, client: Any, scopes: Any, resource: Any) -> OAuthToken:
        access, refresh = secrets.token_hex(16), secrets.token_hex(16)
        self.access[access] = AccessToken(
            token=access,
            client_id=client.client_id,
            scopes=scopes,
            expires_at=math.ceil(time.time()) + self.seconds,
            resource=resource,
        )
        self.refresh[refresh] = RefreshToken(
            token=refresh, client_id=client.client_id, scopes=scopes, resource=resource
        )
        return OAuthToken(
            access_token=access, expires_in=self.seconds, scope=" ".join(scopes), refresh_token=refresh
        )


def make(base: str, seconds: int) -> Any:
    registration = ClientRegistrationOptions(enabled=True, valid_scopes=["user"], default_scopes=["user"])
    server = MCPServer(
        "secure",
        auth_server_provider=cast("Any", Provider(seconds)),
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(base),
            resource_server_url=AnyHttpUrl(f"{base}/mcp"),
            client_registration_options=registration,
            required_scopes=["user"],
            validate_token_resource=False,
        ),
        log_level="ERROR",
    )

    @server.tool()
    async def tally() -> str:
        """What the authorization server has done so far."""
        return " ".join(
            f"{name}={counts[name]}" for name in ("register", "authorize", "exchange", "refresh", "stale")
        )

    @server.tool()
    async def nap(seconds: float) -> str:
        await anyio.sleep(seconds)
        return "rested"

    return server.streamable_http_app()


def main(port: str, seconds: str) -> None:
    app = make(f"http://127.0.0.1:{port}", int(seconds))
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="error", timeout_graceful_shutdown=1)
