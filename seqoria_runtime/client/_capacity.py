"""The slots of a client, and how many of its calls run and wait."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from anyio.lowlevel import EventLoopToken

from seqoria_runtime._base.catalogue import Catalogue
from seqoria_runtime._base.tools import ConcurrencyCap
from seqoria_runtime._execution.batches.batch import Batch
from seqoria_runtime._execution.batches.observing import Listener
from seqoria_runtime._execution.places.adaptive import (
    AdaptiveController,
    AdaptiveLimit,
    LimitChange,
    LimitFollower,
)
from seqoria_runtime._execution.places.places import Places


@dataclass(frozen=True, slots=True)
class CapStats:
    """The limit of one tool or server, which `name` says; `free` of its `limit` places are free."""

    name: str
    limit: int
    free: int


@dataclass(frozen=True, slots=True)
class ClientStats:
    """How many tool calls run, wait and are abandoned, each by tool, and the limits, at one moment.

    A running call holds a slot; a waiting one waits for a slot or for calls that it depends on; an
    abandoned one has been answered, but its thread still runs and holds the slot. `free_slots` of
    `max_concurrency` are free. `tool_timeout` is in seconds. `caps` has the limits of single tools and
    servers; it is empty while the client is closed.
    """

    running: Mapping[str, int]
    waiting: Mapping[str, int]
    abandoned: Mapping[str, int]
    free_slots: int
    max_concurrency: int
    tool_timeout: float | None
    caps: tuple[CapStats, ...] = ()


class ClientPlaces:
    """The places of a client, which outlive an opening: an abandoned thread may hold some for longer."""

    def __init__(self, limit: int | AdaptiveLimit, timeout: float | None) -> None:
        self._limit = limit
        self._timeout = timeout
        self._places: Places | None = None
        self._follower: LimitFollower | None = None
        self._token: EventLoopToken | None = None

    def places(self, token: EventLoopToken, clock: Callable[[], float]) -> Places:
        """Return the places for this event loop; another loop than the last one's gets new ones."""
        if self._places is None or self._token != token:
            self._token = token
            self._places = Places(self._least, clock)
            if isinstance(self._limit, AdaptiveLimit):
                self._follower = LimitFollower(AdaptiveController(self._limit, clock()), self._places)
        return self._places

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """What has to see each `CallEvent`: an adaptive limit learns from them."""
        return () if self._follower is None else (self._follower.note,)

    @property
    def history(self) -> tuple[LimitChange, ...]:
        """How an adaptive limit has changed, the current limit last."""
        return () if self._follower is None else self._follower.controller.history

    @property
    def _least(self) -> int:
        return self._limit.min if isinstance(self._limit, AdaptiveLimit) else self._limit

    def stats(self, batches: Iterable[Batch], catalogue: Catalogue) -> ClientStats:
        """Count the calls of these batches, by tool."""
        live = tuple(batches)
        slots = None if self._places is None else self._places.slots
        caps = dict.fromkeys(entry.tool.cap for entry in catalogue.entries.values())
        return ClientStats(
            running=dict(Counter(chain.from_iterable(batch.running() for batch in live))),
            waiting=dict(Counter(chain.from_iterable(batch.waiting() for batch in live))),
            abandoned=dict(Counter(slots.abandoned if slots is not None else ())),
            free_slots=slots.free if slots is not None else self._least,
            max_concurrency=slots.limit if slots is not None else self._least,
            tool_timeout=self._timeout,
            caps=tuple(self._cap_stats(cap) for cap in caps if cap is not None),
        )

    def _cap_stats(self, cap: ConcurrencyCap) -> CapStats:
        free = cap.limit if self._places is None else self._places.pool_of(cap).free
        return CapStats(cap.name, cap.limit, free)
