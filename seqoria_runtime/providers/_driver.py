"""Owns a provider's HTTP: sends an exchange, feeds its decoder, closes the response in any case.

The only module that imports httpx. Knows no wire format: the decoder knows what the bytes mean.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import anyio
import anyio.lowlevel
import httpx

from seqoria_runtime._redaction import redact
from seqoria_runtime.models.errors import (
    ClientStateError,
    LLMError,
    ProviderConnectionError,
    ProviderProtocolError,
    ProviderTimeoutError,
)

from ._endpoint import Endpoint
from ._failures import HTTPFailure, failure_of_response, request_id, safe_cause
from ._http_options import HTTPOptions
from ._protocol import ModelResponse, ProviderEvent
from ._retry import RetryPolicy, retrying
from ._unpacking import Unpack, unpacker
from ._wire import Decoder, Exchange

HTTPClient: TypeAlias = httpx.AsyncClient

_MAX_ERROR_BODY = 64 * 1024
_ERROR_BODY_SECONDS = 10.0
_CLOSE_SECONDS = 5.0
# How long the usage is awaited after the end mark, and then the body's end, for the connection's sake.
_USAGE_SECONDS = 15.0
_END_SECONDS = 0.25
# How much buffered data is read past at an early close before the rest is left to the collector.
_MAX_UNWOUND = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Where a provider's requests go, and over what.

    `client` is the application's own, never closed here; without one the driver opens its own by
    `options`. `read_timeout` is the longest silence between two reads, in seconds; `None` leaves it
    to the application's client.
    """

    endpoint: Endpoint
    client: HTTPClient | None = None
    options: HTTPOptions = HTTPOptions()  # noqa: RUF009  # frozen, so it is shared safely
    read_timeout: float | None = None


class HTTPDriver:
    """Sends the exchanges of one provider, under one event loop after the other or several at once."""

    def __init__(self, connection: Connection, *, retry: RetryPolicy, provider: str) -> None:
        self._connection = connection
        self._retry = retry
        self._provider = provider
        self._closed = False
        # Connections belong to an event loop, and go with it.
        self._clients: WeakKeyDictionary[Any, HTTPClient] = WeakKeyDictionary()

    def reopen(self) -> None:
        """Allow requests again."""
        self._closed = False

    async def aclose(self) -> None:
        """Close the connections that were opened under this event loop; streams that use them fail."""
        self._closed = True
        client = self._clients.pop(anyio.lowlevel.current_token().native_token, None)
        if client is not None:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await client.aclose()

    async def stream(self, exchange: Exchange) -> AsyncGenerator[ProviderEvent, None]:
        """Yield the events of an answer, its final response last.

        Whatever ends it, the response is closed before it returns. Raises `LLMError`, after the
        events that came before the failure.
        """
        reading = await retrying(self._retry, partial(self._begin, exchange))
        try:
            events: Sequence[ProviderEvent] | None = reading.first
            while events is not None:
                for event in events:
                    yield event
                events = await reading.read()
            response = reading.finish()
        finally:
            await reading.aclose()
        yield response

    async def ask(self, exchange: Exchange) -> ModelResponse:
        """Give the response of an answer. A cancelled caller leaves no response open."""
        return await retrying(self._retry, partial(self._ask_once, exchange))

    async def _ask_once(self, exchange: Exchange) -> ModelResponse:
        reading = await self._open(exchange)
        try:
            while await reading.read() is not None:
                pass
            return reading.finish()
        finally:
            await reading.aclose()

    async def _begin(self, exchange: Exchange) -> "_Reading":
        reading = await self._open(exchange)
        try:
            await reading.begin()
        except BaseException:
            await reading.aclose()
            raise
        return reading

    async def _open(self, exchange: Exchange) -> "_Reading":
        client, connection = self._client(), self._connection
        try:
            request = client.build_request(
                "POST",
                connection.endpoint.url(exchange.path),
                content=exchange.body,
                headers=connection.endpoint.headers,
                timeout=_timeout(client, connection.read_timeout),
            )
            response = await client.send(request, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _error_of(error, self._provider) from safe_cause(error)
        reading = _Reading(response, exchange, self._provider)
        if not response.is_success:
            raise await reading.refusal()
        return reading

    def _client(self) -> HTTPClient:
        if self._closed:
            raise ClientStateError(f"{self._provider} is closed; enter it with 'async with' to use it again")
        if self._connection.client is not None:
            return self._connection.client
        loop = anyio.lowlevel.current_token().native_token
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = _new_client(self._connection.options)
        return client


class _Reading:
    """One response and its decoder; owned by the call that opened it."""

    def __init__(self, response: httpx.Response, exchange: Exchange, provider: str) -> None:
        self.first: Sequence[ProviderEvent] = ()
        self._response = response
        self._exchange = exchange
        self._provider = provider
        self._decoder: Decoder = exchange.decoder(response.headers.get("content-type", ""))
        self._parts = aiter(response.stream)  # type: ignore[arg-type]  # an asynchronous client's
        unpack = unpacker(response.headers.get("content-encoding", ""))
        self._next = partial(_unpacked, self._parts, unpack) if unpack else self._parts.__anext__
        self._read_out = False
        self._final: ModelResponse | None = None

    async def begin(self) -> None:
        """Read up to the first output, or to the end of an answer that has none."""
        self.first = await self.read() or ()
        if not self.first:
            self.finish()

    async def read(self) -> Sequence[ProviderEvent] | None:
        """Give the next events, at least one; `None` at the end of the answer."""
        decoder = self._decoder
        try:
            while not decoder.complete:
                events = decoder.feed(await self._next())
                if events:
                    return events
        except StopAsyncIteration:
            return self._end()
        except httpx.HTTPError as error:
            raise self._labelled(_error_of(error, self._provider)) from safe_cause(error)
        return await self._read_tail()

    def _end(self) -> Sequence[ProviderEvent] | None:
        self._read_out = True
        return self._decoder.close() or None

    async def _read_tail(self) -> Sequence[ProviderEvent] | None:
        """Read what may follow the end mark: the usage, and the end of the body.

        The answer is whole by then, so neither a silence nor a broken connection is an error.
        """
        decoder = self._decoder
        deadline = anyio.current_time() + _USAGE_SECONDS
        while not self._read_out:
            if decoder.ended:
                deadline = min(deadline, anyio.current_time() + _END_SECONDS)
            part = await self._part_until(deadline)
            events = self._end() if part is None else decoder.feed(part)
            if events:
                return events
        return None

    async def _part_until(self, deadline: float) -> bytes | None:
        with anyio.CancelScope(deadline=deadline), suppress(StopAsyncIteration, httpx.HTTPError):
            return await self._next()
        return None

    def finish(self) -> ModelResponse:
        """Give the response. Raises `LLMError` for an answer that failed or was cut short."""
        try:
            self._final = self._final or self._decoder.finish()
        except LLMError as error:
            self._labelled(error)
            raise
        return self._final

    async def refusal(self) -> LLMError:
        """Read the error that a response without success holds, as far as it comes soon, and close it."""
        body = b""
        try:
            with anyio.move_on_after(_ERROR_BODY_SECONDS), suppress(StopAsyncIteration, httpx.HTTPError):
                while len(body) < _MAX_ERROR_BODY:
                    body += await self._next()
        finally:
            await self.aclose()
        failure = HTTPFailure.of(self._response.status_code, self._response.headers, self._exchange.model)
        return self._labelled(failure_of_response(body[:_MAX_ERROR_BODY], failure))

    def _labelled(self, error: LLMError) -> LLMError:
        error.provider = error.provider or self._provider
        error.request_id = error.request_id or request_id(self._response.headers)
        return error

    async def aclose(self) -> None:
        """Close the response; a cancelled caller waits for it, a few seconds at most."""
        with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
            try:
                if not self._read_out:
                    await _unwind(self._parts)
            finally:
                await self._response.aclose()


async def _unpacked(parts: AsyncIterator[bytes], unpack: Unpack) -> bytes:
    try:
        return unpack(await anext(parts))
    except ValueError as error:
        raise httpx.DecodingError(str(error)) from error


async def _unwind(parts: AsyncIterator[bytes]) -> None:
    """End an iteration that may stand in the middle.

    Its generators are nested, and closing the outer one would leave the inner ones to the
    collector, which warns on trio and starts tasks on asyncio. A cancelled read ends them all.
    """
    with anyio.CancelScope() as scope:
        scope.cancel("the rest of the response is not wanted")
        with suppress(StopAsyncIteration, httpx.HTTPError):
            for _ in range(_MAX_UNWOUND):
                await anext(parts)


def _timeout(client: HTTPClient, read_timeout: float | None) -> httpx.Timeout:
    timeout = httpx.Timeout(client.timeout)
    if read_timeout is not None:
        timeout.read = read_timeout
    return timeout


def _new_client(options: HTTPOptions) -> HTTPClient:
    timeout = httpx.Timeout(
        None, connect=options.connect_timeout, write=options.write_timeout, pool=options.pool_timeout
    )
    limits = httpx.Limits(
        max_connections=options.max_connections,
        max_keepalive_connections=options.max_keepalive_connections,
        keepalive_expiry=options.keepalive_expiry,
    )
    proxy, verify = options.proxy, options.verify
    return httpx.AsyncClient(
        timeout=timeout, limits=limits, proxy=proxy, verify=verify, trust_env=options.trust_env
    )


def _error_of(error: Exception, provider: str) -> LLMError:
    if isinstance(error, httpx.TimeoutException):
        return ProviderTimeoutError("Request timed out", provider=provider)
    words = redact(str(error)) or type(error).__name__
    if isinstance(error, httpx.TransportError):
        return ProviderConnectionError(f"Connection error: {words}", provider=provider)
    if isinstance(error, httpx.DecodingError):
        return ProviderProtocolError(f"malformed response: {words}", provider=provider)
    return LLMError(f"An unexpected {provider} error occurred: {words}", provider=provider)
