"""Owns the search through the orders in which a scenario's tasks can go, and the report of what it finds."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from seqoria_runtime._base.checks import positive_int
from seqoria_runtime.testing._schedules.backends import require_schedules
from seqoria_runtime.testing._schedules.schedule import FixedSchedule, Schedule, Strategy, schedule_of
from seqoria_runtime.testing._virtual_time import Backend

from .one_run import OneRun, run_once
from .shrink import shrink, size_of
from .token import Token

Scenario: TypeAlias = Callable[[], Awaitable[Any]]

_SHRINKING_RUNS = 400
_SHOWN = 20


class ScheduleFailure(AssertionError):
    """A scenario fails in some order of its tasks. The failure itself is the cause of this error.

    `token` replays the run, `error` is what it raised, and `tokens` those of all runs that were
    found to fail in different ways.
    """

    def __init__(self, text: str, *, tokens: tuple[str, ...], error: BaseException) -> None:
        super().__init__(text)
        self.tokens = tokens
        self.token = tokens[0]
        self.error = error


class TokenMismatch(ValueError):
    """A token says how to order tasks that were not there: it is another scenario's, or of other code."""


@dataclass(frozen=True, slots=True)
class Exploration:
    """What `explore` has seen where nothing failed.

    `schedules` runs took `distinct` different courses, the longest with `choices` choices. In
    `loose` of them a worker thread went on beside the schedule, so that they cannot be repeated exactly.
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
    """Run `scenario()` in virtual time under many orders of its tasks; the first is the default one.

    At every step any of the tasks that could go next may be the one that does. Each run has an event
    loop of its own, so the scenario makes afresh whatever it changes. `strategy` is "random", or
    "pct" for random priorities, which holds single tasks back for long. Without a `seed` each
    exploration is another one.

    Raises `ScheduleFailure` for the first run that fails, in the simplest order that fails alike,
    and `ScheduleUnavailable` where the order cannot be chosen.
    """
    __tracebackhide__ = True
    positive_int("schedules", schedules)
    schedule_of(strategy, "", choices=1)
    require_schedules(backend)
    seed = random.randrange(10**9) if seed is None else seed
    courses: set[int] = set()
    longest = loose = 0
    for number in range(schedules):
        schedule: Schedule = FixedSchedule()
        if number:
            schedule = schedule_of(strategy, f"{seed}:{number}", choices=longest)
        run = run_once(scenario, schedule, backend)
        if run.error is not None:
            what = f"schedule {number + 1} of {schedules} ({strategy}, seed {seed})"
            report = failure(scenario, run, backend, what=what)
            raise report from report.error
        courses.add(hash(tuple(run.course.steps)))
        longest = max(longest, run.course.choices)
        loose += run.course.loose > 0
        if not longest:
            break  # no task ever had another one beside it
    return Exploration(number + 1, len(courses), longest, loose, seed)


def replay(scenario: Scenario, token: str) -> Any:
    """Run `scenario()` in the order that a token of `explore` stands for; give what it returns.

    Raises what the scenario raises, `ValueError` for what is no token, and `TokenMismatch` if the
    scenario runs through but is not the one of the token. Tokens of interruptions are replayed by
    `replay_interruption`.
    """
    __tracebackhide__ = True
    read = Token.read(token)
    if read.site is not None:
        raise ValueError(f"{token!r} is the token of an interruption: use replay_interruption")
    require_schedules(read.backend)
    return outcome_of(run_once(scenario, read.schedule, read.backend), read)


def outcome_of(run: OneRun, token: Token) -> Any:
    """What a replayed run came to."""
    __tracebackhide__ = True
    if run.error is not None:
        raise run.error
    if run.course.schedule != token.schedule:
        raise TokenMismatch(
            f"the token {str(token)!r} does not fit: the scenario ran through, and not all of the tasks were "
            "there that the token holds back"
        )
    return run.value


def failure(scenario: Scenario, run: OneRun, backend: Backend, *, what: str) -> ScheduleFailure:
    """The report of a run that failed, shrunk first."""
    simplest, repeats = simplest_run(lambda schedule: run_once(scenario, schedule, backend), run)
    assert simplest.error is not None
    token = str(Token(backend, simplest.course.schedule))
    lines = [
        f"{what} fails on {backend} with {named(simplest.error)}",
        f"replay it with replay(scenario, {token!r})",
        *describe_order(simplest, repeats=repeats),
    ]
    return ScheduleFailure("\n".join(lines), tokens=(token,), error=simplest.error)


def simplest_run(again: Callable[[Schedule], OneRun], failed: OneRun) -> tuple[OneRun, bool]:
    """The run with the fewest changes that fails as `failed` did, and whether it does so again."""
    simplest = failed

    def fails(schedule: FixedSchedule) -> FixedSchedule | None:
        nonlocal simplest
        run = again(schedule)
        if run.fingerprint != failed.fingerprint:
            return None
        if size_of(run.course.schedule) < size_of(simplest.course.schedule):
            simplest = run
        return run.course.schedule

    schedule = shrink(failed.course.schedule, fails, runs=_SHRINKING_RUNS)
    last = again(schedule)
    repeats = last.fingerprint == failed.fingerprint and last.course.steps == simplest.course.steps
    return simplest, repeats


def named(error: BaseException) -> str:
    """An error in words; of a group, the first that is in it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def describe_order(run: OneRun, *, repeats: bool) -> list[str]:
    """Say in which places the order of a run was not the default one."""
    delays = run.course.schedule.delays
    lines = [
        f"  task {task}, {run.course.names[task]!r}, is passed over {times} times before its step {step}"
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
