"""Owns how long the calls of a batch wait for what abandoned threads hold: the slots, or a cap.

Synchronous: it says until when to wait, and answers the calls that waited too long.
"""

from typing import NamedTuple

from seqoria_runtime._execution.batches import outcomes
from seqoria_runtime._execution.batches.batch import Batch
from seqoria_runtime._execution.places.caps import Cap

from .runner import ExecutionSettings


class Stuck(NamedTuple):
    """Since when, in seconds of the loop's clock, abandoned threads hold all of `cap`; `None`: all slots."""

    since: float
    cap: Cap | None


def stuck(batch: Batch, settings: ExecutionSettings) -> Stuck | None:
    """What calls of the batch wait for in vain, if they do."""
    slots = settings.slots
    if batch.ready and slots.stuck_since is not None:
        return Stuck(slots.stuck_since, None)
    caps = () if batch.gate is None else batch.gate.waits_for
    found = [Stuck(cap.stuck_since, cap) for cap in caps if cap.stuck_since is not None]
    return min(found, key=lambda one: one.since, default=None)


def lose(found: Stuck, batch: Batch, settings: ExecutionSettings) -> None:
    """Answer the calls that wait for it, unless that has changed since it was found."""
    if found != stuck(batch, settings):
        return
    grace = settings.abandoned_grace
    if found.cap is None:
        holders = settings.slots.abandoned
        batch.refuse_ready(lambda request: outcomes.unavailable(request, grace, holders))
    else:
        holders, limit = found.cap.abandoned, found.cap.limit
        batch.refuse_held(
            found.cap, lambda request: outcomes.unavailable(request, grace, holders, limit=limit)
        )
