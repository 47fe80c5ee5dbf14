"""Searches the orders in which a scenario's tasks can go, and reports the first failure."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from seqoria_runtime._base.checks import positive_int
from seqoria_runtime.testing._clock.deadlock_watch import Backend
from seqoria_runtime.testing._schedules.backends import require_schedules
from seqoria_runtime.testing._schedules.schedule import FixedSchedule, Schedule, Strategy, schedule_of

from .one_run import OneRun, run_once
from .shrink import shrink, size_of
from .token import Token

Scenario: TypeAlias = Callable[[], Awaitable[Any]]

_SHRINKING_RUNS = 400
_SHOWN = 20


class ScheduleFailure(AssertionError):
    """A scenario fails in some order of its tasks. The cause of this error is the failure itself.

    `token` replays the run and `error` is what it raised. `tokens` has one token for each way to fail.
    """

    def __init__(self, text: str, *, tokens: tuple[str, ...], error: BaseException) -> None:
        super().__init__(text)
        self.tokens = tokens
        self.token: str = tokens[0]
        self.error = error


class TokenMismatch(ValueError):
    """A token orders tasks that do not exist: it belongs to another scenario, or to other code."""


@dataclass(frozen=True, slots=True)
class Exploration:
    """What `explore` has tried, if nothing failed.

    `schedules` runs went in `distinct` different orders, the longest with `choices` choices. In `loose`
    of them a worker thread ran outside of the schedule, so that they cannot be repeated exactly.
    """

    schedules: int
    distinct: int
    choices: int
    loose: int
    seed: int


def explore(
    scenario: Scenario,
    *,
    schedules: int = 1000,
    seed: int | None = None,
    strategy: Strategy = "random",
    backend: Backend = "asyncio",
) -> Exploration:
    """Run `scenario()` in virtual time in many orders of its tasks, the default order first.

    At every step, any of the ready tasks may go next. Each run has a new event loop, so the scenario has
    to create whatever it changes. `strategy` is "random", or "pct" for random priorities, which holds
    single tasks back for long. Without a `seed` each exploration differs.

    Raises `ScheduleFailure` for the first run that fails, in the simplest order that fails alike, and
    `ScheduleUnavailable` if the order cannot be chosen here.
    """
    __tracebackhide__ = True
    positive_int("schedules", schedules)
    schedule_of(strategy, "", choices=1)
    require_schedules(backend)
    seed = random.randrange(10**9) if seed is None else seed
    orders: set[int] = set()
    longest = loose = 0
    for number in range(schedules):
        schedule: Schedule = FixedSchedule()
        if number:
            schedule = schedule_of(strategy, f"{seed}:{number}", choices=longest)
        run = run_once(scenario, schedule, backend)
        if run.error is not None:
            what = f"schedule {number + 1} of {schedules} ({strategy}, seed {seed})"
            again = partial(run_once, scenario, backend=backend)
            report = failure(again, run, backend, what=what, replay="replay")
            raise report from report.error
        orders.add(hash(tuple(run.log.steps)))
        longest = max(longest, run.log.choices)
        loose += run.log.loose > 0
        if not longest:
            break  # there was never a choice
    return Exploration(number + 1, len(orders), longest, loose, seed)


def replay(scenario: Scenario, token: str) -> Any:
    """Run `scenario()` in the order of a token of `explore`, and return its result.

    Raises what the scenario raises, `ValueError` for an invalid token, and `TokenMismatch` if the
    scenario succeeds but the token does not fit it. For tokens of interruptions use
    `replay_interruption`.
    """
    __tracebackhide__ = True
    read = Token.read(token)
    if read.site is not None:
        raise ValueError(f"{token!r} is the token of an interruption: use replay_interruption")
    require_schedules(read.backend)
    return outcome_of(run_once(scenario, read.schedule, read.backend), read)


def outcome_of(run: OneRun, token: Token) -> Any:
    """Return the result of a replayed run, or raise its error."""
    __tracebackhide__ = True
    if run.error is not None:
        raise run.error
    if run.log.schedule != token.schedule:
        raise TokenMismatch(
            f"the token {str(token)!r} does not fit: the scenario ran through, and not all of the tasks were "
            "there that the token holds back"
        )
    return run.value


def failure(
    again: Callable[[Schedule], OneRun], run: OneRun, backend: Backend, *, what: str, replay: str
) -> ScheduleFailure:
    """Shrink a run that failed, and return its report; `replay` is the function that repeats it."""
    simplest, repeats = simplest_run(again, run)
    assert simplest.error is not None
    token = str(Token(backend, simplest.log.schedule))
    lines = [
        f"{what} fails on {backend} with {named(simplest.error)}",
        f"replay it with {replay}(scenario, {token!r})",
        *describe_order(simplest, repeats=repeats),
    ]
    return ScheduleFailure("\n".join(lines), tokens=(token,), error=simplest.error)


def simplest_run(again: Callable[[Schedule], OneRun], failed: OneRun) -> tuple[OneRun, bool]:
    """Return the run with the fewest delays that fails like `failed`, and whether it can be repeated."""
    simplest = failed

    def fails(schedule: FixedSchedule) -> FixedSchedule | None:
        nonlocal simplest
        run = again(schedule)
        if run.fingerprint != failed.fingerprint:
            return None
        if size_of(run.log.schedule) < size_of(simplest.log.schedule):
            simplest = run
        return run.log.schedule

    schedule = shrink(failed.log.schedule, fails, runs=_SHRINKING_RUNS)
    last = again(schedule)
    repeats = last.fingerprint == failed.fingerprint and last.log.steps == simplest.log.steps
    return simplest, repeats


def named(error: BaseException) -> str:
    """Return an error as text; for a group, the first error in it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def describe_order(run: OneRun, *, repeats: bool) -> list[str]:
    """Return lines that say where the order of a run differs from the default one."""
    delays = run.log.schedule.delays
    lines = [
        f"  task {task}, {run.log.names[task]!r}, is passed over {times} times before its step {step}"
        for task, step, times in delays[:_SHOWN]
    ]
    if len(delays) > _SHOWN:
        lines.append(f"  and {len(delays) - _SHOWN} more delays")
    if not delays:
        lines = ["  in the default order of tasks"]
    if not repeats:
        lines.append(
            "  The same schedule did not go the same way again: something else decides too, such as a worker "
            "thread that waits for something outside of the event loop, real I/O, or the order of a set."
        )
    return lines
