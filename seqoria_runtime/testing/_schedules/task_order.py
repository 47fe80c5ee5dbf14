"""Orders the ready tasks of one run, one step at a time, and logs the choices. Synchronous."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from .schedule import FixedSchedule, Schedule, TaskStep

_PATIENCE = 100
_PATIENCE_PER_TASK = 8
_SPINS = 100_000


@dataclass(slots=True)
class RunLog:
    """How one run went.

    `steps` holds the number of the task that made each step, and `choices` counts the steps for which
    there was a choice. `delays` counts how often each step was passed over, `names` has the names of
    the delayed tasks, and `loose` counts the worker threads that ran outside of the schedule.
    """

    steps: list[int] = field(default_factory=list)
    choices: int = 0
    delays: dict[TaskStep, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    loose: int = 0

    @property
    def schedule(self) -> FixedSchedule:
        """The schedule that repeats this run."""
        return FixedSchedule(tuple((*step, times) for step, times in sorted(self.delays.items())))


@dataclass(slots=True)
class _Waiting:
    item: Any
    step: TaskStep
    since: int


class TaskOrder:
    """Chooses which of the ready tasks goes next. An event loop's adapter asks it.

    Ready tasks stand in a queue. Those that the schedule passes over go to its end, so that holding
    a task back for a round of the others is a single change of the default order. A task that has
    waited much longer than the number of others explains goes next whatever the schedule says;
    otherwise a task that polls could keep out the one it waits for. `label` names a task in reports.
    `on_step` is called with the time before each step; it may wake tasks, and returns whether they
    go first.
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        label: Callable[[object], str],
        on_step: Callable[[float], bool] | None = None,
    ) -> None:
        self.log = RunLog()
        self._choose_from = schedule.start()
        self._label = label
        self._on_step = on_step
        self._numbers: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        self._tasks = 0
        self._others = 0
        self._made: Counter[int] = Counter()
        self._waiting: dict[int, _Waiting] = {}
        self._since_idle = 0
        self._woken_go_first = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def spinning(self) -> bool:
        """Whether tasks have gone on for so long without time moving that it never will."""
        return self._since_idle > _SPINS

    @property
    def items(self) -> list[Any]:
        """What is ready, in the order of the queue."""
        return [waiting.item for waiting in self._waiting.values()]

    def is_ready(self, number: int) -> bool:
        """Return whether the task of this number is ready to go."""
        return number in self._waiting

    def _number(self, task: object | None) -> int:
        if task is None:
            self._others += 1
            return -self._others
        number = self._numbers.get(task)
        if number is None:
            number = self._numbers[task] = self._tasks
            self._tasks += 1
        return number

    def add(self, ready: Iterable[tuple[object | None, object]]) -> None:
        """Add what has become ready since the last step: pairs of a task or `None`, and what to run.

        What one step woke is ordered by the tasks' numbers: event loops keep tasks in sets, whose order
        differs from run to run.
        """
        now = len(self.log.steps)
        numbered = [(self._number(task), item) for task, item in ready]
        numbered.sort(key=lambda one: (one[0] < 0, abs(one[0])))
        new = {
            number: _Waiting(item, TaskStep(number, self._made[number]), now)
            for number, item in numbered
            if not self.is_ready(number)
        }
        if new and self._woken_go_first:
            self._woken_go_first = False
            self._waiting = new | self._waiting
        else:
            self._waiting |= new

    def idle(self) -> None:
        """Note that nothing can go on until time moves or something comes from outside."""
        self._since_idle = 0

    def before_step(self, now: float) -> None:
        """Note that a step comes, at this time."""
        if self._on_step is not None:
            self._woken_go_first = self._on_step(now)

    def next(self) -> tuple[int, Any]:
        """Choose the task that goes next; return its number and what to run. One has to be ready."""
        number = self._choose()
        self._since_idle += 1
        self.log.steps.append(number)
        self._made[number] += 1
        return number, self._waiting.pop(number).item

    def _choose(self) -> int:
        others = len(self._waiting) - 1
        first = next(iter(self._waiting))
        if not others:
            return first
        now, patience = len(self.log.steps), _PATIENCE + _PATIENCE_PER_TASK * others
        for number, waiting in self._waiting.items():
            if now - waiting.since > patience:
                return number
        steps = [waiting.step for waiting in self._waiting.values()]
        position = self._choose_from(steps)
        self.log.choices += 1
        for step in steps[:position]:
            self._pass_over(step)
        return steps[position].task

    def _pass_over(self, step: TaskStep) -> None:
        waiting = self._waiting.pop(step.task)
        self._waiting[step.task] = waiting
        self.log.names[step.task] = self._label(waiting.item)
        self.log.delays[step] = self.log.delays.get(step, 0) + 1
