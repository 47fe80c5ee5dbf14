import random
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import assume, find, given, settings
from hypothesis import strategies as st

from seqoria_runtime._execution.calls.threads import run_in_thread
from seqoria_runtime.testing import (
    Backend,
    FixedSchedule,
    ScheduleFailure,
    TokenMismatch,
    VirtualTimeDeadlock,
    explore,
    replay,
    run_virtual,
)
from seqoria_runtime.testing._explore.explore import simplest_run
from seqoria_runtime.testing._explore.one_run import run_once
from seqoria_runtime.testing._explore.shrink import shrink
from seqoria_runtime.testing._schedules.schedule import RandomSchedule, Strategy
from seqoria_runtime.testing.strategies import schedules

pytestmark = pytest.mark.clause("C120")

each_backend = pytest.mark.parametrize("backend", ["asyncio", "trio"])
each_strategy = pytest.mark.parametrize("strategy", ["random", "pct"])


async def rare() -> list[str]:
    """Fails only if the last task ends before the first starts, and the second before the fourth."""
    log: list[str] = []

    async def task(name: str) -> None:
        for step in range(3):
            await checkpoint()
            log.append(f"{name}{step}")

    async with anyio.create_task_group() as group:
        for name in "abcde":
            group.start_soon(task, name, name=f"task {name}")
    if log.index("e2") < log.index("a0") and log.index("b1") < log.index("d0"):
        raise AssertionError("caught")
    return log


async def harmless() -> None:
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(anyio.sleep, 1)


@each_backend
@each_strategy
def test_a_rare_order_is_found_shrunk_and_replayed(backend: Backend, strategy: Strategy) -> None:
    with pytest.raises(
        ScheduleFailure, match=r"schedule \d+ of 1000 .*fails on .* with AssertionError"
    ) as caught:
        explore(rare, backend=backend, strategy=strategy, seed=1)
    failure = caught.value
    assert isinstance(failure.__cause__, AssertionError)
    assert failure.error is failure.__cause__
    assert failure.token.startswith("a1:" if backend == "asyncio" else "t1:")
    assert str(failure).count("is passed over") <= 3, "only what the failure needs is left"
    assert "'task a', is passed over" in str(failure)
    assert f"replay(scenario, {failure.token!r})" in str(failure)
    for _ in range(2):
        with pytest.raises(AssertionError, match="caught"):
            replay(rare, failure.token)


@each_backend
def test_the_same_seed_finds_the_same(backend: Backend) -> None:
    failures = []
    for _ in range(2):
        with pytest.raises(ScheduleFailure) as caught:
            explore(rare, backend=backend, seed=7)
        failures.append(str(caught.value))
    assert failures[0] == failures[1]


@each_backend
def test_what_holds_in_every_order_is_reported_as_explored(backend: Backend) -> None:
    explored = explore(harmless, schedules=40, backend=backend, seed=3)
    assert explored.schedules == 40
    assert 6 < explored.distinct <= 40
    assert explored.choices >= 3
    assert explored.loose == 0
    assert explored.seed == 3


@each_backend
def test_a_scenario_of_one_task_is_run_once(backend: Backend) -> None:
    assert explore(checkpoint, backend=backend).schedules == 1


def test_without_a_seed_each_exploration_is_another_one() -> None:
    assert len({explore(checkpoint).seed for _ in range(3)}) > 1


def test_the_first_order_is_the_default_one() -> None:
    runs = 0

    async def scenario() -> None:
        nonlocal runs
        runs += 1
        await harmless()
        raise ValueError("always")

    with pytest.raises(ScheduleFailure, match="in the default order of tasks") as caught:
        explore(scenario)
    assert caught.value.token == "a1:"
    assert runs <= 4


@each_backend
def test_a_deadlock_in_some_order_is_found(backend: Backend) -> None:
    async def crossed_locks() -> None:
        first, second = anyio.Lock(), anyio.Lock()

        async def hold(one: anyio.Lock, other: anyio.Lock) -> None:
            async with one:
                await checkpoint()
                async with other:
                    pass

        async with anyio.create_task_group() as group:
            group.start_soon(hold, first, second)
            group.start_soon(hold, second, first)

    with pytest.raises(ScheduleFailure) as caught:
        explore(crossed_locks, backend=backend, seed=1)
    assert isinstance(caught.value.error, VirtualTimeDeadlock)
    with pytest.raises(VirtualTimeDeadlock):
        replay(crossed_locks, caught.value.token)


def test_a_scenario_without_a_failure_is_replayed_to_its_result() -> None:
    assert replay(rare, "a1:") == run_virtual(rare, schedule=FixedSchedule())
    assert replay(rare, "a1:2.0.2") == run_virtual(rare, schedule=FixedSchedule(((2, 0, 2),)))


def test_a_token_that_does_not_fit_a_scenario_that_runs_through_is_told() -> None:
    with pytest.raises(TokenMismatch, match="a1:40"):
        replay(harmless, "a1:40.0.2")


def test_the_token_of_an_interruption_is_refused_by_replay() -> None:
    with pytest.raises(ValueError, match="replay_interruption"):
        replay(harmless, "a1:/scope@3")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"schedules": 0}, "'schedules' must be a positive integer"),
        ({"strategy": "luck"}, "'strategy' must be 'random' or 'pct'"),
        ({"backend": "curio"}, "'backend' must be 'asyncio' or 'trio'"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        explore(harmless, **options)


@each_backend
def test_random_numbers_are_the_same_in_each_run_and_the_programs_own_afterwards(backend: Backend) -> None:
    async def scenario() -> float:
        return random.random()

    random.seed(5)
    expected = random.random()
    seen = set()
    for seed in (5, 6):
        random.seed(seed)
        seen.add(replay(scenario, "a1:" if backend == "asyncio" else "t1:"))
    assert len(seen) == 1
    random.seed(5)
    replay(scenario, "a1:" if backend == "asyncio" else "t1:")
    assert random.random() == expected


def test_what_ends_a_test_without_failing_it_is_passed_on() -> None:
    async def skips() -> None:
        pytest.skip("not here")

    async def assumes() -> None:
        assume(False)

    async def interrupts() -> None:
        raise KeyboardInterrupt

    with pytest.raises(pytest.skip.Exception):
        explore(skips)
    with pytest.raises(KeyboardInterrupt):
        explore(interrupts)

    @given(st.booleans())
    def property_of(_flag: bool) -> None:
        explore(assumes)

    with pytest.raises(Exception, match="Unable to satisfy assumptions"):
        property_of()


def test_a_test_that_fails_by_pytests_own_word_has_failed() -> None:
    async def fails() -> None:
        await checkpoint()
        pytest.fail("by its own word")

    with pytest.raises(ScheduleFailure, match="by its own word"):
        explore(fails)


def test_a_run_that_does_not_repeat_is_reported_as_such() -> None:
    runs = 0

    async def moody() -> None:
        nonlocal runs
        runs += 1
        await harmless()
        if runs == 5:
            raise ValueError("only once")

    with pytest.raises(ScheduleFailure, match="did not go the same way again"):
        explore(moody)


@each_backend
def test_threads_of_the_runtime_do_not_keep_a_failure_from_being_replayed(backend: Backend) -> None:
    async def scenario() -> None:
        log: list[str] = []

        async def call(name: str) -> None:
            await checkpoint()
            await run_in_thread(lambda: log.append(name))
            await run_in_thread(lambda: log.append(name))

        async with anyio.create_task_group() as group:
            for name in "abc":
                group.start_soon(call, name)
        assert "".join(log) != "cbabca"

    with pytest.raises(ScheduleFailure) as caught:
        explore(scenario, backend=backend, seed=2)
    assert "did not go" not in str(caught.value)
    with pytest.raises(AssertionError, match="cbabca"):
        replay(scenario, caught.value.token)


delays = st.dictionaries(st.tuples(st.integers(0, 5), st.integers(0, 5)), st.integers(1, 6), max_size=14)


@given(delays, delays)
def test_shrinking_leaves_only_the_delays_that_a_failure_needs(
    needed: dict[tuple[int, int], int], others: dict[tuple[int, int], int]
) -> None:
    def schedule_of(held: dict[tuple[int, int], int]) -> FixedSchedule:
        return FixedSchedule(tuple((*turn, times) for turn, times in sorted(held.items())))

    def fails(schedule: FixedSchedule) -> FixedSchedule | None:
        held = {(task, step): times for task, step, times in schedule.delays}
        return schedule if all(held.get(turn, 0) >= times for turn, times in needed.items()) else None

    longer = {turn: times + 3 for turn, times in needed.items()}
    assert shrink(schedule_of(others | longer), fails, runs=2000) == schedule_of(needed)


def test_shrinking_stops_after_so_many_runs() -> None:
    runs = 0

    def fails(schedule: FixedSchedule) -> FixedSchedule | None:
        nonlocal runs
        runs += 1
        return schedule if len(schedule.delays) > 5 else None

    shrink(FixedSchedule(tuple((task, 0, 1) for task in range(200))), fails, runs=10)
    assert runs == 10


def test_only_runs_that_fail_in_the_same_way_count_as_simpler_ones() -> None:
    async def two_bugs() -> None:
        log = await rare()
        if log[0] != "a0":
            raise ValueError("the frequent bug")

    failed = next(
        run
        for run in (run_once(two_bugs, RandomSchedule(seed), "asyncio") for seed in range(2000))
        if isinstance(run.error, AssertionError)
    )
    simplest, repeats = simplest_run(lambda schedule: run_once(two_bugs, schedule, "asyncio"), failed)
    assert isinstance(simplest.error, AssertionError)
    assert repeats


@each_backend
def test_schedules_drawn_by_hypothesis_show_all_orders(backend: Backend) -> None:
    async def order() -> str:
        log: list[str] = []

        async def task(name: str) -> None:
            await checkpoint()
            log.append(name)

        async with anyio.create_task_group() as group:
            for name in "abc":
                group.start_soon(task, name)
        return "".join(log)

    seen: set[str] = set()

    @settings(max_examples=300, database=None, derandomize=True)
    @given(schedules())
    def look(schedule: FixedSchedule) -> None:
        seen.add(run_virtual(order, backend=backend, schedule=schedule))

    look()
    assert len(seen) == 6


@each_backend
def test_data_and_schedule_are_shrunk_together(backend: Backend) -> None:
    async def transfer(amounts: list[int]) -> int:
        balance = 0

        async def pay_in(amount: int) -> None:
            nonlocal balance
            if amount > 10:
                before = balance
                await checkpoint()
                balance = before + amount
            else:
                balance += amount

        async with anyio.create_task_group() as group:
            for amount in amounts:
                group.start_soon(pay_in, amount)
        return balance

    amounts, schedule = find(
        st.tuples(st.lists(st.integers(1, 100), max_size=6), schedules()),
        lambda both: run_virtual(transfer, both[0], backend=backend, schedule=both[1]) != sum(both[0]),
        settings=settings(max_examples=2000, database=None),
    )
    assert sorted(amounts) == [1, 11]
    assert len(schedule.delays) <= 1
    assert eval(repr(schedule)) == schedule
