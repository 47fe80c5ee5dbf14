"""Owns the login of a person at one server: who is asked, how the answer comes back, what is remembered."""

import webbrowser
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.shared.auth import OAuthClientMetadata
from pydantic import AnyUrl

from seqoria_runtime._execution.calls.threads import run_in_thread
from seqoria_runtime.mcp._config.oauth_config import OAuthConfig, TokenStorage

from .loopback import HOST, PATH, LoopbackLogin
from .paused_deadlines import waiting_for_a_person
from .tokens import KeptTokens, restore

_SOMEWHERE = f"http://{HOST}{PATH}"
_PROMPT = "After the login, paste the URL that the browser ended at: "


class BrowserProvider(OAuthClientProvider):
    """The SDK's provider, told by an `OAuthConfig`; it can renew its tokens after a restart."""

    def __init__(self, url: str, config: OAuthConfig, storage: TokenStorage) -> None:
        kept = KeptTokens(storage)
        redirect_uri = _SOMEWHERE if config.redirect_uri == "auto" else config.redirect_uri
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
        """Take over the tokens that another client of the same storage has been given meanwhile."""
        async with self.context.lock:
            tokens = await self._kept.news() if self._initialized else None
            if tokens is not None:
                self.context.current_tokens = tokens
                restore(self.context)

    async def begin_login(self) -> None:
        """Get ready for the browser to come back, where that is the way."""
        config = self._config
        if config.redirect_uri != "auto" or config.callback_handler is not None:
            return
        self._loopback = await LoopbackLogin.open(
            config.redirect_handler, seconds=config.login_timeout, port=self._registered_port()
        )
        self.context.client_metadata.redirect_uris = [AnyUrl(self._loopback.redirect_uri)]

    async def end_login(self) -> None:
        loopback, self._loopback = self._loopback, None
        if loopback is not None:
            await loopback.aclose()

    async def _initialize(self) -> None:
        await super()._initialize()
        restore(self.context)

    def _registered_port(self) -> int:
        """The port that the server knows this client by, if it does; not all servers allow another."""
        client = self.context.client_info
        known = client.redirect_uris if client is not None else None
        return (known[0].port or 0) if known and known[0].host == HOST else 0

    async def _show(self, url: str) -> None:
        with waiting_for_a_person():
            if self._loopback is not None:
                self._answer = await self._loopback.run(url)
            elif self._config.redirect_handler is not None:
                await self._config.redirect_handler(url)
            else:
                await run_in_thread(lambda: webbrowser.open(url))

    async def _wait(self) -> AuthorizationCodeResult:
        answer, self._answer = self._answer, None
        if answer is not None:
            return answer
        with waiting_for_a_person():
            if self._config.callback_handler is None:
                return _answer_in(await run_in_thread(lambda: input(_PROMPT)))
            code, state = await self._config.callback_handler()
        return AuthorizationCodeResult(code=code, state=state)


def _answer_in(url: str) -> AuthorizationCodeResult:
    """What a redirect URL says."""
    query = {name: values[0] for name, values in parse_qs(urlsplit(url.strip()).query).items()}
    return AuthorizationCodeResult(code=query.get("code", ""), state=query.get("state"), iss=query.get("iss"))
