"""Owns the events of one stream on their way from the work that makes them to its consumer.

A memory object stream with two things more: taking an event is synchronous, so that a cancelled
consumer loses none, and the sender can wait until the consumer asks for what comes after an event.
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from anyio import Event
from anyio.lowlevel import checkpoint

T = TypeVar("T")

_TAKES_PER_CHECKPOINT = 64


class Channel(Generic[T]):
    """One sender, one consumer. `limit` bounds what `send` buffers; `send_nowait` is not bounded."""

    __slots__ = ("_asked", "_closed", "_items", "_limit", "_news", "_room", "_takes")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: deque[tuple[T, Callable[[], None] | None]] = deque()
        self._news: Event | None = None
        self._room: Event | None = None
        self._asked: Event | None = None
        self._closed = False
        self._takes = 0

    @property
    def has_room(self) -> bool:
        """Whether `send` would not wait."""
        return len(self._items) < self._limit

    @property
    def ready(self) -> bool:
        """Whether an event can be taken without waiting, and without leaving other tasks out for long."""
        return bool(self._items) and self._takes < _TAKES_PER_CHECKPOINT

    async def send(self, event: T, on_taken: Callable[[], None] | None = None) -> None:
        """Hand over an event; waits while the buffer is full. A cancelled caller has sent nothing.

        `on_taken` is called in the consumer's task as it takes the event.
        """
        while not self.has_room:
            self._room = Event()
            await self._room.wait()
        self.send_nowait(event, on_taken)

    def send_nowait(self, event: T, on_taken: Callable[[], None] | None = None) -> None:
        """Hand over an event at once, whatever is buffered."""
        self._items.append((event, on_taken))
        if self._news is not None:
            self._news.set()
            self._news = None

    async def send_and_wait(self, event: T, on_taken: Callable[[], None] | None = None) -> None:
        """Hand over an event, and wait until the consumer has taken it and asks for the next one."""
        asked = self._asked = Event()
        self.send_nowait(event, on_taken)
        await asked.wait()

    def close(self) -> None:
        """Say that nothing more will be sent; what is buffered can still be taken."""
        self._closed = True
        if self._news is not None:
            self._news.set()
            self._news = None

    def clear(self) -> None:
        """Forget what is buffered."""
        self._items.clear()

    async def wait(self) -> bool:
        """Wait until there is an event to take (true), or there will be none any more (false)."""
        if self._takes >= _TAKES_PER_CHECKPOINT:
            self._takes = 0
            await checkpoint()
        if not self._items and self._asked is not None:
            self._asked.set()
            self._asked = None
        while not self._items and not self._closed:
            if self._news is None:
                self._news = Event()
            self._takes = 0
            await self._news.wait()
        return bool(self._items)

    def take(self) -> T:
        """Take the next event; there has to be one."""
        self._takes += 1
        event, on_taken = self._items.popleft()
        if self._room is not None:
            self._room.set()
            self._room = None
        if on_taken is not None:
            on_taken()
        return event
