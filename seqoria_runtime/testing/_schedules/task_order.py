"""Owns one run's order: which tasks wait to go next, which one does, and the record of these choices.

Synchronous; it is asked by an event loop's adapter, and knows tasks only as objects with a number.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from .schedule import Chooser, FixedSchedule, Schedule, Turn

_PATIENCE = 100
_PATIENCE_PER_TASK = 8
_SPINS = 100_000


@dataclass(slots=True)
class Course:
    """How one run went.

    `steps` are the numbers of the tasks in the order in which they went, `choices` counts how often
    several could. `delays` tells how often which turn was passed over, `names` what the tasks are
    called of which there are any. `loose` counts the worker threads that went on beside the schedule.
    """

    steps: list[int] = field(default_factory=list)
    choices: int = 0
    delays: dict[Turn, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    loose: int = 0

    @property
    def schedule(self) -> FixedSchedule:
        """The schedule that goes this way again."""
        return FixedSchedule(tuple((*turn, times) for turn, times in sorted(self.delays.items())))


@dataclass(slots=True)
class _Waiting:
    item: Any
    turn: Turn
    since: int


class Conductor:
    """Says which of the waiting tasks goes next, one at a time.

    They stand in a queue. Those that the schedule passes over go to its end, so that holding a task
    back for a round of the others is a single change of the default order. A task that has waited
    much longer than the number of others explains goes next whatever the
    schedule says, so that a task that polls cannot keep the one out that it waits for. `label`
    names a task in reports. `on_step` is told the time before each step; it may wake tasks, and have
    them go first by giving true.
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        label: Callable[[object], str],
        on_step: Callable[[float], bool] | None = None,
    ) -> None:
        self.course = Course()
        self._chooser: Chooser = schedule.start()
        self._label = label
        self._on_step = on_step
        self._numbers: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        self._tasks = 0
        self._others = 0
        self._made: Counter[int] = Counter()
        self._waiting: dict[int, _Waiting] = {}
        self._since_idle = 0
        self._hurried = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def spinning(self) -> bool:
        """Whether tasks have gone on for so long that time, which stands still meanwhile, never will move."""
        return self._since_idle > _SPINS

    @property
    def items(self) -> list[Any]:
        """What waits, the one whose turn is next first."""
        return [waiting.item for waiting in self._waiting.values()]

    def number(self, task: object | None) -> int:
        """The number of a task, or a new one for what is no task."""
        if task is None:
            self._others += 1
            return -self._others
        number = self._numbers.get(task)
        if number is None:
            number = self._numbers[task] = self._tasks
            self._tasks += 1
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
        numbered.sort(key=lambda one: (one[0] < 0, abs(one[0])))
        new = {
            number: _Waiting(item, Turn(number, self._made[number]), now)
            for number, item in numbered
            if not self.waits(number)
        }
        if new and self._hurried:
            self._hurried = False
            self._waiting = new | self._waiting
        else:
            self._waiting |= new

    def idle(self) -> None:
        """Take note that nothing can go on until time has moved or something has come from outside."""
        self._since_idle = 0

    def point(self, now: float) -> None:
        """Take note, before each step, that one comes."""
        if self._on_step is not None:
            self._hurried = self._on_step(now)

    def go(self) -> tuple[int, Any]:
        """Choose the task that goes next; give its number and what is to be run. There has to be one."""
        number = self._choose()
        self._since_idle += 1
        self.course.steps.append(number)
        self._made[number] += 1
        return number, self._waiting.pop(number).item

    def _choose(self) -> int:
        others = len(self._waiting) - 1
        first = next(iter(self._waiting))
        if not others:
            return first
        now, patience = len(self.course.steps), _PATIENCE + _PATIENCE_PER_TASK * others
        for number, waiting in self._waiting.items():
            if now - waiting.since > patience:
                return number
        turns = [waiting.turn for waiting in self._waiting.values()]
        position = self._chooser.choose(turns)
        self.course.choices += 1
        for turn in turns[:position]:
            self._pass_over(turn)
        return turns[position].task

    def _pass_over(self, turn: Turn) -> None:
        waiting = self._waiting.pop(turn.task)
        self._waiting[turn.task] = waiting
        self.course.names[turn.task] = self._label(waiting.item)
        self.course.delays[turn] = self.course.delays.get(turn, 0) + 1
