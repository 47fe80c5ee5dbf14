"""Owns the knowledge of which history lists have a live turn, over all clients of the process."""

from collections.abc import Awaitable, Callable
from typing import Any

from seqoria_runtime._execution.streams.hosted import HostedWork, hosted_in
from seqoria_runtime.models.errors import TurnInProgressError

_live: dict[int, tuple[list[Any], HostedWork[Any]]] = {}


def claim(history: list[Any], work: HostedWork[Any], begin: Callable[[], None]) -> Awaitable[None] | None:
    """Make `work` the live turn of this list and call `begin`, whose failure gives the list up again.

    Where the list has an earlier turn, what is given has to be awaited first: it waits for one that is
    being closed, and raises `TurnInProgressError` for one that is not.
    """
    if id(history) in _live:
        return _claim_later(history, work, begin)
    _claim(history, work, begin)
    return None


async def _claim_later(history: list[Any], work: HostedWork[Any], begin: Callable[[], None]) -> None:
    while (entry := _live.get(id(history))) is not None:
        earlier = entry[1]
        if earlier.reason is None or earlier.would_wait_for(hosted_in.get()):
            raise TurnInProgressError(
                "this history has a turn in progress: finish or close it before the next one, or give each "
                "conversation a list of its own"
            )
        await earlier.settled()
    _claim(history, work, begin)


def _claim(history: list[Any], work: HostedWork[Any], begin: Callable[[], None]) -> None:
    _live[id(history)] = (history, work)
    try:
        begin()
    except BaseException:
        release(history)
        raise


def release(history: list[Any]) -> None:
    """The list's turn has left the history as it will stay."""
    _live.pop(id(history), None)
