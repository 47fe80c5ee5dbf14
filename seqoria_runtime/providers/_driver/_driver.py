"""Sends the exchanges of one provider, and owns the clients that it opened for that."""

from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import anyio
import anyio.lowlevel
import httpx

from seqoria_runtime.models.errors import ClientStateError
from seqoria_runtime.providers._failures import safe_cause
from seqoria_runtime.providers._protocol import ModelResponse, ProviderEvent
from seqoria_runtime.providers._retry import RetryPolicy, retrying
from seqoria_runtime.providers._wire import Exchange

from ._connection import Connection, HTTPClient, error_of
from ._reading import Reading
from ._sending import send

_CLOSE_SECONDS = 5.0


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

    async def _begin(self, exchange: Exchange) -> Reading:
        reading = await self._open(exchange)
        try:
            await reading.begin()
        except BaseException:
            await reading.aclose()
            raise
        return reading

    async def _open(self, exchange: Exchange) -> Reading:
        client = self._client()
        address = self._connection.endpoint.address
        try:
            request = self._connection.request(client, exchange.path, exchange.body)
            response = await send(client, request)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise error_of(error, self._provider, address) from safe_cause(error)
        reading = Reading(response, exchange, self._provider, address)
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
            client = self._clients[loop] = self._connection.new_client()
        return client
