"""Reads one response through its decoder, and closes it whatever happens."""

import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import partial

import anyio
import httpx

from seqoria_runtime._base.redaction import bounded, redact, redact_url
from seqoria_runtime.models.errors import LLMError, ProviderProtocolError
from seqoria_runtime.providers._answers.decoding import Decoder
from seqoria_runtime.providers._answers.encoded_request import EncodedRequest
from seqoria_runtime.providers._answers.failures import (
    HTTPFailure,
    failure_of_response,
    request_id,
    safe_cause,
)
from seqoria_runtime.providers._protocol import ModelResponse, ProviderEvent

from .clients import Lease
from .connection import error_of

_ANSWER_TYPES = {"", "text/event-stream", "application/json", "application/x-ndjson"}
_MAX_ERROR_BODY = 64 * 1024
_ERROR_BODY_SECONDS = 10.0
_CLOSE_SECONDS = 5.0
# How long to wait for the usage after the end mark, and then for the end of the body, after which
# the connection can be used again.
_USAGE_SECONDS = 15.0
_END_SECONDS = 0.25
# How many buffered pieces an early close reads before it leaves the rest to the garbage collector.
_MAX_UNWOUND = 64
_GZIP_OR_ZLIB_HEADER = zlib.MAX_WBITS | 32


class Reading:
    """One response and its decoder; the call that opened it closes it."""

    def __init__(
        self, response: httpx.Response, encoded: EncodedRequest, lease: Lease, provider: str, address: str
    ) -> None:
        self.first: Sequence[ProviderEvent] = ()
        self._response = response
        self._lease = lease
        self._encoded = encoded
        self._provider = provider
        self._address = address
        self._decoder: Decoder = encoded.decoder(response.headers.get("content-type", ""))
        self._parts = aiter(response.stream)  # type: ignore[arg-type]  # an asynchronous client's
        decompress = decompressor(response.headers.get("content-encoding", ""))
        self._next = (
            partial(_next_decompressed, self._parts, decompress) if decompress else self._parts.__anext__
        )
        self._read_out = False
        self._final: ModelResponse | None = None

    async def start(self) -> None:
        """Read up to the first output, or to the end of an answer that has none."""
        self.first = await self.read() or ()
        if not self.first:
            self.finish()

    async def read(self) -> Sequence[ProviderEvent] | None:
        """Return the next events, at least one; `None` at the end of the answer."""
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

        The answer is complete by then, so neither a silence nor a broken connection is an error.
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
        """Return the response. Raises `LLMError` for an answer that failed or was cut short."""
        try:
            self._final = self._final or self._decoder.finish()
        except LLMError as error:
            shown = self._labelled(self._with_content_type(error))
            if shown is error:
                raise
            raise shown from error
        return self._final

    def _with_content_type(self, error: LLMError) -> LLMError:
        """Name the content type of an answer that does not come from an API, such as a web page."""
        content_type = self._response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not isinstance(error, ProviderProtocolError) or content_type in _ANSWER_TYPES:
            return error
        shown = bounded(redact(content_type), 100)
        return ProviderProtocolError(f"{error} (its content type is {shown!r}: check the base URL)")

    async def refusal(self) -> LLMError:
        """Read the error in a refused response, as far as it arrives soon, and close the response."""
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
        failure = HTTPFailure.of(response.status_code, response.headers, self._encoded.model, url=url)
        if response.has_redirect_location:
            place = redact_url(str(response.request.url.join(response.headers["location"])))
            body = f"{url} leads to {bounded(place, 300)}, and is not followed: check the base URL".encode()
        return self._labelled(failure_of_response(body[:_MAX_ERROR_BODY], failure))

    def _labelled(self, error: LLMError) -> LLMError:
        error.provider = error.provider or self._provider
        error.request_id = error.request_id or request_id(self._response.headers)
        return error

    async def aclose(self) -> None:
        """Close the response; a cancelled caller waits for that, a few seconds at most."""
        try:
            await self._close_response()
        finally:
            await self._lease.release(read_out=self._read_out)

    async def _close_response(self) -> None:
        with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
            try:
                if not self._read_out:
                    await _unwind(self._parts)
            finally:
                await self._response.aclose()


def decompressor(encoding: str) -> Callable[[bytes], bytes] | None:
    """Return what decompresses the pieces of one answer in order; `None` if they are not compressed.

    Servers are asked not to compress, but some do. It raises `ValueError` for broken data, and for
    any encoding but gzip and deflate.
    """
    kind = encoding.strip().lower()
    if kind in {"", "identity"}:
        return None
    state = zlib.decompressobj(_GZIP_OR_ZLIB_HEADER)

    def decompress(data: bytes) -> bytes:
        if kind not in {"gzip", "x-gzip", "deflate"}:
            raise ValueError(f"compressed as {kind!r}, which was not requested")
        try:
            return state.decompress(data)
        except zlib.error as error:
            raise ValueError(str(error)) from error

    return decompress


async def _next_decompressed(parts: AsyncIterator[bytes], decompress: Callable[[bytes], bytes]) -> bytes:
    try:
        return decompress(await anext(parts))
    except ValueError as error:
        raise httpx.DecodingError(str(error)) from error


async def _unwind(parts: AsyncIterator[bytes]) -> None:
    """End an iteration in its middle.

    Its generators are nested. Closing the outer one would leave the inner ones to the garbage
    collector, which warns on trio and starts tasks on asyncio. A cancelled read ends them all.
    """
    with anyio.CancelScope() as scope:
        scope.cancel("the rest of the response is not wanted")
        with suppress(StopAsyncIteration, httpx.HTTPError):
            for _ in range(_MAX_UNWOUND):
                await anext(parts)
