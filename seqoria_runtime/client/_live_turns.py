"""Owns the knowledge of which history lists have a live turn, over all clients of the process."""

from typing import Any

from seqoria_runtime.execution.hosting import HostedWork, hosted_in
from seqoria_runtime.models.errors import TurnInProgressError

_live: dict[int, tuple[list[Any], HostedWork[Any]]] = {}


async def claim(history: list[Any], work: HostedWork[Any]) -> None:
    """Make `work` the live turn of this list; waits for an earlier one that is being closed.

    Raises `TurnInProgressError` if the list has a live turn that is not.
    """
    while (entry := _live.get(id(history))) is not None:
        earlier = entry[1]
        if earlier.reason is None or earlier.would_wait_for(hosted_in.get()):
            raise TurnInProgressError(
                "this history has a turn in progress: finish or close it before the next one, or give each "
                "conversation a list of its own"
            )
        await earlier.settled.wait()
    _live[id(history)] = (history, work)


def release(history: list[Any]) -> None:
    """The list's turn has left the history as it will stay."""
    _live.pop(id(history), None)
