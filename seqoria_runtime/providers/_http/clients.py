"""The HTTP clients of one provider, one for each event loop, and how many requests use each."""

from typing import Any
from weakref import WeakKeyDictionary

import anyio
import anyio.lowlevel

from seqoria_runtime.models.errors import ClientStateError

from .connection import ConnectionSettings, HTTPClient

_CLOSE_SECONDS = 5.0


class Lease:
    """A client while requests use it: each from before it is sent until its response is closed."""

    def __init__(self, client: HTTPClient, clients: "Clients | None") -> None:
        self.client = client
        self.users = 0
        self._clients = clients

    async def release(self, *, read_out: bool) -> None:
        """End one request's use; `read_out` says that its response was read to the end."""
        if self._clients is not None:
            await self._clients.release(self, read_out=read_out)


class Clients:
    """Lends the application's client, or the provider's own for the running event loop.

    Over HTTP/2 many requests share a connection, and httpx neither tells the server about a stream
    that is given up nor stops counting it. So a client with such a stream takes no new requests,
    and is closed when the last request that uses it ends.
    """

    def __init__(self, settings: ConnectionSettings, provider: str) -> None:
        self._settings = settings
        self._provider = provider
        self._shared = settings.client is None and settings.options.http2
        self._closed = False
        # Connections belong to an event loop and die with it.
        self._own: WeakKeyDictionary[Any, Lease] = WeakKeyDictionary()

    def reopen(self) -> None:
        """Lend clients again."""
        self._closed = False

    def lend(self) -> Lease:
        """Return a client for one request. Raises `ClientStateError` when closed."""
        if self._closed:
            raise ClientStateError(f"{self._provider} is closed; enter it with 'async with' to use it again")
        if self._settings.client is not None:
            return Lease(self._settings.client, None)
        loop = anyio.lowlevel.current_token().native_token
        lease = self._own.get(loop)
        if lease is None:
            client = self._settings.new_client()
            lease = self._own[loop] = Lease(client, self if self._shared else None)
        lease.users += 1
        return lease

    async def release(self, lease: Lease, *, read_out: bool) -> None:
        """End one use; a cancelled caller waits until a client without users is closed."""
        lease.users -= 1
        loop = anyio.lowlevel.current_token().native_token
        if not read_out and self._own.get(loop) is lease:
            del self._own[loop]
        if not lease.users and self._own.get(loop) is not lease:
            await _close(lease.client)

    async def aclose(self) -> None:
        """Close the client of this event loop; streams that use it fail.

        A cancelled caller waits for that, a few seconds at most.
        """
        self._closed = True
        lease = self._own.pop(anyio.lowlevel.current_token().native_token, None)
        if lease is not None:
            await _close(lease.client)


async def _close(client: HTTPClient) -> None:
    with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
        await client.aclose()
