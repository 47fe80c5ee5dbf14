"""The HTTP client of a connection, in which a broken socket or a refusal fails one request only.

The SDK ends the whole connection when one POST's socket breaks, and drops the status of a refusal.
This client turns both into an error answer, and records in the `MessageState` what happened.
"""

import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import anyio
import httpx2
from mcp_types import INTERNAL_ERROR, PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCResponse, RequestId

from seqoria_runtime._base.retry_after import parse_retry_after

from .connection_end import ConnectionEnd, MessageState, current_message
from .failures import RequestFailed, describe, http_failure
from .messages import messages_in, strict_message
from .surrogates import SurrogateFixer

SESSION_HEADER = "mcp-session-id"

_MAX_ERROR_BODY = 64 * 1024
_MAX_UNWOUND = 64
# A server that does not read a notice would block everything else on its connection: the SDK sends one
# message at a time.
_NOTICE_SECONDS = 2.0
_ERROR_STATUS = 400
_OF_THE_BODY = {"content-encoding", "content-length", "transfer-encoding"}
_NEVER_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
)


def http_options(headers: dict[str, str] | None, auth: httpx2.Auth | None, timeout: float) -> dict[str, Any]:
    """Return the options of all HTTP clients here: no read timeout, and no limit on sockets but the slots."""
    return {
        "headers": headers,
        "auth": auth,
        "timeout": httpx2.Timeout(timeout, read=None, pool=None),
        "limits": httpx2.Limits(max_connections=None, max_keepalive_connections=20),
    }


class HTTPClient(httpx2.AsyncClient):
    """The client that the SDK's Streamable HTTP transport uses."""

    def __init__(self, end: ConnectionEnd, **options: Any) -> None:
        super().__init__(**options)
        self._end = end

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request, with the headers of its tool call."""
        state = current_message.get()
        _prepare(request, state)
        try:
            response = await super().send(request, **options)
            if request.method != "POST" or state is None:
                return response
            return await self._readable(request, response, state)
        except httpx2.TransportError as exc:
            if request.method == "DELETE":
                # The server is gone, and its session with it: a failed DELETE is no failure.
                return httpx2.Response(httpx2.codes.METHOD_NOT_ALLOWED, request=request)
            if not isinstance(exc, httpx2.ReadTimeout):
                self._end.suspect(cause_of(exc))
            return self._failed(request, state, transport_failure(exc), exc)
        except httpx2.RequestError as exc:
            failure = RequestFailed(f"sent what cannot be read ({describe(exc)})", ran=True)
            return self._failed(request, state, failure, exc)
        except Exception as exc:  # noqa: BLE001 - the SDK would end the connection for whatever a login raises
            # Anything else comes from the login, before the server accepted the request.
            reason = str(exc) or type(exc).__name__
            failure = RequestFailed(f"could not be logged in to: {reason}", ran=False, about="login")
            return self._failed(request, state, failure, exc)

    async def _readable(
        self, request: httpx2.Request, response: httpx2.Response, state: MessageState
    ) -> httpx2.Response:
        if response.status_code >= _ERROR_STATUS:
            body = await bounded_body(response)
            return self._refused(request, response, body, state)
        content_type = response.headers.get("content-type", "").lower()
        if content_type.startswith("application/json"):
            await response.aread()
            return response if state.request is None else _answer_in(response, request, state.request)
        if content_type.startswith("text/event-stream") and isinstance(
            response.stream, httpx2.AsyncByteStream
        ):
            fixer = None if "content-encoding" in response.headers else SurrogateFixer()
            response.stream = _WatchedStream(response.stream, state, fixer)
        return response

    def _refused(
        self, request: httpx2.Request, response: httpx2.Response, body: bytes, state: MessageState
    ) -> httpx2.Response:
        # A session is gone on 404, as the protocol says, and on a 400 that answers no request: servers that
        # lost their sessions in a restart send either. `retry_and_renewal` then has the session renewed.
        answered = _is_answer(body, request)
        session_gone = SESSION_HEADER in request.headers and (
            response.status_code == httpx2.codes.NOT_FOUND
            or (response.status_code == httpx2.codes.BAD_REQUEST and not answered)
        )
        if session_gone or not _is_error_object(body):
            state.failure = http_failure(
                response.status_code,
                body.decode(errors="replace"),
                retry_after=parse_retry_after(response.headers, now=time.time()),
                session_gone=session_gone,
            )
        content_type = response.headers.get("content-type", "text/plain")
        return httpx2.Response(
            response.status_code, headers={"content-type": content_type}, content=body, request=request
        )

    def _failed(
        self,
        request: httpx2.Request,
        state: MessageState | None,
        failure: RequestFailed,
        exc: Exception,
    ) -> httpx2.Response:
        if request.method != "POST" or state is None:
            raise exc
        state.failure = failure
        error = {"code": INTERNAL_ERROR, "message": failure.cause}
        return httpx2.Response(
            httpx2.codes.SERVICE_UNAVAILABLE,
            json={"jsonrpc": "2.0", "id": None, "error": error},
            request=request,
        )


class _WatchedStream(httpx2.AsyncByteStream):
    """An event stream that records a failure when it ends before the SDK has its answer.

    Surrogates in a compressed stream are not fixed.
    """

    def __init__(
        self, inner: httpx2.AsyncByteStream, state: MessageState, fixer: SurrogateFixer | None
    ) -> None:
        self._inner = inner
        self._state = state
        self._fixer = fixer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        reason, fixer = "the stream ended", self._fixer
        try:
            async for chunk in self._inner:
                yield chunk if fixer is None else fixer.feed(chunk)
            if fixer is not None:
                yield fixer.finish()
        except httpx2.TransportError as exc:
            reason = describe(exc)
        self._state.failure = RequestFailed(f"was lost before it had answered ({reason})", ran=True)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _prepare(request: httpx2.Request, state: MessageState | None) -> None:
    is_notice = request.method == "DELETE"
    if state is not None:
        state.failure = None
        request.headers.update(state.headers or {})
        is_notice = is_notice or (state.notice and request.method == "POST")
    if is_notice:
        request.extensions["timeout"] = httpx2.Timeout(_NOTICE_SECONDS).as_dict()


def _answer_in(response: httpx2.Response, request: httpx2.Request, asked: RequestId) -> httpx2.Response:
    """Return a response whose body is the answer to this request, whatever else the server sent with it."""
    message = strict_message(response.content)
    if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id == asked:
        return response
    error = ErrorData(code=PARSE_ERROR, message="the body of the response is not an answer to the request")
    found = (one for one in messages_in(response.content) if isinstance(one, JSONRPCResponse | JSONRPCError))
    answer = next(found, JSONRPCError(jsonrpc="2.0", id=asked, error=error)).model_copy(update={"id": asked})
    headers = {name: text for name, text in response.headers.items() if name not in _OF_THE_BODY}
    content = answer.model_dump_json(by_alias=True, exclude_unset=True)
    return httpx2.Response(response.status_code, headers=headers, content=content, request=request)


def cause_of(exc: httpx2.TransportError) -> str:
    """Return a broken socket as a predicate of the server."""
    if isinstance(exc, _NEVER_SENT):
        return f"could not be reached ({describe(exc)})"
    return f"was lost before it had answered ({describe(exc)})"


def transport_failure(exc: httpx2.TransportError) -> RequestFailed:
    return RequestFailed(cause_of(exc), ran=not isinstance(exc, _NEVER_SENT))


async def bounded_body(response: httpx2.Response) -> bytes:
    """Return the start of a body, and close the response."""
    body = b""
    parts = response.aiter_bytes()
    async for chunk in parts:
        body += chunk
        if len(body) >= _MAX_ERROR_BODY:
            await unwind(parts)
            break
    await response.aclose()
    return body[:_MAX_ERROR_BODY]


async def unwind(parts: AsyncIterator[object]) -> None:
    """End an iterator of a response's parts early, by cancelling a read.

    The iterators are nested generators. Closing the outer one would leave the inner ones to the garbage
    collector, which warns on trio.
    """
    with anyio.CancelScope() as scope:
        scope.cancel("the rest of the response is not wanted")
        with suppress(StopAsyncIteration, httpx2.HTTPError):
            for _ in range(_MAX_UNWOUND):
                await anext(parts)


def _is_error_object(body: bytes) -> bool:
    """Return whether a body is an error of the protocol, which the SDK delivers."""
    parsed = _parsed(body)
    return isinstance(parsed, dict) and isinstance(parsed.get("error"), dict) and "id" in parsed


def _is_answer(body: bytes, request: httpx2.Request) -> bool:
    """Return whether a body answers this very request, by its id."""
    parsed, asked = _parsed(body), _parsed(request.content)
    return (
        isinstance(parsed, dict)
        and isinstance(asked, dict)
        and parsed.get("id") == asked.get("id") is not None
    )


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None
