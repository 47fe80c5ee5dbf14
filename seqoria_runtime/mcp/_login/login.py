"""Signs the HTTP requests to a server, and logs in when one is refused.

The SDK implements the login itself. This module keeps it from blocking other requests, from asking the user
for what can be renewed, and from asking twice.
"""

from collections.abc import AsyncGenerator
from http import HTTPStatus

import httpx2
from mcp.client.auth import OAuthClientProvider

from seqoria_runtime.mcp._config.endpoint import HTTPEndpoint
from seqoria_runtime.mcp._config.oauth_config import OAuthConfig, TokenStorage
from seqoria_runtime.mcp._config.server_config import MCPServerConfig

from .oauth_provider import BrowserProvider

_REFUSALS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def auth_for(config: MCPServerConfig, storage: TokenStorage) -> httpx2.Auth | None:
    """Return what signs the requests to a server, if anything; `storage` is the default storage."""
    wanted = config.oauth
    if isinstance(wanted, OAuthConfig) and isinstance(config.target, HTTPEndpoint):
        return Login(BrowserProvider(config.target.url, wanted, wanted.storage or storage))
    if isinstance(wanted, OAuthClientProvider):
        return Login(wanted)
    return wanted  # type: ignore[no-any-return]


class Login(httpx2.Auth):
    """Signs requests with one of the SDK's OAuth providers.

    In the SDK's own flow every other request waits until the answer to this one starts. Here the others wait
    only while tokens are fetched. A request causes at most one login.
    """

    def __init__(self, provider: OAuthClientProvider) -> None:
        self._provider = provider

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Sign a request and send it; if that is refused, renew the tokens or log in, and send it again."""
        refusal = _Refusal(self._provider)
        while not refusal.spent:
            await refusal.look_again()
            flow = self._provider.async_auth_flow(request)
            try:
                outgoing = await _next(flow)
                # The flow yields its own requests (discovery, tokens) and `request` itself. `request` is not
                # sent in here, where the flow holds its lock for as long as the answer takes; if it would
                # be refused again, the flow gets the known refusal as its answer, and so logs in.
                while outgoing is not None and (outgoing is not request or refusal.meets(request)):
                    answer = await refusal.spend() if outgoing is request else (yield outgoing)
                    outgoing = await _next(flow, answer)
            finally:
                await flow.aclose()
                await refusal.end_login()
            if outgoing is None:
                return
            response = yield request
            if response.status_code not in _REFUSALS:
                return
            refusal.note(request, response)


class _Refusal:
    """The refusal of a request, which the provider gets as an answer at most once."""

    def __init__(self, provider: OAuthClientProvider) -> None:
        self._browser = provider if isinstance(provider, BrowserProvider) else None
        self._response: httpx2.Response | None = None
        self._token: str | None = None
        self.spent = False

    def note(self, request: httpx2.Request, response: httpx2.Response) -> None:
        self._response, self._token = response, request.headers.get("authorization")

    async def look_again(self) -> None:
        """If the tokens do not seem valid, read those that another client may have renewed."""
        browser = self._browser
        if browser is not None and (self._response is not None or not browser.context.is_token_valid()):
            await browser.look_again()

    def meets(self, request: httpx2.Request) -> bool:
        """Return whether the request would only be refused again: it still has the refused token."""
        known = self._response is not None and not self.spent
        return known and request.headers.get("authorization") == self._token

    async def spend(self) -> httpx2.Response:
        """Start the login that the refusal asks for."""
        assert self._response is not None
        self.spent = True
        if self._browser is not None:
            await self._browser.start_login()
        return self._response

    async def end_login(self) -> None:
        if self._browser is not None and self.spent:
            await self._browser.end_login()


async def _next(
    flow: AsyncGenerator[httpx2.Request, httpx2.Response], answer: httpx2.Response | None = None
) -> httpx2.Request | None:
    """Return the next request that the provider wants to send, or `None`."""
    try:
        return await (anext(flow) if answer is None else flow.asend(answer))
    except StopAsyncIteration:
        return None
