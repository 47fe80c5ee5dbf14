"""Sends a request, and sends it again if the idle connection that it was sent on turns out dead.

A server may close an idle connection just as it is used again, and some close every connection
after a streamed answer without saying so. Such a request never got an answer.
"""

from typing import Any

import anyio
import httpx

_CLOSE_SECONDS = 5.0
_LOST = (httpx.ReadError, httpx.RemoteProtocolError, httpx.WriteError)
_MAX_DEAD = 3


class _Trace:
    """Follows a request through httpcore's trace events.

    It closes the socket of a cancelled TLS handshake, which httpcore leaves to the garbage
    collector.
    """

    def __init__(self) -> None:
        self._connected = False
        self._sent = False
        self._socket: Any = None

    async def __call__(self, event: str, info: Any) -> None:
        step = event.partition(".")[2]
        self._connected = self._connected or step.startswith("connect_")
        self._sent = self._sent or step == "send_request_headers.started"
        if step == "connect_tcp.complete":
            self._socket = info["return_value"]
        elif step == "start_tls.failed" and self._socket is not None:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await self._socket.aclose()

    @property
    def used_an_old_connection(self) -> bool:
        return self._sent and not self._connected


async def send(client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    """Send a request and return its response, whose body is not read yet.

    A request that was lost on a used connection, before the head of an answer, is sent again; one
    that was lost on a new connection is an error. Redirects are not followed, even if the client
    would: httpx withholds `Authorization` from another host, but no other header with a key.
    A cancelled caller leaves no response open.
    """
    for _ in range(_MAX_DEAD):
        trace = _Trace()
        request.extensions = {**request.extensions, "trace": trace}
        try:
            return await client.send(request, stream=True, follow_redirects=False)
        except _LOST:
            if not trace.used_an_old_connection:
                raise
    return await client.send(request, stream=True, follow_redirects=False)
