"""Runs a scenario once per interruption point, and reports the failures."""

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from seqoria_runtime._base.checks import positive_int
from seqoria_runtime.testing._clock.deadlock_watch import Backend
from seqoria_runtime.testing._schedules.backends import require_schedules
from seqoria_runtime.testing._schedules.schedule import FixedSchedule, RandomSchedule, Schedule

from .explore import ScheduleFailure, describe_order, failure, named, outcome_of, simplest_run
from .interruption import CANCELLATIONS, FAIL, InjectedError, Interruption, fails, is_own_form
from .one_run import Fingerprint, OneRun, run_once
from .token import Site, Token

InterruptedScenario: TypeAlias = Callable[[Interruption], Awaitable[Any]] | Callable[[], Awaitable[Any]]
Check: TypeAlias = Callable[[], object]
MakesError: TypeAlias = Callable[[], BaseException]

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Coverage:
    """What `cancel_everywhere` or `fail_everywhere` has tried, if nothing failed.

    `points` is the number of points in the longest run. `runs` counts the interrupted runs by form, and
    `missed` those that were not interrupted after all: an action had no name yet, or a deadline came
    after the end.
    """

    points: int
    runs: dict[str, int]
    missed: dict[str, int]


def cancel_everywhere(
    scenario: InterruptedScenario,
    *,
    forms: Sequence[str] | None = None,
    backend: Backend = "asyncio",
    checks: Sequence[Check] = (),
    schedules: int = 1,
    points: int | None = None,
) -> Coverage:
    """Run a scenario once to count its points, then once for each point and form, interrupted there.

    A point lies between two steps of the event loop. A scenario that takes an `Interruption` says what
    to interrupt (`region`), may name actions (`on`), and can check what is left after the region; a
    scenario without parameters is interrupted as a whole. `checks`, sync or async, are called after each
    run, in its event loop. The forms are "scope" (a cancel scope around the region), "deadline" (of such
    a scope, at each time at which anything happens), "native" (`Task.cancel`, asyncio only), and the
    names of the scenario's actions; by default all that the backend has, without the actions.
    `schedules` is the number of task orders to repeat this in. `points` limits the points of each form,
    evenly spread.

    Raises `ScheduleFailure`, which names the points, if any run fails, and `ValueError` for a form that
    the backend lacks or the scenario does not name.
    """
    __tracebackhide__ = True
    if forms is None:
        forms = CANCELLATIONS if backend == "asyncio" else CANCELLATIONS[:2]
    _check_forms(forms, backend)
    plan = _Plan(scenario, backend, checks)
    return _try_all(plan, forms, schedules=schedules, points=points)


def fail_everywhere(
    scenario: InterruptedScenario,
    *,
    errors: Sequence[MakesError] = (InjectedError,),
    backend: Backend = "asyncio",
    checks: Sequence[Check] = (),
    schedules: int = 1,
    points: int | None = None,
) -> Coverage:
    """Run a scenario once to count the places where it may fail, then once for each, failing there.

    The scenario marks the places with its `Interruption`'s `passing`, `faulty` and `provider`. `errors`
    are exception classes or other functions that return an exception; each is tried at each place.
    Everything else is as for `cancel_everywhere`.
    """
    __tracebackhide__ = True
    plan = _Plan(scenario, backend, checks, errors)
    forms = [FAIL if number == 1 else f"{FAIL}{number}" for number in range(1, len(errors) + 1)]
    return _try_all(plan, forms, schedules=schedules, points=points)


def replay_interruption(
    scenario: InterruptedScenario,
    token: str,
    *,
    checks: Sequence[Check] = (),
    errors: Sequence[MakesError] = (InjectedError,),
) -> Any:
    """Run a scenario as a token of `cancel_everywhere` or `fail_everywhere` says; return its result.

    Pass the same `checks` and `errors` as there. Raises what the run raises, and what `replay` does.
    """
    __tracebackhide__ = True
    read = Token.read(token)
    require_schedules(read.backend)
    run, _ = _Plan(scenario, read.backend, checks, errors).run(read.schedule, read.site)
    return outcome_of(run, read)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What all runs have in common."""

    scenario: InterruptedScenario
    backend: Backend
    checks: Sequence[Check] = ()
    errors: Sequence[MakesError] = (InjectedError,)

    def run(self, schedule: Schedule, site: Site | None) -> tuple[OneRun, Interruption]:
        """Return one run, interrupted at `site`, and its `Interruption`."""
        interruptions: list[Interruption] = []

        async def main() -> Any:
            interruption = Interruption(*(site or ()), error=self._error(site))
            interruptions.append(interruption)
            value = await interruption.run(self._with_interruption())
            for check in self.checks:
                result = check()
                if inspect.isawaitable(result):
                    await result
            return value

        def at_step(now: float) -> bool:
            return any(interruption.at_step(now) for interruption in interruptions)

        run = run_once(main, schedule, self.backend, on_step=at_step)
        return run, interruptions[0]

    def again(self, site: Site | None) -> Callable[[Schedule], OneRun]:
        """Return a function that repeats the run interrupted at `site`, under another schedule."""
        return lambda schedule: self.run(schedule, site)[0]

    def _with_interruption(self) -> Callable[[Interruption], Awaitable[Any]]:
        scenario: Any = self.scenario
        if inspect.signature(scenario).parameters:
            return scenario  # type: ignore[no-any-return]

        async def as_a_whole(interruption: Interruption) -> Any:
            async with interruption.region():
                return await scenario()

        return as_a_whole

    def _error(self, site: Site | None) -> MakesError:
        number = site.form.removeprefix(FAIL) if site is not None and fails(site.form) else ""
        return self.errors[int(number or 1) - 1]


@dataclass(slots=True)
class _Found:
    """A way in which interrupted runs fail: the first such run, and the sites of all."""

    schedule: Schedule
    site: Site
    run: OneRun
    interruption: Interruption
    sites: list[Site]


def _try_all(plan: _Plan, forms: Sequence[str], *, schedules: int, points: int | None) -> Coverage:
    __tracebackhide__ = True
    positive_int("schedules", schedules)
    if points is not None:
        positive_int("points", points)
    require_schedules(plan.backend)
    runs: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    found: dict[tuple[str, Fingerprint | None], _Found] = {}
    longest = 0
    for number in range(schedules):
        schedule: Schedule = RandomSchedule(number) if number else FixedSchedule()
        whole = _uninterrupted(plan, schedule)
        longest = max(longest, whole.points)
        _require_sites(whole, forms)
        for site in _sites(whole, forms, points):
            run, interruption = plan.run(schedule, site)
            runs[site.form] += 1
            missed[site.form] += not interruption.fired
            if run.error is not None:
                new = _Found(schedule, site, run, interruption, [])
                found.setdefault((site.form, run.fingerprint), new).sites.append(site)
    if found:
        report = _failure(plan, found.values(), runs.total())
        raise report from report.error
    _require_actions(forms, runs, missed)
    return Coverage(longest, dict(runs), dict(missed))


def _uninterrupted(plan: _Plan, schedule: Schedule) -> Interruption:
    __tracebackhide__ = True
    run, whole = plan.run(schedule, None)
    if run.error is not None:
        what = "uninterrupted, the scenario"
        again = plan.again(None)
        report = failure(again, run, plan.backend, what=what, replay="replay_interruption")
        raise report from report.error
    return whole


def _require_sites(whole: Interruption, forms: Sequence[str]) -> None:
    if fails(forms[0]) and not whole.passages:
        raise ValueError(
            "the scenario marks no place at which it could fail: it has to use interruption.passing, "
            "interruption.faulty or interruption.provider"
        )
    if not fails(forms[0]) and not whole.points:
        raise ValueError(
            "the scenario has nothing to interrupt: it has to enter `async with interruption.region():`"
        )


def _sites(whole: Interruption, forms: Iterable[str], limit: int | None) -> Iterator[Site]:
    for form in forms:
        if form == "deadline":
            places: Sequence[float] = whole.times
        else:
            places = range(1, (len(whole.passages) if fails(form) else whole.points) + 1)
        yield from (Site(form, at) for at in _spread(places, limit))


def _spread(places: Sequence[float], limit: int | None) -> Iterator[float]:
    if limit is None or len(places) <= limit:
        yield from places
    else:
        yield from (places[number * len(places) // limit] for number in range(limit))


def _failure(plan: _Plan, found: Iterable[_Found], runs: int) -> ScheduleFailure:
    ways = list(found)
    count = sum(len(way.sites) for way in ways)
    lines = [f"{count} of {runs} interrupted runs fail on {plan.backend}, in {len(ways)} ways"]
    tokens: list[str] = []
    errors: list[BaseException] = []
    for way in ways:
        simplest, repeats = simplest_run(plan.again(way.site), way.run)
        assert simplest.error is not None
        errors.append(simplest.error)
        tokens.append(str(Token(plan.backend, simplest.log.schedule, way.site)))
        lines += [
            f"{way.site.form} at {way.site.at:g} ({way.interruption.where}): {named(simplest.error)}",
            f"  replay it with replay_interruption(scenario, {tokens[-1]!r})",
            *describe_order(simplest, repeats=repeats),
        ]
        if others := [f"{site.at:g}" for site in way.sites[1:]]:
            more = ", ..." if len(others) > _SHOWN else ""
            lines.append(f"  and {len(others)} more like it, at {', '.join(others[:_SHOWN])}{more}")
    return ScheduleFailure("\n".join(lines), tokens=tuple(tokens), error=errors[0])


def _check_forms(forms: Sequence[str], backend: Backend) -> None:
    if isinstance(forms, str) or not forms:
        raise ValueError(f"'forms' must be a list of forms, not {forms!r}")
    for form in forms:
        if not form.isidentifier() or fails(form):
            raise ValueError(
                f"a form is one of {', '.join(CANCELLATIONS)} or the name of an action, not {form!r}"
            )
    if "native" in forms and backend != "asyncio":
        raise ValueError("the form 'native' is asyncio's Task.cancel: trio has none")


def _require_actions(forms: Iterable[str], runs: Counter[str], missed: Counter[str]) -> None:
    for form in forms:
        if not is_own_form(form) and runs[form] and missed[form] == runs[form]:
            raise ValueError(
                f"the scenario names no action {form!r}: it has to call interruption.on({form}=...)"
            )
