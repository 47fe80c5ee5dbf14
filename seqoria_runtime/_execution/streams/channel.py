"""Carries the events of one stream from the work that makes them to its consumer.

A memory object stream with two additions: taking an event is synchronous, so a cancelled consumer loses
none; and the sender can wait until the consumer asks for what comes after an event.
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from anyio import Event
from anyio.lowlevel import checkpoint

T = TypeVar("T")

_TAKES_PER_CHECKPOINT = 64


class Nothing:
    """The type of `NOTHING`, which stands for no event; `None` may be an event."""


NOTHING = Nothing()


class _Hooked(Generic[T]):
    """An event, and what to do in the consumer's task as it is taken."""

    __slots__ = ("event", "on_taken")

    def __init__(self, event: T, on_taken: Callable[[], object]) -> None:
        self.event = event
        self.on_taken = on_taken


class Channel(Generic[T]):
    """One sender, one consumer. `limit` bounds what `send` buffers; `send_nowait` is not bounded."""

    __slots__ = ("_asked", "_closed", "_cut", "_items", "_latest", "_limit", "_news", "_room", "_takes")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: deque[T | _Hooked[T]] = deque()
        self._latest: dict[int, _Hooked[T]] = {}
        self._news: Event | None = None
        self._room: Event | None = None
        self._asked: Event | None = None
        self._closed = False
        self._cut = False
        self._takes = 0

    def try_send(self, event: T) -> bool:
        """Send an event if there is room in the buffer; return whether there was."""
        if len(self._items) >= self._limit:
            return False
        if not self._cut:
            self._items.append(event)
            if self._news is not None:
                self._news.set()
                self._news = None
        return True

    async def send(self, event: T, on_taken: Callable[[], None] | None = None) -> None:
        """Send an event; wait while the buffer is full. A cancelled caller has sent nothing.

        `on_taken` is called in the consumer's task as it takes the event.
        """
        while len(self._items) >= self._limit:
            self._room = Event()
            await self._room.wait()
        self.send_nowait(event, on_taken)

    def send_nowait(self, event: T, on_taken: Callable[[], object] | None = None) -> None:
        """Send an event at once, however full the buffer is."""
        if self._cut:
            return
        self._items.append(event if on_taken is None else _Hooked(event, on_taken))
        if self._news is not None:
            self._news.set()
            self._news = None

    def send_latest(self, key: int, event: T) -> None:
        """Send an event at once; replace the last one with this key if that is still buffered."""
        buffered = self._latest.get(key)
        if buffered is not None:
            buffered.event = event
            return
        self.send_nowait(event, lambda: self._latest.pop(key, None))
        last = self._items[-1] if self._items else None
        if isinstance(last, _Hooked):
            self._latest[key] = last

    async def send_and_wait(self, event: T, on_taken: Callable[[], None] | None = None) -> None:
        """Send an event, and wait until the consumer has taken it and asks for the next one.

        The event of a cancelled caller stays sent.
        """
        asked = self._asked = Event()
        self.send_nowait(event, on_taken)
        await asked.wait()

    def close(self) -> None:
        """End the channel; what is buffered can still be taken."""
        self._closed = True
        if self._news is not None:
            self._news.set()
            self._news = None

    def cut(self) -> bool:
        """Drop what is buffered, and all that is sent from now on; return whether anything was buffered."""
        self._cut = True
        unread = bool(self._items)
        self._items.clear()
        return unread

    async def wait(self) -> bool:
        """Wait for an event; return whether there is one to take. A cancelled caller has taken none."""
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
        """Return the next event; there must be one."""
        self._takes += 1
        item = self._items.popleft()
        if self._room is not None:
            self._room.set()
            self._room = None
        if type(item) is not _Hooked:
            return item  # type: ignore[return-value]
        item.on_taken()
        event: T = item.event
        return event

    def take_nowait(self) -> T | Nothing:
        """Return the next event if it is there; `NOTHING` if not, or if it is time for a checkpoint."""
        if not self._items or self._takes >= _TAKES_PER_CHECKPOINT:
            return NOTHING
        return self.take()
