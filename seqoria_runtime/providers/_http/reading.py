"""One response while it is read: its bytes go through a decoder, and it is closed in any case."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from functools import partial

import anyio
import httpx

from seqoria_runtime._base.redaction import bounded, redact, redact_url
from seqoria_runtime.models.errors import LLMError, ProviderProtocolError
from seqoria_runtime.providers._answers.failures import (
    HTTPFailure,
    failure_of_response,
    request_id,
    safe_cause,
)
from seqoria_runtime.providers._answers.wire import Decoder, Exchange
from seqoria_runtime.providers._protocol import ModelResponse, ProviderEvent

from .clients import Lease
from .connection import error_of
from .unpacking import Unpack, unpacker

_ANSWER_TYPES = {"", "text/event-stream", "application/json", "application/x-ndjson"}
_MAX_ERROR_BODY = 64 * 1024
_ERROR_BODY_SECONDS = 10.0
_CLOSE_SECONDS = 5.0
# How long the usage is awaited after the end mark, and then the body's end, for the connection's sake.
_USAGE_SECONDS = 15.0
_END_SECONDS = 0.25
# How much buffered data is read past at an early close before the rest is left to the collector.
_MAX_UNWOUND = 64


class Reading:
    """One response and its decoder; owned by the call that opened it."""

    def __init__(
        self, response: httpx.Response, exchange: Exchange, lease: Lease, provider: str, address: str
    ) -> None:
        self.first: Sequence[ProviderEvent] = ()
        self._response = response
        self._lease = lease
        self._exchange = exchange
        self._provider = provider
        self._address = address
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
            raise self._labelled(error_of(error, self._provider, self._address)) from safe_cause(error)
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
            told = self._labelled(self._with_content_type(error))
            if told is error:
                raise
            raise told from error
        return self._final

    def _with_content_type(self, error: LLMError) -> LLMError:
        """Name the type of an unusable answer that is none of an API, such as a web page."""
        content_type = self._response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not isinstance(error, ProviderProtocolError) or content_type in _ANSWER_TYPES:
            return error
        shown = bounded(redact(content_type), 100)
        return ProviderProtocolError(f"{error} (its content type is {shown!r}: check the base URL)")

    async def refusal(self) -> LLMError:
        """Read the error that a response without success holds, as far as it comes soon, and close it."""
        body = b""
        try:
            with anyio.move_on_after(_ERROR_BODY_SECONDS), suppress(httpx.HTTPError):
                while len(body) < _MAX_ERROR_BODY:
                    body += await self._next()
        except StopAsyncIteration:
            self._read_out = True
        finally:
            await self.aclose()
        response = self._response
        url = redact_url(str(response.request.url))
        failure = HTTPFailure.of(response.status_code, response.headers, self._exchange.model, url=url)
        if response.has_redirect_location:
            place = redact_url(str(response.request.url.join(response.headers["location"])))
            body = f"{url} leads to {bounded(place, 300)}, and is not followed: check the base URL".encode()
        return self._labelled(failure_of_response(body[:_MAX_ERROR_BODY], failure))

    def _labelled(self, error: LLMError) -> LLMError:
        error.provider = error.provider or self._provider
        error.request_id = error.request_id or request_id(self._response.headers)
        return error

    async def aclose(self) -> None:
        """Close the response; a cancelled caller waits for it, a few seconds at most."""
        try:
            await self._close_response()
        finally:
            await self._lease.give_back(whole=self._read_out)

    async def _close_response(self) -> None:
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
