"""The object that a consumer reads, closes or drops: `Stream`."""

import warnings
from types import TracebackType
from typing import Generic, Self, TypeVar

from anyio import get_current_task
from anyio.lowlevel import checkpoint

from .channel import Nothing
from .hosted import HostedWork, hosted_in

T = TypeVar("T")


class Stream(Generic[T]):
    """An asynchronous iterator of events; the work that makes them runs inside the client.

    Nothing starts before the first iteration or `async with`. Use it as
    `async with client.chat(...) as turn: async for event in turn: ...`, which closes it on any way
    out; `contextlib.aclosing` does the same. A cancelled `anext` loses nothing: the next one returns
    the event that would have come. Two iterations at once raise `RuntimeError`.
    """

    def __init__(self, work: HostedWork[T]) -> None:
        self._work = work
        self._channel = work.channel
        self._iterating = False
        self._closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if self._iterating:
            raise RuntimeError(f"{self._work.name} is being iterated by another task already")
        event = self._channel.take_nowait()
        if not isinstance(event, Nothing):
            return event
        self._iterating = True
        try:
            return await self._next()
        finally:
            self._iterating = False

    async def _start(self) -> None:
        try:
            await self._work.start()
        except BaseException:
            self._closed = self._work.reason is not None
            raise

    async def _next(self) -> T:
        work = self._work
        if not self._closed and not work.started:
            await self._start()
        if not self._closed and await self._channel.wait():
            return self._channel.take()
        if work.reason == "client closed" and get_current_task().has_pending_cancellation():
            # The consumer is cancelled too, perhaps by the scope that cancelled the client: let that
            # cancellation arrive, instead of an error about the client.
            await checkpoint()
        if not self._closed:
            self._closed = True
            work.finish()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Cancel what is unfinished and return when every task of it has ended.

        May be called from any task, and more than once. An asynchronous tool that ignores its
        cancellation delays this; a worker thread does not. A cancelled caller waits all the same.
        Raises `RuntimeError` in a tool of this very stream, which would wait for itself.
        """
        if self._work.would_wait_for(hosted_in.get()):
            raise RuntimeError(
                f"{self._work.name} cannot be closed by code that it waits for itself, such as its own tool"
            )
        self._closed = True
        self._channel.cut()
        if self._work.started:
            await self._work.close()
        else:
            self._work.cancel("closed by its consumer")

    async def __aenter__(self) -> Self:
        if not self._closed and not self._work.started:
            await self._start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        work = self._work
        if self._closed or not work.started:
            return
        unfinished = not work.ended
        work.drop()
        if unfinished:
            warnings.warn(
                f"{work.name} was dropped before it had ended: close it, or use 'async with'",
                ResourceWarning,
                source=self,
                stacklevel=1,
            )
