"""Sends the exchanges of one provider, and owns each response until it is closed."""

from collections.abc import AsyncGenerator, Sequence
from functools import partial

import httpx

from seqoria_runtime.providers._answers.failures import safe_cause
from seqoria_runtime.providers._answers.wire import Exchange
from seqoria_runtime.providers._protocol import ModelResponse, ProviderEvent

from .clients import Clients
from .connection import Connection, HTTPClient, error_of
from .reading import Reading
from .retry import RetryPolicy, retrying
from .sending import send


class HTTPDriver:
    """Sends the exchanges of one provider, under one event loop after the other or several at once."""

    def __init__(self, connection: Connection, *, retry: RetryPolicy, provider: str) -> None:
        self._connection = connection
        self._retry = retry
        self._provider = provider
        self._clients = Clients(connection, provider)

    def reopen(self) -> None:
        """Allow requests again."""
        self._clients.reopen()

    async def aclose(self) -> None:
        """Close the connections that were opened under this event loop; streams that use them fail."""
        await self._clients.aclose()

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
        lease = self._clients.lend()
        try:
            response = await self._send(lease.client, exchange)
        except BaseException:
            await lease.give_back(whole=False)
            raise
        reading = Reading(response, exchange, lease, self._provider, self._connection.endpoint.address)
        if not response.is_success:
            raise await reading.refusal()
        return reading

    async def _send(self, client: HTTPClient, exchange: Exchange) -> httpx.Response:
        try:
            request = self._connection.request(client, exchange.path, exchange.body)
            return await send(client, request)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            address = self._connection.endpoint.address
            raise error_of(error, self._provider, address) from safe_cause(error)
