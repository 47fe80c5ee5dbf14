"""The SDK's OAuth provider for the login of a user, configured by an `OAuthConfig`."""

import webbrowser
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.shared.auth import OAuthClientMetadata
from pydantic import AnyUrl

from seqoria_runtime._execution.calls.threads import run_in_thread
from seqoria_runtime.mcp._config.oauth_config import OAuthConfig, TokenStorage

from .loopback import HOST, PATH, LoopbackLogin
from .paused_deadlines import waiting_for_user
from .tokens import KeptTokens, restore

_ANY_PORT = f"http://{HOST}{PATH}"
_PROMPT = "After the login, paste the URL that the browser ended at: "


class BrowserProvider(OAuthClientProvider):
    """The SDK's provider for an `OAuthConfig`; it can renew its tokens after a restart."""

    def __init__(self, url: str, config: OAuthConfig, storage: TokenStorage) -> None:
        kept = KeptTokens(storage)
        redirect_uri = _ANY_PORT if config.redirect_uri == "auto" else config.redirect_uri
        scopes = config.scopes if isinstance(config.scopes, str) else None
        super().__init__(
            url,
            OAuthClientMetadata(
                client_name=config.client_name,
                redirect_uris=[AnyUrl(redirect_uri)],
                grant_types=["authorization_code", "refresh_token"],
                response_types=["code"],
                scope=scopes,
            ),
            kept,
            self._show,
            self._wait,
            config.client_metadata_url,
        )
        kept.context = self.context
        self._kept = kept
        self._config = config
        self._loopback: LoopbackLogin | None = None
        self._answer: AuthorizationCodeResult | None = None

    async def look_again(self) -> None:
        """Take over the tokens that another client of the same storage has received meanwhile."""
        async with self.context.lock:
            tokens = await self._kept.changed_tokens() if self._initialized else None
            if tokens is not None:
                self.context.current_tokens = tokens
                restore(self.context)

    async def start_login(self) -> None:
        """Open the loopback listener, if the configuration uses one."""
        config = self._config
        if config.redirect_uri != "auto" or config.callback_handler is not None:
            return
        self._loopback = await LoopbackLogin.open(
            config.redirect_handler, seconds=config.login_timeout, port=self._registered_port()
        )
        self.context.client_metadata.redirect_uris = [AnyUrl(self._loopback.redirect_uri)]

    async def end_login(self) -> None:
        """Close the loopback listener, if there is one."""
        loopback, self._loopback = self._loopback, None
        if loopback is not None:
            await loopback.aclose()

    async def _initialize(self) -> None:
        await super()._initialize()
        restore(self.context)

    def _registered_port(self) -> int:
        """Return the port of the registered redirect URL, or 0; not all servers accept another one."""
        client = self.context.client_info
        known = client.redirect_uris if client is not None else None
        return (known[0].port or 0) if known and known[0].host == HOST else 0

    async def _show(self, url: str) -> None:
        """Send the user to the authorization server: the SDK's redirect handler."""
        with waiting_for_user():
            if self._loopback is not None:
                self._answer = await self._loopback.run(url)
            elif self._config.redirect_handler is not None:
                await self._config.redirect_handler(url)
            else:
                await run_in_thread(lambda: webbrowser.open(url))

    async def _wait(self) -> AuthorizationCodeResult:
        """Return the authorization code: the SDK's callback handler, awaited after `_show`."""
        answer, self._answer = self._answer, None
        if answer is not None:
            return answer
        with waiting_for_user():
            if self._config.callback_handler is None:
                return _answer_in(await run_in_thread(lambda: input(_PROMPT)))
            code, state = await self._config.callback_handler()
        return AuthorizationCodeResult(code=code, state=state)


def _answer_in(url: str) -> AuthorizationCodeResult:
    """Return the answer in a redirect URL."""
    query = {name: values[0] for name, values in parse_qs(urlsplit(url.strip()).query).items()}
    return AuthorizationCodeResult(code=query.get("code", ""), state=query.get("state"), iss=query.get("iss"))
