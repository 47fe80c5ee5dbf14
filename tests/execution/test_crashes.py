"""What a call may do to its siblings and its caller: nothing, unless it is real."""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Annotated, Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest
import trio
from anyio import get_cancelled_exc_class
from pydantic import AfterValidator

from seqoria_runtime._execution.batches.outcomes import leaves
from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.models import ToolCallOutcome
from seqoria_runtime.testing import (
    ScriptedProvider,
    call,
    calls,
    run_virtual,
    says,
    wait_for_abandoned_threads,
)
from tests.support.batches import Lab, assert_idle, error_of, request, results
from tests.support.talk import collect

pytestmark = pytest.mark.clause("C53")

on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)


class Odd(BaseException):
    """A BaseException that is not ours."""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise Odd


def nested_group(depth: int, leaf: BaseException) -> BaseException:
    for _ in range(depth):
        leaf = BaseExceptionGroup("deep", [leaf])
    return leaf


@pytest.fixture
def lab() -> Lab:
    lab = Lab()
    lab.add("work")
    return lab


def add_raising(lab: Lab, error: BaseException) -> None:
    """Add tools that raise: at once, after a second, and in a thread."""

    @lab.tools.tool()
    async def at_once() -> None:
        raise error

    @lab.tools.tool()
    async def later() -> None:
        await anyio.sleep(1)
        raise error

    @lab.tools.tool()
    def in_thread() -> None:
        raise error


ERRORS: dict[str, Callable[[], BaseException]] = {
    "exception": lambda: ValueError("bad value"),
    "no text": ValueError,
    "base exception": lambda: Odd("odd"),
    "generator exit": GeneratorExit,
    "stop async iteration": StopAsyncIteration,
    "asyncio's cancellation": lambda: asyncio.CancelledError("stray"),
    "trio's cancellation": lambda: trio.Cancelled._create(source="unknown"),
    "recursion": lambda: RecursionError("too deep"),
    "memory": MemoryError,
    "group": lambda: ExceptionGroup("several", [ValueError("one"), KeyError("two")]),
    "deep group": lambda: nested_group(3000, ValueError("deep down")),
    "group of cancellations": lambda: BaseExceptionGroup("c", [asyncio.CancelledError(), Odd()]),
    "unprintable": Unprintable,
}


@pytest.mark.clause("C42")
@pytest.mark.parametrize("name", ["at_once", "later", "in_thread"])
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("limit", [1, 16])
async def test_whatever_a_call_raises_is_its_own_error_and_its_siblings_go_on(
    lab: Lab, name: str, error: str, limit: int
) -> None:
    add_raising(lab, ERRORS[error]())
    before, after = request("work", tag="before"), request("work", tag="after")
    outcomes = await lab.run(before, request(name), after, max_concurrency=limit)
    assert results(outcomes) == ["before", "[failed]", "after"]
    assert error_of(outcomes[1]).error.startswith(f"Tool '{name}' failed: ")


@pytest.mark.clause("C42")
@pytest.mark.parametrize("name", ["at_once", "later", "in_thread"])
async def test_a_single_call_that_raises_anything_is_answered_too(lab: Lab, name: str) -> None:
    add_raising(lab, Odd("odd"))
    [outcome] = await lab.run(request(name))
    assert error_of(outcome).error == f"Tool {name!r} failed: Odd: odd"


@pytest.mark.clause("C42")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("no text", "ValueError"),
        ("exception", "bad value"),
        ("group", "one; KeyError: 'two'"),
        ("deep group", "deep down"),
        ("unprintable", "Unprintable"),
    ],
)
async def test_an_error_says_what_was_raised(lab: Lab, name: str, text: str) -> None:
    add_raising(lab, ERRORS[name]())
    [outcome] = await lab.run(request("at_once"))
    assert error_of(outcome).error == f"Tool 'at_once' failed: {text}"


async def test_a_cancellation_that_a_tool_kept_and_raised_again_is_stray(lab: Lab) -> None:
    @lab.tools.tool()
    async def keep() -> None:
        with anyio.CancelScope() as scope:
            scope.cancel()
            try:
                await anyio.sleep(1)
            except get_cancelled_exc_class() as exc:
                kept.append(exc)
        await anyio.sleep(1)
        raise kept[0]

    kept: list[BaseException] = []
    outcomes = await lab.run(request("keep"), request("work", seconds=2, tag="beside"))
    assert results(outcomes) == ["[failed]", "beside"]


@pytest.mark.parametrize("error", [Odd("v"), asyncio.CancelledError("v"), ValueError("v")])
async def test_a_crash_in_the_serializer_of_a_result_is_that_calls_error(
    lab: Lab, error: BaseException
) -> None:
    class Result(dict[str, int]):
        def items(self) -> Any:
            raise error

        __iter__ = __len__ = keys = values = items

    @lab.tools.tool()
    async def give() -> Any:
        return Result()

    outcomes = await lab.run(request("give"), request("work", tag="beside"))
    assert results(outcomes)[1] == "beside"
    error_of(outcomes[0])


def refusing(error: BaseException) -> Callable[[int], int]:
    def validate(value: int) -> int:
        raise error

    return validate


@pytest.mark.clause("C42", "C55")
@pytest.mark.parametrize("error", [Odd, asyncio.CancelledError, RuntimeError])
async def test_a_crash_in_a_validator_is_that_calls_error(lab: Lab, error: type[BaseException]) -> None:
    @lab.tools.tool()
    async def check(value: Annotated[int, AfterValidator(refusing(error("v")))]) -> int:
        return value

    outcomes = await lab.run(request("check", value=1), request("work", tag="beside"))
    assert results(outcomes)[1] == "beside"
    assert "'check'" in error_of(outcomes[0]).error


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
async def test_a_keyboard_interrupt_in_a_validator_comes_bare_out_of_run_tool_calls(
    lab: Lab, error: type[BaseException]
) -> None:
    @lab.tools.tool()
    async def check(value: Annotated[int, AfterValidator(refusing(error("v")))]) -> int:
        return value

    async with lab.client() as client:
        with pytest.raises(error):
            await client.run_tool_calls([request("work"), request("check", value=1)])
        assert_idle(client)
    assert lab.started == []


# Cancel scopes around the batch


@pytest.mark.parametrize("swallows", [False, True])
async def test_a_cancelled_caller_is_cancelled_though_its_tools_swallow_it(lab: Lab, swallows: bool) -> None:
    @lab.tools.tool()
    async def wait() -> str:
        try:
            await anyio.sleep_forever()
        except get_cancelled_exc_class():
            if not swallows:
                raise
        return "swallowed"

    async with lab.client() as client:
        for batch in ([request("wait")] * 3, [request("wait")]):
            with anyio.move_on_after(1) as scope:
                await client.run_tool_calls(batch)
                await anyio.lowlevel.checkpoint()
            assert scope.cancelled_caught
            assert_idle(client)


async def test_the_cleanup_of_every_call_has_ended_before_a_cancelled_caller_goes_on(lab: Lab) -> None:
    cleaned: list[float] = []

    @lab.tools.tool()
    async def clean(seconds: float) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(seconds)
            cleaned.append(seconds)

    async with lab.client() as client:
        with anyio.move_on_after(1):
            await client.run_tool_calls([request("clean", seconds=seconds) for seconds in (3, 1, 2)])
        assert (cleaned, anyio.current_time()) == ([1, 2, 3], 4)
        assert_idle(client)


@pytest.mark.case("A1")
@pytest.mark.parametrize("broken_beside", [False, True])
async def test_no_tool_works_on_after_its_cancelled_caller_has_been_told(
    lab: Lab, broken_beside: bool
) -> None:
    ticks: list[str] = []

    @lab.tools.tool()
    async def tick() -> None:
        try:
            while True:
                await anyio.sleep(0.05)
                ticks.append("tick")
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.15)
            ticks.append("closed")

    @lab.tools.tool()
    async def broken() -> Any:
        await anyio.sleep(0.05)
        return object

    tasks = {task.id for task in anyio.get_running_tasks()}
    async with lab.client() as client:
        with anyio.move_on_after(0.12):
            await client.run_tool_calls([request("tick"), *[request("broken")] * broken_beside])
        seen = [*ticks]
        assert seen == ["tick", "tick", "closed"]
        await anyio.sleep(0.5)
        assert ticks == seen
        assert_idle(client)
    assert {task.id for task in anyio.get_running_tasks()} <= tasks


async def test_calls_that_wait_for_a_slot_do_not_start_when_the_caller_is_cancelled(lab: Lab) -> None:
    async with lab.client(max_concurrency=2) as client:
        with anyio.move_on_after(0.5):
            await client.run_tool_calls([request("work", tag=str(number)) for number in range(100)])
        assert len(lab.started) == 2
        assert_idle(client)


async def test_calls_that_are_ready_do_not_start_after_one_that_swallowed_the_cancellation(lab: Lab) -> None:
    @lab.tools.tool()
    async def swallow() -> str:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(2)
        return "done"

    async with lab.client(max_concurrency=1) as client:
        with anyio.move_on_after(1) as scope:
            await client.run_tool_calls([request("swallow"), request("work"), request("work")])
        assert scope.cancelled_caught
        assert_idle(client)
    assert lab.started == []


async def test_a_caller_that_is_cancelled_already_starts_nothing(lab: Lab) -> None:
    async with lab.client() as client:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await client.run_tool_calls([request("work")] * 3)
        assert scope.cancelled_caught
    assert lab.started == []


async def test_a_tool_that_cancels_its_callers_scope_ends_the_batch_and_not_more(lab: Lab) -> None:
    @lab.tools.tool()
    async def stop() -> str:
        scope.cancel()
        return "stopped"

    async with lab.client() as client:
        with anyio.CancelScope() as scope:
            await client.run_tool_calls([
                request("work", seconds=9),
                request("stop"),
                request("work", seconds=9),
            ])
        assert scope.cancelled_caught
        assert anyio.current_time() == 0
        assert_idle(client)


# Requests to end the program


CRASHES = [KeyboardInterrupt, SystemExit]


@pytest.mark.parametrize("name", ["at_once", "later", "in_thread"])
@pytest.mark.parametrize("error", CRASHES)
@pytest.mark.parametrize("beside", [0, 3])
async def test_a_keyboard_interrupt_or_system_exit_comes_bare_out_of_run_tool_calls(
    lab: Lab, name: str, error: type[BaseException], beside: int
) -> None:
    crash = error("stop")
    add_raising(lab, crash)
    cleaned: list[str] = []

    @lab.tools.tool()
    async def clean() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1)
            cleaned.append("clean")

    async with lab.client() as client:
        with pytest.raises(error) as caught:
            await client.run_tool_calls([*[request("clean")] * beside, request(name)])
        assert caught.value is crash
        assert cleaned == ["clean"] * beside
        assert_idle(client)


@pytest.mark.parametrize("error", CRASHES)
async def test_it_is_found_in_a_group_that_a_tool_raises(lab: Lab, error: type[BaseException]) -> None:
    crash = error("stop")
    add_raising(lab, nested_group(3000, BaseExceptionGroup("mixed", [ValueError(), crash])))
    async with lab.client() as client:
        with pytest.raises(error) as caught:
            await client.run_tool_calls([request("at_once"), request("work")])
        assert caught.value is crash


async def stop_after(seconds: float, batch: Coroutine[Any, Any, Any]) -> None:
    with anyio.move_on_after(seconds):
        await batch


@pytest.mark.parametrize("error", CRASHES)
async def test_it_is_not_lost_if_the_caller_is_cancelled_while_the_other_calls_clean_up(
    lab: Lab, error: type[BaseException]
) -> None:
    add_raising(lab, crash := error("stop"))

    @lab.tools.tool()
    async def clean() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1)

    async with lab.client() as client:
        with pytest.raises(error) as caught:
            await stop_after(1.5, client.run_tool_calls([request("clean"), request("later")]))
        assert (caught.value, anyio.current_time()) == (crash, 2)
        assert_idle(client)


async def test_calls_that_wait_do_not_start_after_a_keyboard_interrupt(lab: Lab) -> None:
    add_raising(lab, KeyboardInterrupt())
    async with lab.client(max_concurrency=1) as client:
        with pytest.raises(KeyboardInterrupt):
            await client.run_tool_calls([request("at_once"), request("work"), request("work")])
        assert_idle(client)
    assert lab.started == []


@pytest.mark.parametrize("error", CRASHES)
async def test_it_comes_bare_out_of_a_nested_batch_too(lab: Lab, error: type[BaseException]) -> None:
    crash = error("stop")
    add_raising(lab, crash)

    @lab.tools.tool()
    async def parent() -> None:
        await client.run_tool_calls([request("later"), request("work", seconds=9)])

    async with lab.client(max_concurrency=1) as client:
        with pytest.raises(error) as caught:
            await client.run_tool_calls([request("parent"), request("work", seconds=9)])
        assert caught.value is crash
        assert_idle(client)


@pytest.mark.parametrize("error", CRASHES)
async def test_it_comes_bare_out_of_anext_and_ends_only_its_own_turn(
    lab: Lab, error: type[BaseException]
) -> None:
    crash = error("stop")
    add_raising(lab, crash)
    model = ScriptedProvider([
        calls(call("later"), call("work", seconds=9)),
        calls(call("work", tag="x")),
        says("ok"),
    ])
    client = AsyncAIClient([model], local_toolbox=lab.tools, system_prompt="")
    seen: list[Any] = []

    async def other() -> None:
        await anyio.sleep(0.5)
        async with client.chat("q", history=[]) as turn:
            seen.extend([event async for event in turn])

    async with client, anyio.create_task_group() as group:
        crashed = client.chat("q", history=[])
        group.start_soon(other)
        with pytest.raises(error) as caught:
            await anext(crashed)
        assert caught.value is crash
        await crashed.aclose()
        streamed: list[Any] = []
        with pytest.raises(error) as caught:
            await collect(client.run_call_stream([request("at_once")]), streamed)
        assert caught.value is crash
        assert results(outcome for _, outcome in streamed) == ["[failed]"]
    assert len(seen) == 2


async def test_one_that_a_thread_raised_while_its_call_was_cancelled_is_not_lost(lab: Lab) -> None:
    @lab.tools.tool()
    def interrupt() -> None:
        anyio.from_thread.run_sync(scope.cancel)
        raise KeyboardInterrupt

    async with lab.client() as client:
        for _ in range(20):
            with suppress(KeyboardInterrupt):
                with anyio.CancelScope() as scope:
                    await client.run_tool_calls([request("interrupt"), request("work")])
                assert scope.cancelled_caught
            await wait_for_abandoned_threads()
            assert_idle(client)


# What only asyncio has: tasks that are cancelled natively


async def run_in_task(run: Callable[[], Coroutine[Any, Any, Any]], after: float) -> asyncio.Task[Any]:
    """Run in a task of its own, cancel it natively after a while, and wait for its end."""
    task = asyncio.ensure_future(run())
    await asyncio.sleep(after)
    task.cancel()
    await asyncio.wait([task])
    return task


@on_asyncio
@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("limit", [1, 2, 16])
async def test_a_native_cancel_of_the_caller_is_never_swallowed(lab: Lab, count: int, limit: int) -> None:
    @lab.tools.tool()
    async def wait() -> str:
        with suppress(asyncio.CancelledError):
            await anyio.sleep_forever()
        return "swallowed"

    async with lab.client(max_concurrency=limit) as client:
        for name in ("wait", "work"):
            batch = [request(name) for _ in range(count)]
            task = await run_in_task(lambda batch=batch: client.run_tool_calls(batch), after=0.5)  # type: ignore[misc]
            assert task.cancelled()
            assert task.cancelling() == 1
            assert_idle(client)
    assert lab.started == [""] * min(count, limit)


@on_asyncio
async def test_a_native_cancel_of_a_caller_whose_first_call_has_ended_is_not_swallowed_either(
    lab: Lab,
) -> None:
    async with lab.client() as client:
        batch = [request("work", seconds=1), request("work", seconds=9)]
        task = await run_in_task(lambda: client.run_tool_calls(batch), after=5)
        assert (task.cancelled(), task.cancelling()) == (True, 1)
        assert_idle(client)


@on_asyncio
async def test_timeouts_of_asyncio_around_a_batch_work(lab: Lab) -> None:
    async with lab.client(max_concurrency=2) as client:
        batch = [request("work", seconds=9) for _ in range(5)]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.run_tool_calls(batch), 1)

        async def within() -> None:
            async with asyncio.timeout(1):
                await client.run_tool_calls(batch)

        with pytest.raises(TimeoutError):
            await within()
        assert_idle(client)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        assert anyio.current_time() == 2


def cancel_current() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


async def cancel_self() -> str:
    cancel_current()
    return "returned"


async def cancel_self_and_wait() -> str:
    cancel_current()
    await anyio.sleep(1)
    return "waited"


async def cancel_self_later() -> str:
    await anyio.sleep(1)
    return await cancel_self()


async def cancel_self_and_swallow() -> str:
    with suppress(asyncio.CancelledError):
        await cancel_self_and_wait()
    return "swallowed"


async def cancel_self_and_fail() -> str:
    cancel_current()
    raise ValueError("v")


async def cancel_self_and_take_it_back() -> str:
    await cancel_self_and_swallow()
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()
    return "taken back"


SELF_CANCELLING = [
    (cancel_self, "returned"),
    (cancel_self_and_wait, "[failed]"),
    (cancel_self_later, "returned"),
    (cancel_self_and_swallow, "swallowed"),
    (cancel_self_and_fail, "[failed]"),
    (cancel_self_and_take_it_back, "taken back"),
]


@on_asyncio
@pytest.mark.parametrize(("function", "expected"), SELF_CANCELLING)
@pytest.mark.parametrize("limit", [1, 16])
@pytest.mark.parametrize("beside", [0, 2])
async def test_a_tool_that_natively_cancels_its_own_task_harms_neither_siblings_nor_caller(
    lab: Lab, function: Callable[[], Coroutine[Any, Any, str]], expected: str, limit: int, beside: int
) -> None:
    lab.tools.add(function, name="cancel")
    before = [request("work", tag="before")] * beside
    after = [request("work", tag="after")] * beside
    outcomes = await lab.run(*before, request("cancel"), *after, max_concurrency=limit)
    assert results(outcomes) == ["before"] * beside + [expected] + ["after"] * beside
    await anyio.sleep(1)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@on_asyncio
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("shielded", [False, True])
@pytest.mark.parametrize("beside", [0, 1])
async def test_a_task_group_that_fails_in_a_call_cancels_nobody_whose_caller_is_being_cancelled_already(
    lab: Lab, beside: int, shielded: bool, nested: bool
) -> None:
    """From 3.13 on `TaskGroup` leaves a cancellation behind in a task that was cancelled before."""

    @lab.tools.tool()
    async def fail_in_group() -> None:
        async def fail() -> None:
            raise ValueError("v")

        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            await asyncio.sleep(1)

    @lab.tools.tool()
    async def cleaning() -> str:
        return (await clean_up())[0]

    async def clean_up() -> list[str]:
        try:
            await anyio.sleep(9)
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=shielded):
                batch = [request("fail_in_group"), *[request("work", tag="other")] * beside]
                found.append(results(await client.run_tool_calls(batch)))
                await anyio.sleep(1)
            raise
        raise AssertionError("never cancelled")

    found: list[list[str]] = []
    async with lab.client() as client:
        if nested:
            task = asyncio.ensure_future(client.run_tool_calls([request("cleaning")]))
        else:
            task = asyncio.ensure_future(clean_up())  # type: ignore[arg-type]
        await asyncio.sleep(1)
        tasks = [one for one in asyncio.all_tasks() if "Scheduler" in one.get_name()] if nested else [task]
        for one in tasks:
            one.cancel()
        await asyncio.wait([task])
        assert found == [["[failed]", *["other"] * beside]]
        assert_idle(client)


@on_asyncio
async def test_a_self_cancelling_tool_with_a_broken_result_harms_nobody(lab: Lab) -> None:
    @lab.tools.tool()
    async def cancel() -> Any:
        cancel_current()
        return object

    outcomes = await lab.run(request("cancel"), request("work", tag="after"), max_concurrency=1)
    assert results(outcomes)[1] == "after"
    await anyio.sleep(1)


@on_asyncio
async def test_a_native_cancel_of_the_one_task_that_runs_a_call_ends_that_call(lab: Lab) -> None:
    tasks: list[asyncio.Task[Any] | None] = []

    @lab.tools.tool()
    async def expose() -> str:
        tasks.append(asyncio.current_task())
        await anyio.sleep(9)
        return "done"

    got: list[ToolCallOutcome] = []

    async def run() -> None:
        got.extend(
            await client.run_tool_calls([request("work", seconds=2, tag="first"), *[request("expose")] * 2])
        )

    async with lab.client(max_concurrency=2) as client, anyio.create_task_group() as group:
        group.start_soon(run)
        await anyio.sleep(1)
        assert tasks[0] is not None
        tasks[0].cancel()
    assert results(got) == ["first", "[cancelled]", "done"]
    assert error_of(got[1]).error == "Tool 'expose' was cancelled while running; it may have taken effect"


@pytest.mark.parametrize("limit", [1, 4])
def test_the_end_of_the_loop_ends_a_batch_that_nobody_waits_for(limit: int) -> None:
    lab, cleaned = Lab(), []
    lab.add("work")

    @lab.tools.tool()
    async def clean() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await asyncio.sleep(0)
            cleaned.append("clean")

    async def whole() -> None:
        async with lab.client(max_concurrency=limit) as client:
            clients.append(client)
            await client.run_tool_calls([*[request("clean")] * 3, request("work", seconds=99)])

    async def main() -> None:
        tasks.append(asyncio.ensure_future(whole()))
        await asyncio.sleep(1)

    clients: list[AsyncAIClient] = []
    tasks: list[asyncio.Future[None]] = []
    run_virtual(main)
    assert tasks[0].cancelled()
    assert cleaned == ["clean"] * min(limit, 3)
    assert_idle(clients[0])


@pytest.fixture
def ctrl_c_interrupts() -> Iterator[None]:
    """Where the tests run in the background, the signal may be ignored."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.mark.usefixtures("ctrl_c_interrupts")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("suspends", [False, True])
@pytest.mark.parametrize("beside", [0, 3])
@pytest.mark.parametrize("in_main_task", [True, False])
def test_ctrl_c_amid_a_step_of_a_tool_ends_the_batch_and_comes_out_of_the_loop(
    backend: str, suspends: bool, beside: int, in_main_task: bool
) -> None:
    lab, cleaned, reached = Lab(), [], []

    @lab.tools.tool()
    async def press_ctrl_c() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
            if suspends:
                await anyio.sleep_forever()
        finally:
            cleaned.append("interrupted")

    @lab.tools.tool()
    async def wait() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cleaned.append("beside")

    async def run(client: AsyncAIClient) -> None:
        batch = [*[request("wait")] * beside, request("press_ctrl_c")]
        await client.run_tool_calls(batch)
        await anyio.sleep(0)
        reached.append("went on")

    async def main() -> None:
        async with lab.client() as client:
            clients.append(client)
            if in_main_task:
                await run(client)
            else:
                async with anyio.create_task_group() as group:
                    group.start_soon(run, client)

    clients: list[AsyncAIClient] = []
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - trio puts it into the application's own group
        anyio.run(main, backend=backend)
    assert any(isinstance(leaf, KeyboardInterrupt) for leaf in leaves(caught.value))
    assert sorted(cleaned) == ["beside"] * beside + ["interrupted"]
    assert reached == []
    assert_idle(clients[0])
