import asyncio
import math
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from hashlib import pbkdf2_hmac
from typing import Any, cast

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime._execution.calls.threads import ThreadCall, run_in_thread
from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.models import ToolCallRequest
from seqoria_runtime.models.errors import MissingExtraError
from seqoria_runtime.testing import (
    Backend,
    ScriptedProvider,
    VirtualTimeDeadlock,
    fail_on_deadlock,
    require_schedules,
    run_on_both,
    run_virtual,
    virtual_backend,
    wait_for_abandoned_threads,
)
from seqoria_runtime.toolbox import LocalToolbox

pytestmark = pytest.mark.clause("C120")

each_backend = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def compute() -> None:
    """Take some real time, without the interpreter's lock, as a tool in a thread does."""
    pbkdf2_hmac("sha256", b"", b"", 30_000)


@each_backend
def test_a_long_sleep_takes_no_real_time(backend: Backend) -> None:
    async def sleep_for_years() -> float:
        await anyio.sleep(1e9)
        return anyio.current_time()

    # In real time it would not end within the limit of a test, which is a minute.
    assert run_virtual(sleep_for_years, backend=backend) == 1e9


def test_time_starts_at_zero_on_both_backends() -> None:
    async def now() -> float:
        return anyio.current_time()

    assert run_on_both(now) == (0.0, 0.0)


@each_backend
def test_arguments_go_in_and_results_and_errors_come_out(backend: Backend) -> None:
    async def divide(left: int, right: int) -> float:
        await anyio.sleep(1)
        return left / right

    assert run_virtual(divide, 1, 2, backend=backend) == 0.5
    with pytest.raises(ZeroDivisionError):
        run_virtual(divide, 1, 0, backend=backend)


def test_an_unknown_backend_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'backend' must be 'asyncio' or 'trio', not 'curio'"):
        virtual_backend(cast("Any", "curio"))


seconds = st.floats(min_value=0, max_value=1e7)


@given(st.lists(st.tuples(seconds, seconds, seconds), min_size=1, max_size=5))
def test_both_backends_read_the_same_times_to_the_last_bit(
    programs: list[tuple[float, float, float]],
) -> None:
    async def trace() -> list[tuple[int, float, bool]]:
        events: list[tuple[int, float, bool]] = []

        async def program(number: int, first: float, limit: float, second: float) -> None:
            await anyio.sleep(first)
            events.append((number, anyio.current_time(), False))
            with anyio.move_on_after(limit) as scope:
                await anyio.sleep(second)
            if limit != second:
                events.append((number, anyio.current_time(), scope.cancelled_caught))

        async with anyio.create_task_group() as group:
            for number, waits in enumerate(programs):
                group.start_soon(program, number, *waits)
        return sorted(events)

    on_asyncio, on_trio = run_on_both(trace)
    assert on_asyncio == on_trio


@pytest.mark.parametrize(
    ("first", "second"),
    [(103.60691195457132, 249.22792790759829), (55.13916416629741, 121.53409605209164)],
    ids=["the jump is rounded up", "the jump is rounded down"],
)
def test_a_jump_that_cannot_be_exact_is_the_same_on_both_backends(first: float, second: float) -> None:
    assert first + (second - first) != second

    async def trace() -> list[float]:
        times: list[float] = []

        async def sleep(seconds: float) -> None:
            await anyio.sleep(seconds)
            times.append(anyio.current_time())

        async with anyio.create_task_group() as group:
            group.start_soon(sleep, first)
            group.start_soon(sleep, second)
        return times

    on_asyncio, on_trio = run_on_both(trace)
    assert on_asyncio == on_trio
    assert on_trio[1] >= second


async def test_a_deadline_never_fires_early(anyio_backend_name: str) -> None:
    for delay in (0.1, 0.3, 3600.1, 1e8 / 3):
        with anyio.move_on_after(delay) as scope:
            await anyio.sleep_forever()
        assert scope.cancelled_caught
        assert anyio.current_time() >= scope.deadline


async def test_tasks_that_can_run_do_so_before_time_moves() -> None:
    steps = 0
    async with anyio.create_task_group() as group:

        async def work() -> None:
            nonlocal steps
            for _ in range(500):
                await anyio.lowlevel.checkpoint()
                steps += 1

        group.start_soon(work)
        await anyio.sleep(0.001)
        assert steps == 500


async def test_time_stands_still_while_a_thread_of_the_runtime_works() -> None:
    with anyio.move_on_after(30) as scope:
        await run_in_thread(compute)
    assert not scope.cancelled_caught
    assert anyio.current_time() == 0
    await anyio.sleep(30)
    assert anyio.current_time() == 30


async def test_time_stands_still_while_a_thread_of_anyio_works() -> None:
    with anyio.move_on_after(30) as scope:
        await anyio.to_thread.run_sync(compute)
    assert not scope.cancelled_caught
    assert anyio.current_time() == 0
    await anyio.sleep(30)
    assert anyio.current_time() == 30


def test_time_stands_still_while_a_thread_of_asyncio_works() -> None:
    async def main() -> list[float]:
        async with asyncio.timeout(30):
            await asyncio.to_thread(compute)
        times = [anyio.current_time()]
        await anyio.sleep(30)
        return [*times, anyio.current_time()]

    assert run_virtual(main) == [0, 30]


async def test_time_moves_while_a_thread_waits_for_the_loop_and_only_then() -> None:
    times: list[float] = []

    async def in_the_loop() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 5)
            group.start_soon(anyio.sleep, 20)
        times.append(anyio.current_time())

    def tool() -> None:
        for _ in range(2):
            anyio.from_thread.run(in_the_loop)
            compute()

    with anyio.move_on_after(50) as scope:
        await run_in_thread(tool)
    assert not scope.cancelled_caught
    assert times == [20, 40]
    assert anyio.current_time() == 40


async def test_a_task_that_a_thread_left_in_the_loop_does_not_let_time_move_for_it() -> None:
    async with anyio.create_task_group() as group:

        async def leave_a_task() -> None:
            group.start_soon(anyio.sleep, 20)

        def tool() -> None:
            anyio.from_thread.run(leave_a_task)
            compute()

        await run_in_thread(tool)
        assert anyio.current_time() == 0


async def test_a_thread_that_was_abandoned_while_it_waited_for_the_loop_does_not_hold_time() -> None:
    called, may_end = threading.Event(), threading.Event()

    async def in_the_loop() -> None:
        called.set()
        with anyio.CancelScope(shield=True):
            await anyio.sleep(3)

    def tool() -> None:
        anyio.from_thread.run(in_the_loop)
        may_end.wait(10)

    async with anyio.create_task_group() as group:
        group.start_soon(run_in_thread, tool)
        await anyio.to_thread.run_sync(called.wait)
        group.cancel_scope.cancel()
    await anyio.sleep(100)
    assert anyio.current_time() == 100
    may_end.set()
    await wait_for_abandoned_threads()


async def test_a_task_that_the_end_of_an_abandoned_thread_starts_does_not_hold_time() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        may_end.wait(10)

    async with anyio.create_task_group() as group:
        started = anyio.Event()

        async def soon() -> None:
            started.set()

        def start() -> None:
            group.start_soon(soon)

        async def in_the_loop() -> None:
            inner = ThreadCall(hang, on_exit=start)
            async with anyio.create_task_group() as abandoning:
                abandoning.start_soon(inner.run)
                await anyio.to_thread.run_sync(begun.wait)
                abandoning.cancel_scope.cancel()
            may_end.set()
            await started.wait()
            await anyio.sleep(20)

        await run_in_thread(lambda: anyio.from_thread.run(in_the_loop))
    assert anyio.current_time() == 20


async def test_time_moves_while_an_abandoned_thread_works() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        may_end.wait(10)

    async with anyio.create_task_group() as group:
        group.start_soon(run_in_thread, hang)
        await anyio.to_thread.run_sync(begun.wait)
        group.cancel_scope.cancel()
    await anyio.sleep(5)
    assert anyio.current_time() == 5
    may_end.set()


async def test_the_end_of_an_abandoned_thread_can_be_waited_for() -> None:
    exits: list[float] = []
    begun, may_end = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        may_end.wait(10)
        compute()

    async with anyio.create_task_group() as group:
        group.start_soon(lambda: run_in_thread(hang, on_exit=lambda: exits.append(anyio.current_time())))
        await anyio.to_thread.run_sync(begun.wait)
        group.cancel_scope.cancel()
    await anyio.sleep(5)
    assert exits == []
    may_end.set()
    with anyio.move_on_after(1):
        await wait_for_abandoned_threads()
    assert exits == [5]


@each_backend
def test_a_deadlock_is_an_error_that_names_the_tasks_once_they_have_ended(backend: Backend) -> None:
    ended: list[str] = []

    async def wait_for_nothing() -> None:
        try:
            await anyio.Event().wait()
        finally:
            ended.append("inner")

    async def main() -> None:
        await anyio.sleep(7)
        async with anyio.create_task_group() as group:
            group.start_soon(wait_for_nothing, name="the waiter")

    with pytest.raises(
        VirtualTimeDeadlock, match=r"the waiter: .*wait_for_nothing .*test_virtual_time"
    ) as caught:
        run_virtual(main, backend=backend)
    assert str(caught.value).count("\n") == 2, "a line for each task and no other"
    assert ended == ["inner"]


@each_backend
def test_a_deadlock_in_tools_names_their_own_lines_whatever_they_wait_through(backend: Backend) -> None:
    tools = LocalToolbox()

    @asynccontextmanager
    async def entered(wait: Callable[[], Awaitable[object]]) -> AsyncGenerator[None]:
        await wait()
        yield

    async def generated(wait: Callable[[], Awaitable[object]]) -> AsyncGenerator[int]:
        await wait()
        yield 1

    @tools.tool()
    async def plain() -> None:
        await anyio.Event().wait()

    @tools.tool()
    async def within() -> None:
        async with entered(anyio.Event().wait):
            pass

    @tools.tool()
    async def through() -> None:
        await anext(generated(anyio.Event().wait))

    async def main() -> None:
        client = AsyncAIClient([ScriptedProvider([])], local_toolbox=tools)
        names = ["plain", "within", "through"]
        async with client:
            await client.run_tool_calls([ToolCallRequest(id=name, name=name) for name in names])

    with pytest.raises(VirtualTimeDeadlock) as caught:
        run_virtual(main, backend=backend)
    for name, first, body in (
        ("plain", plain.__code__.co_firstlineno, 2),
        ("entered", entered.__wrapped__.__code__.co_firstlineno, 2),  # type: ignore[attr-defined]
        ("generated", generated.__code__.co_firstlineno, 1),
    ):
        assert f".{name} ({__file__}:{first + body})" in str(caught.value)


@each_backend
@pytest.mark.parametrize("swallow", [True, False])
def test_what_a_test_does_with_the_cancellation_does_not_hide_a_deadlock(
    backend: Backend, swallow: bool
) -> None:
    async def main() -> str:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            if swallow:
                return "fine"
            raise ZeroDivisionError from None
        return "never"

    with pytest.raises(VirtualTimeDeadlock):
        run_virtual(main, backend=backend)


def test_a_deadlock_that_a_shield_keeps_from_ending_comes_out_of_the_asyncio_loop() -> None:
    async def main() -> None:
        with anyio.CancelScope(shield=True):
            await anyio.Event().wait()

    with pytest.raises(VirtualTimeDeadlock):
        run_virtual(main, backend="asyncio")


def test_a_deadlock_comes_out_of_the_asyncio_loop_where_nothing_watches_for_it() -> None:
    name, options = virtual_backend("asyncio")
    with pytest.raises(VirtualTimeDeadlock):
        anyio.run(anyio.sleep_forever, backend=name, backend_options=options)


@each_backend
def test_a_thread_that_nobody_waits_for_may_still_wake_a_loop_with_nothing_to_do(backend: Backend) -> None:
    async def main() -> str:
        woken = anyio.Event()
        token = anyio.lowlevel.current_token()

        def wake() -> None:
            compute()
            anyio.from_thread.run_sync(woken.set, token=token)

        thread = threading.Thread(target=wake)
        thread.start()
        await woken.wait()
        await run_in_thread(thread.join)
        return "woken"

    assert run_virtual(main, backend=backend) == "woken"


@each_backend
def test_waiting_until_all_tasks_are_blocked_is_no_deadlock(backend: Backend) -> None:
    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            for _ in range(3):
                await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()

    run_virtual(main, backend=backend)


@pytest.mark.real_time
async def test_watching_for_deadlocks_changes_nothing_in_real_time() -> None:
    async def main(value: int) -> int:
        await anyio.sleep(0.001)
        return value

    assert await fail_on_deadlock(main)(5) == 5


@given(delay=st.floats(min_value=0, max_value=1e6))
async def test_an_asynchronous_property_runs_in_virtual_time(delay: float) -> None:
    before = anyio.current_time()
    await anyio.sleep(delay)
    assert math.isclose(anyio.current_time() - before, delay, rel_tol=1e-6, abs_tol=1e-6)


def test_without_trio_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqoria_runtime.testing._clock.deadlock_watch.find_spec", lambda name: None)
    run_virtual(anyio.sleep, 5, backend="asyncio")
    with pytest.raises(MissingExtraError, match=r"seqoria-runtime\[trio\]"):
        run_virtual(anyio.sleep, 5, backend="trio")
    with pytest.raises(MissingExtraError, match=r"seqoria-runtime\[trio\]"):
        require_schedules("trio")


def test_the_kit_loads_neither_trio_nor_hypothesis_before_they_are_used() -> None:
    program = """
import sys, anyio
from seqoria_runtime.testing import run_virtual
run_virtual(lambda: anyio.sleep(5))
assert not {"trio", "hypothesis"} & set(sys.modules), sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=50)


def test_a_loop_finds_its_clock_while_other_threads_make_clocks() -> None:
    over = threading.Event()
    idle = [virtual_backend("trio") for _ in range(100)]

    def make_clocks() -> None:
        while not over.is_set():
            virtual_backend("trio")

    async def find_the_clock() -> None:
        for _ in range(5000):
            await fail_on_deadlock(checkpoint)()

    thread = threading.Thread(target=make_clocks)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        run_virtual(find_the_clock, backend="trio")
    finally:
        sys.setswitchinterval(interval)
        over.set()
        thread.join()
    assert len(idle) == 100
