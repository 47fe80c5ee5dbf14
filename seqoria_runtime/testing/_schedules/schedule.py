"""Schedules: in which order the ready tasks of a run go. Values only, without an event loop."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

from seqoria_runtime._base.checks import positive_int

Strategy: TypeAlias = Literal["random", "pct"]


class TaskStep(NamedTuple):
    """A step that a task is ready to make: the task, and how many steps it has made before.

    Tasks are numbered from 0 in the order in which they first become ready. What is not a task (a
    timer, a call from a finalizer) has a number below 0.
    """

    task: int
    step: int


Chooser: TypeAlias = Callable[[Sequence[TaskStep]], int]
"""Returns the position of the step that goes next, from a queue of two or more.

The steps before the chosen one are passed over, and go to the end of the queue.
"""


class Schedule(Protocol):
    """An order for the tasks of a run. One object serves any number of runs."""

    def start(self) -> Chooser:
        """Start a run, and return what makes its choices."""


@dataclass(frozen=True, slots=True)
class FixedSchedule:
    """The default order, in which tasks take turns, with `delays`: triples of task, step and times.

    Before this step of this task, the task is passed over so many times.
    """

    delays: tuple[tuple[int, int, int], ...] = ()

    def start(self) -> Chooser:
        left = {TaskStep(task, step): times for task, step, times in self.delays}

        def choose(ready: Sequence[TaskStep]) -> int:
            if not left:
                return 0
            position = min(range(len(ready)), key=lambda position: left.get(ready[position], 0))
            for step in ready[:position]:
                left[step] -= 1
            return position

        return choose


@dataclass(frozen=True, slots=True)
class RandomSchedule:
    """Each ready task has the same chance to go next. Equal seeds choose alike."""

    seed: int | str

    def start(self) -> Chooser:
        numbers = random.Random(self.seed)
        return lambda ready: numbers.randrange(len(ready))


@dataclass(frozen=True, slots=True)
class PrioritySchedule:
    """Each task has a random priority and the highest goes next; at `changes` choices the highest drops.

    This is probabilistic concurrency testing (PCT): it finds a bug that needs `changes` switches at
    the right places of a run of `choices` choices with a known chance. Equal values choose alike.
    """

    seed: int | str
    changes: int = 2
    choices: int = 100

    def __post_init__(self) -> None:
        positive_int("choices", self.choices)
        if isinstance(self.changes, bool) or self.changes < 0:
            raise ValueError(f"'changes' must be an integer >= 0, not {self.changes!r}")

    def start(self) -> Chooser:
        numbers = random.Random(self.seed)
        drops = set(numbers.sample(range(self.choices), min(self.changes, self.choices)))
        priorities: dict[int, float] = {}
        made = 0

        def highest(ready: Sequence[TaskStep]) -> int:
            for step in ready:
                if step.task not in priorities:
                    priorities[step.task] = numbers.random()
            return max(range(len(ready)), key=lambda position: priorities[ready[position].task])

        def choose(ready: Sequence[TaskStep]) -> int:
            nonlocal made
            position = highest(ready)
            if made in drops:
                # Below every first priority, and below those that dropped before.
                priorities[ready[position].task] = -1.0 - made
                position = highest(ready)
            made += 1
            return position

        return choose


def schedule_of(strategy: Strategy, seed: str, *, choices: int) -> Schedule:
    """Return the schedule of a search strategy for a run of about so many choices."""
    if strategy == "random":
        return RandomSchedule(seed)
    if strategy == "pct":
        return PrioritySchedule(seed, choices=max(choices, 1))
    raise ValueError(f"'strategy' must be 'random' or 'pct', not {strategy!r}")
