"""Owns one run's order: which tasks wait to go next, which one does, and the record of these choices.

Synchronous; it is asked by an event loop's adapter, and knows tasks only as objects with a number.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from ._schedule import Chooser, Schedule

_PATIENCE = 100
_PATIENCE_PER_TASK = 8
_SPINS = 100_000


@dataclass(slots=True)
class Course:
    """How one run went.

    `choices` are the positions that were chosen where several tasks could go next, `steps` the
    numbers of the tasks in the order in which they went, `swaps` the choices that were not the
    default: which choice, the task that went, the task that would have gone. `loose` counts the
    worker threads that went on beside the schedule.
    """

    choices: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    swaps: list[tuple[int, str, str]] = field(default_factory=list)
    loose: int = 0

    @property
    def changes(self) -> tuple[tuple[int, int], ...]:
        """The choices that were not the default one, with their numbers."""
        return tuple((number, position) for number, position in enumerate(self.choices) if position)


@dataclass(slots=True)
class _Waiting:
    item: Any
    since: int


class Conductor:
    """Says which of the waiting tasks goes next, one at a time.

    A task that has waited much longer than the number of others explains goes next whatever the
    schedule says, so that a task that polls cannot keep the one out that it waits for. `label`
    names a task in reports. `on_step` is told the time before each step, and may wake tasks.
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        label: Callable[[object], str],
        on_step: Callable[[float], None] | None = None,
    ) -> None:
        self.course = Course()
        self._chooser: Chooser = schedule.start()
        self._label = label
        self._on_step = on_step
        self._numbers: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        self._known = 0
        self._waiting: dict[int, _Waiting] = {}
        self._since_idle = 0
        self.hurried = False
        """Whether the tasks that arrive next go to the front."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def spinning(self) -> bool:
        """Whether tasks have gone on for so long that time, which stands still meanwhile, never will move."""
        return self._since_idle > _SPINS

    @property
    def items(self) -> list[Any]:
        """What waits, longest first."""
        return [waiting.item for waiting in self._waiting.values()]

    def number(self, task: object | None) -> int:
        """The number of a task, or a new one for what is no task; counted in the order of being seen."""
        number = None if task is None else self._numbers.get(task)
        if number is None:
            number = self._known
            self._known += 1
            if task is not None:
                self._numbers[task] = number
        return number

    def waits(self, number: int) -> bool:
        """Whether the task of this number waits to go next."""
        return number in self._waiting

    def arrive(self, arrivals: Iterable[tuple[object | None, object]]) -> None:
        """Add what has become ready since the last step: a task or `None`, and what is to be run.

        What one step woke is in the order of the tasks' numbers: event loops keep tasks in sets,
        whose order is not the same in another run.
        """
        now = len(self.course.steps)
        numbered = [(self.number(task), item) for task, item in arrivals]
        new = {number: _Waiting(item, now) for number, item in sorted(numbered) if not self.waits(number)}
        if new and self.hurried:
            self.hurried = False
            self._waiting = new | self._waiting
        else:
            self._waiting |= new

    def withdraw(self, task: object) -> None:
        """Take back what waits for a task."""
        self._waiting.pop(self.number(task), None)

    def idle(self) -> None:
        """Take note that nothing can go on until time has moved or something has come from outside."""
        self._since_idle = 0

    def point(self, now: float) -> None:
        """Take note, before each step, that one comes."""
        if self._on_step is not None:
            self._on_step(now)

    def go(self) -> tuple[int, Any]:
        """Choose the task that goes next; give its number and what is to be run. There has to be one."""
        number = self._choose()
        self._since_idle += 1
        self.course.steps.append(number)
        return number, self._waiting.pop(number).item

    def _choose(self) -> int:
        first = next(iter(self._waiting))
        others = len(self._waiting) - 1
        patience = _PATIENCE + _PATIENCE_PER_TASK * others
        if not others or len(self.course.steps) - self._waiting[first].since > patience:
            return first
        ready = list(self._waiting)
        position = self._chooser.choose(ready)
        if position:
            went, would_have = (self._label(self._waiting[ready[place]].item) for place in (position, 0))
            self.course.swaps.append((len(self.course.choices), went, would_have))
        self.course.choices.append(position)
        return ready[position]
