"""A model behind a small connection pool; like HTTP, it releases a connection only after an await."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import anyio

from seqoria_runtime.providers import AsyncBaseProvider, ModelRequest, ProviderEvent


class Pooled(AsyncBaseProvider):
    """Passes on the events of `model`, over `size` connections, which take `closing` s to close."""

    def __init__(self, model: AsyncBaseProvider, *, size: int = 2, closing: float = 0.01) -> None:
        self._model = model
        self._size = size
        self._closing = closing
        self._given_back = anyio.Event()
        self.open = 0
        self.opened = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        with anyio.fail_after(1):  # the pool's own timeout
            while self.open == self._size:
                await self._given_back.wait()
        self.open += 1
        self.opened += 1
        try:
            async with aclosing(as_generator(self._model.stream(request))) as events:
                async for event in events:
                    yield event
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(self._closing)
            self.open -= 1
            self._given_back.set()
            self._given_back = anyio.Event()


async def as_generator(events: AsyncIterator[ProviderEvent]) -> AsyncGenerator[ProviderEvent, None]:
    async for event in events:
        yield event
