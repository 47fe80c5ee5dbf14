import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from typing import Any, cast

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime._execution.calls.threads import run_in_thread
from seqoria_runtime.testing import (
    Backend,
    FixedSchedule,
    PrioritySchedule,
    RandomSchedule,
    Schedule,
    ScheduleUnavailable,
    VirtualTimeDeadlock,
    require_schedules,
    run_virtual,
    virtual_backend,
)
from seqoria_runtime.testing._explore.token import Site, Token
from seqoria_runtime.testing._schedules import backends as scheduled
from seqoria_runtime.testing._schedules.schedule import TaskStep
from seqoria_runtime.testing._schedules.task_order import TaskOrder

pytestmark = pytest.mark.clause("C120")

each_backend = pytest.mark.parametrize("backend", ["asyncio", "trio"])
each_search = pytest.mark.parametrize("make", [RandomSchedule, lambda seed: PrioritySchedule(seed, 2, 8)])


async def three_tasks() -> str:
    order: list[str] = []

    async def task(name: str) -> None:
        await checkpoint()
        order.append(name)

    async with anyio.create_task_group() as group:
        for name in "abc":
            group.start_soon(task, name)
    return "".join(order)


@each_backend
@each_search
def test_all_orders_of_three_tasks_appear(backend: Backend, make: Callable[[int], Schedule]) -> None:
    seen = Counter(run_virtual(three_tasks, backend=backend, schedule=make(seed)) for seed in range(150))
    assert set(seen) == {"".join(order) for order in permutations("abc")}
    assert min(seen.values()) >= 5


@each_backend
def test_the_default_order_is_that_of_turns(backend: Backend) -> None:
    async def two_steps_each() -> str:
        order: list[str] = []

        async def task(name: str) -> None:
            for _ in range(2):
                order.append(name)
                await checkpoint()

        async with anyio.create_task_group() as group:
            for name in "abc":
                group.start_soon(task, name)
        return "".join(order)

    assert run_virtual(two_steps_each, backend=backend, schedule=FixedSchedule()) == "abcabc"


@each_backend
def test_a_task_can_make_many_steps_while_another_waits(backend: Backend) -> None:
    async def race() -> int:
        steps = 0

        async def runner() -> None:
            nonlocal steps
            for _ in range(10):
                steps += 1
                await checkpoint()

        async with anyio.create_task_group() as group:
            group.start_soon(runner)
            group.start_soon(checkpoint)
            await checkpoint()
            seen = steps
        return seen

    steps = {
        run_virtual(race, backend=backend, schedule=PrioritySchedule(seed, choices=10)) for seed in range(60)
    }
    assert {0, 10} <= steps


async def busy_trace() -> list[Any]:
    """Tasks, timers that tie, threads of every kind, nested groups and cancellations."""
    trace: list[Any] = []

    async def in_the_loop(name: str) -> None:
        trace.append((name, "in the loop", anyio.current_time()))
        await anyio.sleep(2)

    async def task(name: str) -> None:
        trace.append((name, anyio.current_time()))
        await run_in_thread(lambda: trace.append((name, "thread")))
        with anyio.move_on_after(1) as scope:
            await anyio.sleep(1)
        trace.append((name, scope.cancelled_caught))
        await anyio.to_thread.run_sync(lambda: trace.append((name, "thread of anyio")))
        await run_in_thread(lambda: anyio.from_thread.run(in_the_loop, name))
        trace.append((name, anyio.current_time()))

    async with anyio.create_task_group() as group:
        for name in "abcd":
            group.start_soon(task, name)
        with anyio.move_on_after(1.5):
            async with anyio.create_task_group() as inner:
                for name in ("x", "y"):
                    inner.start_soon(task, name)
    return trace


@each_backend
@each_search
def test_the_same_schedule_gives_the_same_trace(backend: Backend, make: Callable[[int], Schedule]) -> None:
    traces = []
    for seed in range(12):
        first = run_virtual(busy_trace, backend=backend, schedule=make(seed))
        assert run_virtual(busy_trace, backend=backend, schedule=make(seed)) == first
        traces.append(first)
    assert len({str(trace) for trace in traces}) > 6


@each_backend
def test_a_tie_of_a_timer_and_a_deadline_is_broken_both_ways_if_the_backend_can(backend: Backend) -> None:
    async def tie() -> bool:
        with anyio.move_on_after(1) as scope:
            await anyio.sleep(1)
        return scope.cancelled_caught

    seen = {run_virtual(tie, backend=backend, schedule=RandomSchedule(seed)) for seed in range(40)}
    assert seen == ({True, False} if backend == "asyncio" else {True})


@each_backend
def test_threads_go_one_at_a_time_and_no_task_goes_beside_them(backend: Backend) -> None:
    async def main() -> None:
        working = threading.Semaphore(1)

        def work() -> None:
            assert working.acquire(blocking=False)
            threading.Event().wait(0.002)
            working.release()

        def look() -> None:
            assert working.acquire(blocking=False)
            working.release()

        async def other() -> None:
            for _ in range(5):
                await checkpoint()
                look()

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(run_in_thread, work)
                group.start_soon(anyio.to_thread.run_sync, work)
                group.start_soon(other)

    for seed in range(5):
        run_virtual(main, backend=backend, schedule=RandomSchedule(seed))


@each_backend
def test_a_thread_that_waits_for_a_task_is_left_to_itself_after_a_while(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqoria_runtime.testing._schedules.thread_watch.PATIENCE", 0.02)

    async def main() -> None:
        opened = threading.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(run_in_thread, lambda: opened.wait(10))
            for _ in range(5):
                await checkpoint()
            opened.set()

    name, options, order = scheduled.ordered_backend(backend, FixedSchedule())
    anyio.run(main, backend=name, backend_options=options)
    assert order.log.loose == 1


@each_backend
def test_time_waits_for_an_abandoned_thread_that_works_in_a_scheduled_run(backend: Backend) -> None:
    async def main() -> float:
        began, may_end, times = threading.Event(), threading.Event(), list[float]()

        async def in_the_loop() -> None:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(3)

        def tool() -> None:
            anyio.from_thread.run(in_the_loop)
            threading.Event().wait(0.02)

        with anyio.move_on_after(1):
            await run_in_thread(tool, on_exit=lambda: times.append(anyio.current_time()))
        await anyio.sleep(100)
        del began, may_end
        return times[0]

    assert run_virtual(main, backend=backend, schedule=FixedSchedule()) == 3


@each_backend
def test_a_task_that_polls_cannot_keep_out_what_it_waits_for(backend: Backend) -> None:
    async def main() -> None:
        done = False

        async def work() -> None:
            nonlocal done
            await checkpoint()
            done = True

        async with anyio.create_task_group() as group:
            group.start_soon(work)
            while not done:
                await checkpoint()

    for seed in range(10):
        run_virtual(main, backend=backend, schedule=PrioritySchedule(seed, changes=0))


@each_backend
def test_steps_between_which_time_moves_are_no_endless_loop(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqoria_runtime.testing._schedules.task_order._SPINS", 50)

    async def sleeps() -> None:
        for _ in range(100):
            await anyio.sleep(1)

    run_virtual(sleeps, backend=backend, schedule=FixedSchedule())


@each_backend
def test_tasks_that_go_on_for_ever_are_an_error_that_names_them(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqoria_runtime.testing._schedules.task_order._SPINS", 500)

    async def spin() -> None:
        while True:
            await checkpoint()

    with pytest.raises(VirtualTimeDeadlock, match=r"forever without time moving:\n.*spin"):
        run_virtual(spin, backend=backend, schedule=FixedSchedule())


@each_backend
def test_a_deadlock_is_found_in_a_scheduled_run_too(backend: Backend) -> None:
    with pytest.raises(VirtualTimeDeadlock):
        run_virtual(anyio.sleep_forever, backend=backend, schedule=RandomSchedule(1))


def test_trio_is_as_it_was_after_a_scheduled_run() -> None:
    from trio._core import _run

    before = _run._r, _run._ALLOW_DETERMINISTIC_SCHEDULING
    with pytest.raises(ZeroDivisionError):
        run_virtual(lambda: 1 / 0, backend="trio", schedule=RandomSchedule(1))  # type: ignore[arg-type, return-value]
    run_virtual(three_tasks, backend="trio", schedule=RandomSchedule(1))
    assert (_run._r, _run._ALLOW_DETERMINISTIC_SCHEDULING) == before


def test_two_scheduled_runs_in_two_threads_keep_out_of_each_others_way() -> None:
    orders: dict[int, list[str]] = {}

    def run(seed: int) -> None:
        orders[seed] = [
            run_virtual(three_tasks, backend="trio", schedule=RandomSchedule(seed)) for _ in range(30)
        ]

    runs = [threading.Thread(target=run, args=(seed,)) for seed in (2, 3)]
    for thread in runs:
        thread.start()
    for thread in runs:
        thread.join(30)
    for seed, seen in orders.items():
        assert set(seen) == {run_virtual(three_tasks, backend="trio", schedule=RandomSchedule(seed))}


@each_backend
def test_a_schedule_can_be_given_to_the_anyio_backend_fixture(backend: Backend) -> None:
    name, options = virtual_backend(backend, schedule=FixedSchedule(((2, 0, 2), (3, 0, 1))))
    assert sorted(anyio.run(three_tasks, backend=name, backend_options=options)) == ["a", "b", "c"]


def test_a_backend_that_does_not_keep_schedules_is_an_error_that_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from seqoria_runtime.testing._schedules import scheduled_trio as _scheduled_trio

    scheduled.schedules_problem.cache_clear()
    monkeypatch.setattr(_scheduled_trio.ScheduleInstrument, "shuffle", lambda self, batch: None)
    try:
        with pytest.raises(ScheduleUnavailable, match="do not work on trio here: a trial"):
            require_schedules("trio")
        with pytest.raises(ScheduleUnavailable):
            virtual_backend("trio", schedule=RandomSchedule(1))
        require_schedules("asyncio")
    finally:
        scheduled.schedules_problem.cache_clear()


def test_a_trio_without_its_private_switch_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from trio._core import _run

    scheduled.schedules_problem.cache_clear()
    monkeypatch.delattr(_run, "_ALLOW_DETERMINISTIC_SCHEDULING")
    try:
        with pytest.raises(ScheduleUnavailable, match="has no _ALLOW_DETERMINISTIC_SCHEDULING"):
            require_schedules("trio")
    finally:
        scheduled.schedules_problem.cache_clear()


def test_a_trio_that_is_too_old_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduled.schedules_problem.cache_clear()
    monkeypatch.setattr("trio.__version__", "0.22.1")
    try:
        with pytest.raises(ScheduleUnavailable, match=r"0\.22\.1 is older than"):
            require_schedules("trio")
    finally:
        scheduled.schedules_problem.cache_clear()


@pytest.mark.parametrize(
    "make",
    [
        lambda: PrioritySchedule(1, choices=0),
        lambda: PrioritySchedule(1, changes=-1),
        lambda: PrioritySchedule(1, changes=cast("Any", True)),
    ],
)
def test_a_pct_schedule_that_cannot_be_is_refused(make: Callable[[], PrioritySchedule]) -> None:
    with pytest.raises(ValueError, match=r"'(choices|changes)' must be"):
        make()


queues = st.lists(st.lists(st.integers(0, 9), min_size=2, max_size=5, unique=True), max_size=30)


@given(queues, st.integers(0, 99))
def test_every_chooser_chooses_what_is_there(rounds: list[list[int]], seed: int) -> None:
    kinds: list[Schedule] = [
        RandomSchedule(seed),
        PrioritySchedule(seed, choices=len(rounds) + 1),
        FixedSchedule(((1, 0, seed), (2, 3, 1))),
    ]
    for kind in kinds:
        choose = kind.start()
        for ready in rounds:
            assert 0 <= choose([TaskStep(task, step) for step, task in enumerate(ready)]) < len(ready)


@given(st.integers(0, 99), st.lists(st.integers(1, 4), min_size=2, max_size=4))
def test_the_schedule_of_a_run_goes_the_same_way_again(seed: int, programs: list[int]) -> None:
    def play(schedule: Schedule) -> TaskOrder:
        order = TaskOrder(schedule, label=str)
        tasks = [_Task(steps) for steps in programs]
        order.add((task, task) for task in tasks)
        while len(order):
            _, task = order.next()
            task.left -= 1
            if task.left:
                order.add([(task, task)])
        return order

    random = play(RandomSchedule(seed)).log
    again = play(random.schedule).log
    assert again.steps == random.steps
    assert again.schedule == random.schedule


def test_what_is_passed_over_goes_to_the_end_of_the_queue() -> None:
    order = TaskOrder(FixedSchedule(((0, 0, 1), (2, 0, 1))), label=str)
    tasks = [_Task(1) for _ in range(4)]
    order.add((task, task) for task in tasks)
    assert [order.next()[0] for _ in tasks] == [1, 3, 0, 2]
    assert order.log.delays == {TaskStep(0, 0): 1, TaskStep(2, 0): 1}


@dataclass(eq=False)
class _Task:
    left: int


delays = st.dictionaries(
    st.tuples(st.integers(-9, 99), st.integers(0, 99)), st.integers(1, 9), max_size=60
).map(lambda held: tuple((*turn, times) for turn, times in held.items()))
sites = st.none() | st.builds(
    Site, st.sampled_from(["scope", "aclose", "fail2"]), st.integers(1, 999) | st.floats(0, 1e9)
)


@given(st.sampled_from(["asyncio", "trio"]), delays, sites)
def test_a_token_says_the_same_after_it_was_written_down(
    backend: Backend, held: tuple[tuple[int, int, int], ...], site: Site | None
) -> None:
    token = Token(backend, FixedSchedule(held), site)
    assert Token.read(str(token)) == token
    assert " " not in str(token)


def test_a_simple_token_can_be_read() -> None:
    token = Token("asyncio", FixedSchedule(((4, 0, 2), (6, 3, 1), (-1, 0, 1))), Site("scope", 37))
    assert str(token) == "a1:4.0.2-6.3-x1.0/scope@37"
    assert str(Token("trio", FixedSchedule())) == "t1:"


@pytest.mark.parametrize(
    "text", ["", "b1:", "a2:1.1", "a1:1", "a1:x.y", "a1:~AAAA", "a1:/scope", "a1:/scope@x"]
)
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="token"):
        Token.read(text)
