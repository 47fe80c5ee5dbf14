"""Owns the figures that a client tells of itself."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from seqoria_runtime._base.catalogue import Catalogue
from seqoria_runtime._base.tools import ConcurrencyCap
from seqoria_runtime._execution.batches.batch import Batch
from seqoria_runtime._execution.places.slots import Slots


@dataclass(frozen=True, slots=True)
class CapStats:
    """A limit of one tool or server (`name` says which), and how many of its `limit` places are `free`."""

    name: str
    limit: int
    free: int


@dataclass(frozen=True, slots=True)
class ClientStats:
    """How many tool calls run, wait, and are abandoned, each by tool, and the limits, at one moment.

    A running call holds a slot; a waiting one waits for a slot or for calls that it depends on; an
    abandoned one has been answered, but its thread still runs and holds the slot. `free_slots` of
    `max_concurrency` are held by nobody. `tool_timeout` is in seconds. `caps` has the limits of single
    tools and servers; it is empty while the client is closed.
    """

    running: Mapping[str, int]
    waiting: Mapping[str, int]
    abandoned: Mapping[str, int]
    free_slots: int
    max_concurrency: int
    tool_timeout: float | None
    caps: tuple[CapStats, ...] = ()


def count(
    batches: Iterable[Batch], catalogue: Catalogue, slots: Slots | None, *, limit: int, timeout: float | None
) -> ClientStats:
    live = tuple(batches)
    caps = dict.fromkeys(entry.tool.cap for entry in catalogue.entries.values())
    return ClientStats(
        running=dict(Counter(chain.from_iterable(batch.running() for batch in live))),
        waiting=dict(Counter(chain.from_iterable(batch.waiting() for batch in live))),
        abandoned=dict(Counter(slots.abandoned if slots is not None else ())),
        free_slots=slots.free if slots is not None else limit,
        max_concurrency=limit,
        tool_timeout=timeout,
        caps=tuple(_cap_stats(cap, slots) for cap in caps if cap is not None),
    )


def _cap_stats(cap: ConcurrencyCap, slots: Slots | None) -> CapStats:
    return CapStats(cap.name, cap.limit, cap.limit if slots is None else slots.caps.of(cap).free)
