"""The HTTP+SSE transport: one event stream in, a POST for each message out.

Unlike in the SDK's, a POST that fails fails its own request only, and events may be large.
"""

import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import urljoin, urlsplit

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest

from seqoria_runtime._base.retry_after import parse_retry_after

from .connection_end import ConnectionEnd, Log, call_headers
from .failures import RequestFailed, describe, http_failure
from .http import bounded_body, cause_of, transport_failure, unwind
from .messages import Inbox, deliver

_BUFFERED = 16
_MAX_EVENT = 64 * 1024 * 1024
_MAX_REDIRECTS = 5


@asynccontextmanager
async def sse_transport(
    url: str,
    *,
    options: dict[str, Any],
    end: ConnectionEnd,
    log: Log,
) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[SessionMessage | Exception], "_Poster"], None]:
    """Open the event stream and wait for the address in it; leaving closes both, also when cancelled.

    Raises `RequestFailed` for a server that cannot be reached, refuses, or sends no usable address.
    """
    inbox, messages = anyio.create_memory_object_stream[SessionMessage | Exception](_BUFFERED)
    async with httpx2.AsyncClient(**options) as client, inbox, messages, anyio.create_task_group() as group:
        reader = _EventReader(url, client, end, log)
        group.start_soon(reader.run, inbox)
        try:
            await reader.settled.wait()
            if reader.failure is not None:
                raise reader.failure
            yield messages, _Poster(client, reader.address, end)
        finally:
            group.cancel_scope.cancel("the connection is closed")


class _EventReader:
    def __init__(
        self,
        url: str,
        client: httpx2.AsyncClient,
        end: ConnectionEnd,
        log: Log,
    ) -> None:
        self._url = url
        self._client = client
        self._end = end
        self._log = log
        self.settled = anyio.Event()
        self.failure: RequestFailed | None = None
        self.address = ""

    async def run(self, inbox: Inbox) -> None:
        """Read events until the stream ends, and then end the connection."""
        cause = "ended the event stream"
        try:
            for _ in range(_MAX_REDIRECTS):
                if await self._read(inbox):
                    break
        except RequestFailed as exc:
            cause, self.failure = exc.cause, exc
        except httpx2.TransportError as exc:
            cause = cause_of(exc) if not self.settled.is_set() else f"was lost ({describe(exc)})"
        except httpx2.SSEError as exc:
            cause = f"sent no event stream: {exc}"
        if not self.settled.is_set():
            self.failure = self.failure or RequestFailed(cause, ran=False)
            self.settled.set()
        self._end.report(cause)
        await inbox.aclose()

    async def _read(self, inbox: Inbox) -> bool:
        """Read the stream at the current address to its end; return false for a redirect."""
        async with self._client.stream(
            "GET", self._url, headers={"Accept": "text/event-stream", "Cache-Control": "no-store"}
        ) as response:
            if response.next_request is not None:
                moved = str(response.next_request.url)
                # Headers and tokens were configured for this server: another one must not get them.
                if urlsplit(moved)[:2] != urlsplit(self._url)[:2]:
                    raise RequestFailed("redirected to another server", ran=False)
                self._url = moved
                return False
            if not response.is_success:
                body = await bounded_body(response)
                raise http_failure(response.status_code, body.decode(errors="replace"))
            events = aiter(httpx2.EventSource(response, max_event_size=_MAX_EVENT))
            async for event in events:
                if not await self._take(event, inbox):
                    await unwind(events)
                    break
        return True

    async def _take(self, event: httpx2.ServerSentEvent, inbox: Inbox) -> bool:
        """Handle one event; return false to stop reading."""
        if event.event == "endpoint" and not self.settled.is_set():
            self.address = urljoin(self._url, event.data)
            if urlsplit(self.address)[:2] != urlsplit(self._url)[:2]:
                self.failure = RequestFailed("sent an address at another server", ran=False)
                return False
            self.settled.set()
        elif event.event == "message" and event.data:
            await deliver(event.data, inbox, self._log, "sent an event")
        return True


class _Poster:
    """The write stream for the SDK's dispatcher; each message is sent in its sender's task."""

    def __init__(self, client: httpx2.AsyncClient, address: str, end: ConnectionEnd) -> None:
        self._client = client
        self._address = address
        self._end = end

    async def send(self, item: SessionMessage, /) -> None:
        """POST one message; a cancelled caller may have sent it.

        Raises `RequestFailed` for a request, and `BrokenResourceError` for anything else.
        """
        message = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        try:
            await self._post(message)
        except RequestFailed as failure:
            # A request fails alone. For a notice or an answer the SDK understands only a broken stream.
            if isinstance(item.message, JSONRPCRequest):
                raise
            raise anyio.BrokenResourceError from failure

    async def _post(self, message: Any) -> None:
        headers = {"Content-Type": "application/json", **(call_headers.get() or {})}
        try:
            async with self._client.stream(
                "POST", self._address, content=json.dumps(message), headers=headers
            ) as response:
                body = await bounded_body(response)
        except httpx2.TransportError as exc:
            self._end.suspect(cause_of(exc))
            raise transport_failure(exc) from exc
        if not response.is_success:
            raise http_failure(
                response.status_code,
                body.decode(errors="replace"),
                retry_after=parse_retry_after(response.headers, now=time.time()),
                session_gone=response.status_code == HTTPStatus.NOT_FOUND,
            )

    async def aclose(self) -> None:
        """Do nothing: the transport closes the client."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
