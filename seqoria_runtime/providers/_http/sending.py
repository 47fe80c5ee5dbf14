"""Sends a request, on another connection where the one from the pool turns out to be dead.

A server may close an idle connection in the moment in which it is used again, and some close each
one behind a streamed answer without saying so. Such a request never had an answer.
"""

from typing import Any

import anyio
import httpx

_CLOSE_SECONDS = 5.0
_LOST = (httpx.ReadError, httpx.RemoteProtocolError, httpx.WriteError)
_MAX_DEAD = 3


class _Journey:
    """What the connection pool tells of how a request went out.

    A socket whose TLS handshake is cancelled is closed here, as the pool leaves it to the collector.
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
    """Send a request and give its response, whose body is still to be read.

    A request that was lost on a connection used before, with no head of an answer come, is sent
    again; one that was lost on a new connection is an error. No redirect is followed, whatever the
    client does else: httpx keeps `Authorization` from another host, and no other header with a key.
    """
    for _ in range(_MAX_DEAD):
        journey = _Journey()
        request.extensions = {**request.extensions, "trace": journey}
        try:
            return await client.send(request, stream=True, follow_redirects=False)
        except _LOST:
            if not journey.used_an_old_connection:
                raise
    return await client.send(request, stream=True, follow_redirects=False)
