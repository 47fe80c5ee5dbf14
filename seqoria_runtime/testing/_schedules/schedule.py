"""Owns the kinds of schedule: the order in which tasks go that could all go next.

Values and their choices only; knows nothing of event loops, and tasks only by their numbers.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

from seqoria_runtime._base.checks import positive_int

Strategy: TypeAlias = Literal["random", "pct"]


class Turn(NamedTuple):
    """What waits to go next: a task, and how many steps it has made before.

    Tasks are numbered from 0 in the order in which they first could go. What is no task (a timer, a
    call from a thread) has a number below 0.
    """

    task: int
    step: int


class Chooser(Protocol):
    """A schedule at work in one run."""

    def choose(self, ready: Sequence[Turn]) -> int:
        """Give the position in `ready` of what goes next, where there are two or more.

        They stand in a queue. Those before the chosen one are passed over and go to its end.
        """


class Schedule(Protocol):
    """In which order the tasks of a run go, where several could; one object serves any number of runs."""

    def start(self) -> Chooser:
        """Begin a run."""


@dataclass(frozen=True, slots=True)
class FixedSchedule:
    """The default order, in which tasks take turns, but for `delays`: triples of task, step and times.

    Before it makes its step of this number, the task of this number is passed over so many times.
    """

    delays: tuple[tuple[int, int, int], ...] = ()

    def start(self) -> Chooser:
        return _Fixed({Turn(task, step): times for task, step, times in self.delays})


class _Fixed:
    def __init__(self, left: dict[Turn, int]) -> None:
        self._left = left

    def choose(self, ready: Sequence[Turn]) -> int:
        left = self._left
        if not left:
            return 0
        position = min(range(len(ready)), key=lambda position: left.get(ready[position], 0))
        for turn in ready[:position]:
            left[turn] -= 1
        return position


@dataclass(frozen=True, slots=True)
class RandomSchedule:
    """Any of the tasks that could go next does, each with the same chance. Equal seeds choose alike."""

    seed: int | str

    def start(self) -> Chooser:
        return _Random(random.Random(self.seed))


class _Random:
    def __init__(self, numbers: random.Random) -> None:
        self._numbers = numbers

    def choose(self, ready: Sequence[Turn]) -> int:
        return self._numbers.randrange(len(ready))


@dataclass(frozen=True, slots=True)
class PctSchedule:
    """Each task has a random priority and the highest goes next; at `changes` choices the highest drops.

    Probabilistic concurrency testing: a bug that needs `changes` switches at the right places of a
    run of `choices` choices is found with a known chance. Equal values choose alike.
    """

    seed: int | str
    changes: int = 2
    choices: int = 100

    def __post_init__(self) -> None:
        positive_int("choices", self.choices)
        if isinstance(self.changes, bool) or self.changes < 0:
            raise ValueError(f"'changes' must be an integer >= 0, not {self.changes!r}")

    def start(self) -> Chooser:
        return _Pct(random.Random(self.seed), self.changes, self.choices)


class _Pct:
    def __init__(self, numbers: random.Random, changes: int, choices: int) -> None:
        self._numbers = numbers
        self._drops = set(numbers.sample(range(choices), min(changes, choices)))
        self._priorities: dict[int, float] = {}
        self._choice = -1

    def choose(self, ready: Sequence[Turn]) -> int:
        self._choice += 1
        position = self._highest(ready)
        if self._choice in self._drops:
            # Below every priority that a task begins with, and below those that have dropped before.
            self._priorities[ready[position].task] = -1.0 - self._choice
            position = self._highest(ready)
        return position

    def _highest(self, ready: Sequence[Turn]) -> int:
        return max(range(len(ready)), key=lambda position: self._priority(ready[position].task))

    def _priority(self, task: int) -> float:
        priority = self._priorities.get(task)
        if priority is None:
            priority = self._priorities[task] = self._numbers.random()
        return priority


def schedule_of(strategy: Strategy, seed: str, *, choices: int) -> Schedule:
    """The schedule of a search strategy for a run of about so many choices."""
    if strategy == "random":
        return RandomSchedule(seed)
    if strategy == "pct":
        return PctSchedule(seed, choices=max(choices, 1))
    raise ValueError(f"'strategy' must be 'random' or 'pct', not {strategy!r}")
