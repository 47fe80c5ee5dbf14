"""Sends the encoded requests of one provider, and closes each response whatever ends it."""

from collections.abc import AsyncGenerator, Sequence
from functools import partial

import httpx

from seqoria_runtime.providers._answers.encoded_request import EncodedRequest
from seqoria_runtime.providers._answers.failures import safe_cause
from seqoria_runtime.providers._protocol import ModelResponse, ProviderEvent

from .clients import Clients
from .connection import ConnectionSettings, HTTPClient, error_of
from .reading import Reading
from .retry import RetryPolicy, retrying
from .sending import send


class HTTPDriver:
    """Sends the requests of one provider, under one event loop after another or several at once."""

    def __init__(self, settings: ConnectionSettings, *, retry: RetryPolicy, provider: str) -> None:
        self._settings = settings
        self._retry = retry
        self._provider = provider
        self._clients = Clients(settings, provider)

    def reopen(self) -> None:
        """Allow requests again."""
        self._clients.reopen()

    async def aclose(self) -> None:
        """Close the connections opened under this event loop; streams that use them fail.

        A cancelled caller waits for that, a few seconds at most.
        """
        await self._clients.aclose()

    async def stream(self, encoded: EncodedRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Yield the events of an answer, its final response last.

        Whatever ends it, a cancelled consumer included, the response is closed before it returns.
        Raises `LLMError` after the events that came before the failure.
        """
        reading = await retrying(self._retry, partial(self._start, encoded))
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

    async def ask(self, encoded: EncodedRequest) -> ModelResponse:
        """Return the response of an answer. A cancelled caller leaves no response open."""
        return await retrying(self._retry, partial(self._ask_once, encoded))

    async def _ask_once(self, encoded: EncodedRequest) -> ModelResponse:
        reading = await self._open(encoded)
        try:
            while await reading.read() is not None:
                pass
            return reading.finish()
        finally:
            await reading.aclose()

    async def _start(self, encoded: EncodedRequest) -> Reading:
        reading = await self._open(encoded)
        try:
            await reading.start()
        except BaseException:
            await reading.aclose()
            raise
        return reading

    async def _open(self, encoded: EncodedRequest) -> Reading:
        lease = self._clients.lend()
        try:
            response = await self._send(lease.client, encoded)
        except BaseException:
            await lease.release(read_out=False)
            raise
        reading = Reading(response, encoded, lease, self._provider, self._settings.endpoint.address)
        if not response.is_success:
            raise await reading.refusal()
        return reading

    async def _send(self, client: HTTPClient, encoded: EncodedRequest) -> httpx.Response:
        try:
            request = self._settings.request(client, encoded.path, encoded.body)
            return await send(client, request)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            address = self._settings.endpoint.address
            raise error_of(error, self._provider, address) from safe_cause(error)
