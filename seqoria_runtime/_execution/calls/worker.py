"""Owns what one worker of a batch holds, and when it has to let other tasks run. Knows nothing of calls."""

from dataclasses import dataclass

from anyio import TaskInfo

from seqoria_runtime._execution.places.slots import Slot

CALLS_PER_CHECKPOINT = 64


@dataclass(slots=True)
class Worker:
    """A worker in `task`, which has just been started for it where it is a `new_task`."""

    slot: Slot | None
    task: TaskInfo
    new_task: bool = False
    calls_left: int = CALLS_PER_CHECKPOINT
    """How many calls may yet end without suspending before other tasks have been left out for long."""
