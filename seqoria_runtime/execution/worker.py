"""Owns what one worker of a batch holds, and when it has to let other tasks run. Knows nothing of calls."""

from dataclasses import dataclass

from anyio import TaskInfo

from .slots import Slot

_CALLS_PER_CHECKPOINT = 64


@dataclass(slots=True)
class Worker:
    """A worker in `task`, which has just been started for it where it is a `new_task`."""

    slot: Slot | None
    task: TaskInfo
    calls_since_checkpoint: int = 0
    new_task: bool = False

    @property
    def is_due(self) -> bool:
        """Whether so many calls ended without suspending that other tasks have been left out for long."""
        return self.calls_since_checkpoint >= _CALLS_PER_CHECKPOINT
