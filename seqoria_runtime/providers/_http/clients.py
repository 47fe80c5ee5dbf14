"""The HTTP clients that one provider opened, one for each event loop, and who still uses each."""

from typing import Any
from weakref import WeakKeyDictionary

import anyio
import anyio.lowlevel

from seqoria_runtime.models.errors import ClientStateError

from .connection import Connection, HTTPClient

_CLOSE_SECONDS = 5.0


class Lease:
    """The use of a client by one request, from before it is sent until its response is closed."""

    def __init__(self, client: HTTPClient, clients: "Clients | None") -> None:
        self.client = client
        self.users = 0
        self._clients = clients

    async def give_back(self, *, whole: bool) -> None:
        """End the use; `whole` tells that the response was read to its end."""
        if self._clients is not None:
            await self._clients.take_back(self, whole=whole)


class Clients:
    """Gives out the application's client, or the provider's own for the running event loop.

    Over HTTP/2 many requests share a connection, and httpx neither tells the server of a stream
    that is given up nor takes it out of the connection's account. So a client with such a stream
    gets no further requests, and is closed with the last of those that it has.
    """

    def __init__(self, connection: Connection, provider: str) -> None:
        self._connection = connection
        self._provider = provider
        self._shared = connection.client is None and connection.options.http2
        self._closed = False
        # Connections belong to an event loop, and go with it.
        self._own: WeakKeyDictionary[Any, Lease] = WeakKeyDictionary()

    def reopen(self) -> None:
        """Give out clients again."""
        self._closed = False

    def lend(self) -> Lease:
        """Give a client for one request. Raises `ClientStateError` when closed."""
        if self._closed:
            raise ClientStateError(f"{self._provider} is closed; enter it with 'async with' to use it again")
        if self._connection.client is not None:
            return Lease(self._connection.client, None)
        loop = anyio.lowlevel.current_token().native_token
        lease = self._own.get(loop)
        if lease is None:
            client = self._connection.new_client()
            lease = self._own[loop] = Lease(client, self if self._shared else None)
        lease.users += 1
        return lease

    async def take_back(self, lease: Lease, *, whole: bool) -> None:
        """End one use; a cancelled caller waits until what nobody needs any more is closed."""
        lease.users -= 1
        loop = anyio.lowlevel.current_token().native_token
        if not whole and self._own.get(loop) is lease:
            del self._own[loop]
        if not lease.users and self._own.get(loop) is not lease:
            await _close(lease.client)

    async def aclose(self) -> None:
        """Close the client of this event loop; streams that use it fail."""
        self._closed = True
        lease = self._own.pop(anyio.lowlevel.current_token().native_token, None)
        if lease is not None:
            await _close(lease.client)


async def _close(client: HTTPClient) -> None:
    with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
        await client.aclose()
