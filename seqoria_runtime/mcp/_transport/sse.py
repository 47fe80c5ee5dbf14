"""Owns the HTTP+SSE transport: one event stream in, a POST for each message out.

Unlike the SDK's, a POST that fails costs its own request alone, and events may be large. Knows
nothing of what the messages mean.
"""

import json
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Self, TypeAlias
from urllib.parse import urljoin, urlsplit

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest

from seqoria_runtime._base.redaction import bounded, redact
from seqoria_runtime._base.retry_after import parse_retry_after

from .connection_end import Link, call_headers
from .failures import RequestFailed, describe, http_failure
from .http import bounded_body, cause_of, transport_failure, unwind
from .messages import messages_in

Inbox: TypeAlias = MemoryObjectSendStream[SessionMessage | Exception]

_BUFFERED = 16
_MAX_EVENT = 64 * 1024 * 1024
_MAX_SHOWN = 300
_MAX_REDIRECTS = 5


@asynccontextmanager
async def sse_transport(
    url: str,
    *,
    options: dict[str, Any],
    link: Link,
    log: logging.Logger | logging.LoggerAdapter[logging.Logger],
) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[SessionMessage | Exception], "_Poster"], None]:
    """Open the event stream and wait for the address that it gives; leaving closes both.

    Raises `RequestFailed` for a server that cannot be reached, refuses, or gives no usable address.
    """
    inbox, messages = anyio.create_memory_object_stream[SessionMessage | Exception](_BUFFERED)
    async with httpx2.AsyncClient(**options) as client, inbox, messages, anyio.create_task_group() as group:
        reader = _Reader(url, client, link, log)
        group.start_soon(reader.run, inbox)
        try:
            await reader.settled.wait()
            if reader.failure is not None:
                raise reader.failure
            yield messages, _Poster(client, reader.address, link)
        finally:
            group.cancel_scope.cancel("the connection is closed")


class _Reader:
    def __init__(
        self,
        url: str,
        client: httpx2.AsyncClient,
        link: Link,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger],
    ) -> None:
        self._url = url
        self._client = client
        self._link = link
        self._log = log
        self.settled = anyio.Event()
        self.failure: RequestFailed | None = None
        self.address = ""

    async def run(self, inbox: Inbox) -> None:
        """Read events until the stream ends; the messages are gone with it."""
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
        self._link.end(cause)
        await inbox.aclose()

    async def _read(self, inbox: Inbox) -> bool:
        """Read the stream at the present address to its end; false if it only told another address."""
        async with self._client.stream(
            "GET", self._url, headers={"Accept": "text/event-stream", "Cache-Control": "no-store"}
        ) as response:
            if response.next_request is not None:
                moved = str(response.next_request.url)
                # Everything that goes with a request was configured for this one server.
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
        """Take one event; false if there is nothing to go on with."""
        if event.event == "endpoint" and not self.settled.is_set():
            self.address = urljoin(self._url, event.data)
            if urlsplit(self.address)[:2] != urlsplit(self._url)[:2]:
                self.failure = RequestFailed("gave an address at another server", ran=False)
                return False
            self.settled.set()
        elif event.event == "message" and event.data:
            messages = messages_in(event.data)
            if not messages:
                self._log.debug(
                    "sent an event that is no message: %s", bounded(redact(event.data), _MAX_SHOWN)
                )
            for message in messages:
                await inbox.send(SessionMessage(message))
        return True


class _Poster:
    """The way out, as the SDK's dispatcher takes it; a message is sent in the task of its sender."""

    def __init__(self, client: httpx2.AsyncClient, address: str, link: Link) -> None:
        self._client = client
        self._address = address
        self._link = link

    async def send(self, item: SessionMessage, /) -> None:
        """POST one message. Raises `RequestFailed` for a request, and a broken stream for anything else."""
        message = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        try:
            await self._post(message)
        except RequestFailed as failure:
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
            self._link.doubt(cause_of(exc))
            raise transport_failure(exc) from exc
        if not response.is_success:
            raise http_failure(
                response.status_code,
                body.decode(errors="replace"),
                retry_after=parse_retry_after(response.headers, now=time.time()),
                session_gone=response.status_code == HTTPStatus.NOT_FOUND,
            )

    async def aclose(self) -> None:
        """There is nothing to close: the client is its transport's."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
