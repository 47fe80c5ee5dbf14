"""Owns the kinds of schedule: the order in which tasks go that could all go next.

Values and their choices only; knows nothing of event loops or of tasks beyond their numbers.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from seqoria_runtime._checks import positive_int

Strategy: TypeAlias = Literal["random", "pct"]


class Chooser(Protocol):
    """A schedule at work in one run."""

    def choose(self, ready: Sequence[int]) -> int:
        """Give the position in `ready` of the task that goes next.

        `ready` holds the numbers of two or more tasks, the one that has waited longest first.
        """


class Schedule(Protocol):
    """In which order the tasks of a run go, where several could; one object serves any number of runs."""

    def start(self) -> Chooser:
        """Begin a run."""


@dataclass(frozen=True, slots=True)
class FixedSchedule:
    """The default order, but for `changes`: at the choice of this number (from 0), the task at this position.

    In the default order the task that has waited longest goes next. Positions are counted from 0,
    the default, and round and round where fewer tasks wait.
    """

    changes: tuple[tuple[int, int], ...] = ()

    def start(self) -> Chooser:
        return _Fixed(dict(self.changes))


class _Fixed:
    def __init__(self, changes: dict[int, int]) -> None:
        self._changes = changes
        self._choice = -1

    def choose(self, ready: Sequence[int]) -> int:
        self._choice += 1
        return self._changes.get(self._choice, 0) % len(ready)


@dataclass(frozen=True, slots=True)
class RandomSchedule:
    """Any of the tasks that could go next does, each with the same chance. Equal seeds choose alike."""

    seed: int | str

    def start(self) -> Chooser:
        return _Random(random.Random(self.seed))


class _Random:
    def __init__(self, numbers: random.Random) -> None:
        self._numbers = numbers

    def choose(self, ready: Sequence[int]) -> int:
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
        if isinstance(self.changes, bool) or not isinstance(self.changes, int) or self.changes < 0:
            raise ValueError(f"'changes' must be an integer >= 0, not {self.changes!r}")

    def start(self) -> Chooser:
        return _Pct(random.Random(self.seed), self.changes, self.choices)


class _Pct:
    def __init__(self, numbers: random.Random, changes: int, choices: int) -> None:
        self._numbers = numbers
        self._drops = set(numbers.sample(range(choices), min(changes, choices)))
        self._priorities: dict[int, float] = {}
        self._choice = -1

    def choose(self, ready: Sequence[int]) -> int:
        self._choice += 1
        position = self._highest(ready)
        if self._choice in self._drops:
            # Below every priority that a task begins with, and below those that have dropped before.
            self._priorities[ready[position]] = -1.0 - self._choice
            position = self._highest(ready)
        return position

    def _highest(self, ready: Sequence[int]) -> int:
        return max(range(len(ready)), key=lambda position: self._priority(ready[position]))

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
