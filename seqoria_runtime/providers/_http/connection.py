"""Where a provider's requests go and over which client, and httpx's exceptions as this package's errors."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TypeAlias

import httpx

from seqoria_runtime._base.redaction import redact
from seqoria_runtime.models.errors import (
    LLMError,
    ProviderConnectionError,
    ProviderProtocolError,
    ProviderTimeoutError,
)

from .endpoint import APIEndpoint
from .options import HTTPOptions

HTTPClient: TypeAlias = httpx.AsyncClient


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """Where a provider's requests go, and over which client.

    `client` is the application's own, and is never closed; without one, the driver opens its own
    with `options`. `read_timeout` is the longest silence between two reads, in seconds; `None`
    leaves it to the application's client.
    """

    endpoint: APIEndpoint
    client: HTTPClient | None = None
    options: HTTPOptions = HTTPOptions()  # noqa: RUF009  # frozen, so it is shared safely
    read_timeout: float | None = None

    def new_client(self) -> HTTPClient:
        options = self.options
        timeout = httpx.Timeout(
            None, connect=options.connect_timeout, write=options.write_timeout, pool=options.pool_timeout
        )
        limits = httpx.Limits(
            max_connections=options.max_connections,
            max_keepalive_connections=options.max_keepalive_connections,
            keepalive_expiry=options.keepalive_expiry,
        )
        return httpx.AsyncClient(
            timeout=timeout,
            limits=limits,
            proxy=options.proxy,
            verify=options.verify,
            trust_env=options.trust_env,
            http2=options.http2,
        )

    def request(self, client: HTTPClient, path: str, body: bytes) -> httpx.Request:
        """Make a request that this client can send."""
        timeout = httpx.Timeout(client.timeout)
        if self.read_timeout is not None:
            timeout.read = self.read_timeout
        url, headers = self.endpoint.url(path), self.endpoint.headers
        request = client.build_request("POST", url, content=body, headers=headers, timeout=timeout)
        request.stream = _Body(body)
        return request


class _Body(httpx.AsyncByteStream):
    """A request's body. httpx uses a generator, which a cancellation leaves to the garbage collector."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._sent = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _Body(self._body)

    async def __anext__(self) -> bytes:
        if self._sent:
            raise StopAsyncIteration
        self._sent = True
        return self._body


def error_of(error: Exception, provider: str, address: str) -> LLMError:
    """Make the error for an exception of httpx at this host and port; its text is safe to show."""
    if isinstance(error, httpx.TimeoutException):
        return ProviderTimeoutError(f"Request timed out{_waited_for(error, address)}", provider=provider)
    text = redact(_text(error)) or type(error).__name__
    if isinstance(error, httpx.TransportError):
        return ProviderConnectionError(f"Connection error: {text} ({address})", provider=provider)
    if isinstance(error, httpx.DecodingError):
        return ProviderProtocolError(f"malformed response: {text}", provider=provider)
    return LLMError(f"An unexpected {provider} error occurred: {text}", provider=provider)


def _waited_for(error: httpx.TimeoutException, address: str) -> str:
    if isinstance(error, httpx.PoolTimeout):
        return f" (waiting for one of the connections to {address}; 'max_connections' limits them)"
    return f" (connecting to {address})" if isinstance(error, httpx.ConnectTimeout) else ""


def _text(error: BaseException | None) -> str:
    """Return the text of the error, or of its first cause that has one."""
    while error is not None and not str(error):
        error = error.__cause__ or error.__context__
    return str(error) if error is not None else ""
