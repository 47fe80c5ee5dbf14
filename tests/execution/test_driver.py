import asyncio
import gc
import types
import weakref
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest
from anyio import get_cancelled_exc_class
from anyio.lowlevel import checkpoint

from seqoria_runtime._execution.calls.driver import Driver

variable: ContextVar[str] = ContextVar("variable", default="none")

on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)


async def drive(coroutine: Coroutine[Any, Any, Any], context: Context | None = None) -> Any:
    return await drive_with(Driver(), coroutine, context)


async def drive_with(
    driver: Driver, coroutine: Coroutine[Any, Any, Any], context: Context | None = None
) -> Any:
    context = context or copy_context()
    ended, value = driver.begin(coroutine, context)
    return value if ended else await driver.finish(coroutine, context)


async def current() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


@pytest.mark.parametrize("suspensions", [0, 1, 3])
async def test_the_value_of_a_coroutine_is_given(suspensions: int) -> None:
    async def give() -> str:
        for _ in range(suspensions):
            await checkpoint()
        return "value"

    assert await drive(give()) == "value"


@pytest.mark.parametrize("suspensions", [0, 1, 3])
@pytest.mark.parametrize("error", [ValueError("v"), KeyboardInterrupt(), GeneratorExit(), SystemExit(1)])
async def test_what_a_coroutine_raises_is_raised_as_itself(suspensions: int, error: BaseException) -> None:
    async def fail() -> None:
        for _ in range(suspensions):
            await checkpoint()
        raise error

    with pytest.raises(type(error)) as caught:
        await drive(fail())
    assert caught.value is error


@pytest.mark.clause("C37")
async def test_every_step_runs_in_the_given_context() -> None:
    seen = []

    async def look() -> None:
        for step in range(3):
            seen.append(variable.get())
            variable.set(f"step {step}")
            await checkpoint()
        seen.append(variable.get())

    variable.set("the task's")
    context = copy_context()
    context.run(variable.set, "the call's")
    await drive(look(), context)
    assert seen == ["the call's", "step 0", "step 1", "step 2"]
    assert variable.get() == "the task's"
    assert context[variable] == "step 2"


@pytest.mark.clause("C37")
async def test_cleanup_runs_in_the_given_context_too() -> None:
    seen = []

    async def look() -> None:
        variable.set("the call's")
        try:
            await anyio.sleep_forever()
        finally:
            seen.append(variable.get())

    with anyio.move_on_after(1):
        await drive(look())
    assert seen == ["the call's"]


@pytest.mark.clause("C37")
async def test_what_one_coroutine_sets_is_not_seen_by_the_next_of_the_same_driver() -> None:
    driver, base = Driver(), copy_context()

    async def swap() -> str:
        before = variable.get()
        variable.set("leaked")
        await checkpoint()
        return before

    assert [await drive_with(driver, swap(), base.copy()) for _ in range(3)] == ["none"] * 3


@pytest.mark.clause("C37")
async def test_task_groups_threads_and_scopes_inside_a_driven_coroutine_work_and_see_its_context() -> None:
    async def look(seen: list[str]) -> None:
        variable.set("the call's")
        with anyio.move_on_after(1) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(note, seen)
                await anyio.to_thread.run_sync(lambda: seen.append(variable.get()))
                await anyio.to_thread.run_sync(lambda: anyio.from_thread.run(note, seen))
                await anyio.sleep_forever()
        assert scope.cancelled_caught

    async def note(seen: list[str]) -> None:
        seen.append(variable.get())

    seen: list[str] = []
    await drive(look(seen))
    assert (seen, anyio.current_time()) == (["the call's"] * 3, 1)


async def test_a_task_group_inside_a_driven_coroutine_raises_its_childrens_errors_there() -> None:
    async def fail() -> None:
        raise ValueError("child")

    async def run() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(fail)
            await anyio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        await drive(run())
    assert isinstance(caught.value.exceptions[0], ValueError)


async def test_a_coroutine_is_begun_up_to_its_first_suspension_and_finished_from_there() -> None:
    steps: list[str] = []
    driver = Driver()

    async def suspend(times: int) -> int:
        for _ in range(times):
            await checkpoint()
            steps.append("step")
        return times

    for times in (0, 2, 0, 1):
        context, coroutine = copy_context(), suspend(times)
        ended, value = driver.begin(coroutine, context)
        steps.append("begun")
        assert ended is (times == 0)
        assert (value if ended else await driver.finish(coroutine, context)) == times
    assert steps == ["begun", "begun", "step", "step", "begun", "begun", "step"]


async def test_forgetting_takes_back_what_was_noted_of_the_last_coroutine() -> None:
    driver = Driver()
    with anyio.move_on_after(1):
        await drive_with(driver, anyio.sleep_forever(), copy_context())
    driver.forget()
    assert (driver.delivered, driver.disturbed) == (None, False)


@pytest.mark.clause("C53")
async def test_a_cancelled_scope_around_the_driver_cancels_the_coroutine_and_leaves() -> None:
    cleaned = []

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1)
            cleaned.append(anyio.current_time())

    with anyio.move_on_after(2) as scope:
        await drive(work())
    assert (scope.cancelled_caught, cleaned) == (True, [3])


async def test_closing_the_generator_closes_the_coroutine() -> None:
    cleaned = []

    async def work() -> None:
        try:
            await checkpoint()
        finally:
            cleaned.append(True)

    generator = drive(work())
    generator.send(None)
    generator.close()
    assert cleaned == [True]


async def test_an_error_is_not_kept_alive_by_the_frames_that_it_went_through() -> None:
    class Odd(Exception):
        pass

    async def fail() -> None:
        await checkpoint()
        raise Odd

    async def died() -> weakref.ref[BaseException]:
        try:
            await drive(fail())
        except Odd as error:
            return weakref.ref(error)
        raise AssertionError("nothing was raised")

    gc.disable()
    try:
        assert (await died())() is None
    finally:
        gc.enable()


@types.coroutine
def pause() -> Generator[None, None, None]:
    yield


def test_an_error_that_is_thrown_in_is_not_kept_alive_by_the_driver() -> None:
    class Odd(Exception):
        pass

    async def work() -> None:
        await pause()

    driver = Driver()
    generator = drive_with(driver, work(), copy_context())
    generator.send(None)
    error = Odd()
    ghost = weakref.ref(error)
    gc.disable()
    try:
        generator.throw(error)
    except Odd:
        driver.forget()
    finally:
        del error
        gc.enable()
    assert ghost() is None


def test_what_a_coroutine_has_waited_for_is_not_held_while_it_waits_for_more() -> None:
    class Thing:
        pass

    driver, context = Driver(), copy_context()

    @types.coroutine
    def wait_for(thing: object) -> Generator[object]:
        yield thing

    async def wait_twice() -> None:
        await wait_for(Thing())
        await wait_for(None)

    coroutine = wait_twice()
    assert driver.begin(coroutine, context) == (False, None)
    rest = driver.finish(coroutine, context)
    ghost = weakref.ref(rest.send(None))
    assert ghost() is not None
    assert rest.send(None) is None
    assert ghost() is None
    rest.close()


async def test_a_driver_where_nothing_happened_is_undisturbed() -> None:
    driver = Driver()
    await drive_with(driver, anyio.sleep(1), copy_context())
    assert (driver.disturbed, driver.natively_cancelled, driver.take_self_cancels()) == (False, False, 0)


@pytest.mark.clause("C53")
async def test_a_stray_cancellation_is_not_taken_for_one_that_was_delivered() -> None:
    async def caught_elsewhere() -> BaseException:
        with anyio.CancelScope() as scope:
            scope.cancel()
            try:
                await checkpoint()
            except get_cancelled_exc_class() as exc:
                return exc
        raise AssertionError("nothing was raised")

    stray = await caught_elsewhere()

    async def go_astray() -> None:
        await checkpoint()
        raise stray

    driver = Driver()
    with pytest.raises(get_cancelled_exc_class()) as caught:
        await drive_with(driver, go_astray(), copy_context())
    assert caught.value is stray
    assert (driver.delivered, driver.natively_cancelled) == (None, False)


# What only asyncio has: a task that is cancelled natively, by somebody else or by itself


async def wait_for_news() -> None:
    await asyncio.Event().wait()


async def swallow(coroutine: Coroutine[Any, Any, Any]) -> str:
    try:
        await coroutine
    except asyncio.CancelledError:
        return "swallowed"
    return "undisturbed"


@pytest.mark.clause("C53")
@on_asyncio
@pytest.mark.parametrize("swallowed", [False, True])
async def test_a_native_cancel_by_somebody_else_is_noted_even_if_the_coroutine_swallows_it(
    swallowed: bool,
) -> None:
    drivers = []

    async def work() -> None:
        drivers.append(Driver())
        coroutine = swallow(wait_for_news()) if swallowed else wait_for_news()
        await drive_with(drivers[0], coroutine, copy_context())

    task = asyncio.create_task(work())
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.wait([task])
    [driver] = drivers
    assert isinstance(driver.delivered, asyncio.CancelledError)
    assert driver.natively_cancelled
    assert driver.disturbed
    assert driver.take_self_cancels() == 0
    assert task.cancelling() == 1


@on_asyncio
async def test_a_native_cancel_before_the_coroutine_is_not_put_down_to_it() -> None:
    seen = []

    async def work() -> None:
        await swallow(wait_for_news())
        driver = Driver()
        await drive_with(driver, asyncio.sleep(1), copy_context())
        seen.append((driver.natively_cancelled, driver.disturbed, driver.take_self_cancels()))

    task = asyncio.create_task(work())
    await asyncio.sleep(1)
    task.cancel()
    await task
    assert (seen, task.cancelling()) == ([(False, False, 0)], 1)


@pytest.mark.clause("C53")
@on_asyncio
async def test_a_native_cancel_between_two_coroutines_of_a_driver_is_somebody_elses() -> None:
    noted = []

    async def work() -> None:
        driver = Driver()
        await drive_with(driver, checkpoint(), copy_context())
        (await current()).cancel()  # as a signal handler does
        try:
            await drive_with(driver, wait_for_news(), copy_context())
        finally:
            noted.append((type(driver.delivered), driver.natively_cancelled, driver.take_self_cancels()))

    task = asyncio.create_task(work())
    await asyncio.wait([task])
    assert (task.cancelled(), noted) == (True, [(asyncio.CancelledError, True, 0)])


@on_asyncio
async def test_a_native_cancel_is_noted_though_an_earlier_coroutine_took_back_more_than_its_own() -> None:
    noted = []

    async def take_back() -> None:
        (await current()).uncancel()

    async def work() -> None:
        await swallow(wait_for_news())
        driver = Driver()
        await drive_with(driver, take_back(), copy_context())
        await drive_with(driver, swallow(wait_for_news()), copy_context())
        noted.append(driver.natively_cancelled)

    task = asyncio.create_task(work())
    for _ in range(2):
        await asyncio.sleep(1)
        task.cancel()
    await task
    assert noted == [True]


async def cancel_self() -> None:
    (await current()).cancel()


async def cancel_self_and_suspend() -> None:
    await cancel_self()
    await checkpoint()


async def cancel_self_after_suspending() -> None:
    await checkpoint()
    await cancel_self()


async def cancel_self_and_swallow() -> None:
    await swallow(cancel_self_and_suspend())


async def cancel_self_twice() -> None:
    await swallow(cancel_self_and_suspend())
    await cancel_self()


async def cancel_self_and_fail() -> None:
    await cancel_self()
    raise ValueError("v")


async def cancel_self_through_a_thread() -> None:
    task = await current()
    await anyio.to_thread.run_sync(lambda: anyio.from_thread.run_sync(task.cancel))


SELF_CANCELS = [
    (cancel_self, 1),
    (cancel_self_and_suspend, 1),
    (cancel_self_after_suspending, 1),
    (cancel_self_and_swallow, 1),
    (cancel_self_twice, 2),
    (cancel_self_and_fail, 1),
]


@pytest.mark.clause("C53")
@on_asyncio
@pytest.mark.parametrize(("function", "times"), SELF_CANCELS)
async def test_a_coroutine_that_cancels_its_own_task_is_noticed_and_taken_back(
    function: Callable[[], Coroutine[Any, Any, None]], times: int
) -> None:
    driver = Driver()
    with suppress(asyncio.CancelledError, ValueError):
        await drive_with(driver, function(), copy_context())
    assert driver.disturbed
    assert driver.take_self_cancels() == times
    assert driver.take_self_cancels() == 0
    assert not driver.natively_cancelled
    assert (await current()).cancelling() == 0
    await swallow(checkpoint())  # what may still be on its way


@on_asyncio
async def test_a_self_cancel_that_the_coroutine_took_back_itself_is_not_taken_back_twice() -> None:
    async def cancel_and_uncancel() -> None:
        await swallow(cancel_self_and_suspend())
        (await current()).uncancel()

    async def work() -> int:
        await swallow(wait_for_news())
        driver = Driver()
        await drive_with(driver, cancel_and_uncancel(), copy_context())
        driver.take_self_cancels()
        return (await current()).cancelling()

    task = asyncio.create_task(work())
    await asyncio.sleep(1)
    task.cancel()
    assert await task == 1


@pytest.mark.clause("C53")
@on_asyncio
async def test_a_self_cancel_beside_a_real_one_takes_back_only_its_own() -> None:
    async def both() -> None:
        await swallow(wait_for_news())
        await cancel_self()

    async def work() -> None:
        driver = Driver()
        await drive_with(driver, both(), copy_context())
        assert driver.take_self_cancels() == 1
        assert driver.natively_cancelled
        assert isinstance(driver.delivered, asyncio.CancelledError)
        await swallow(checkpoint())  # what may still be on its way

    task = asyncio.create_task(work())
    await asyncio.sleep(1)
    task.cancel()
    await task
    assert task.cancelling() == 1


@on_asyncio
async def test_the_timeouts_and_groups_of_asyncio_inside_a_coroutine_are_no_native_cancel() -> None:
    driver = Driver()

    async def fail() -> None:
        raise ValueError("child")

    async def time_out() -> None:
        async with asyncio.timeout(1):
            await wait_for_news()

    async def fail_in_group() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            await wait_for_news()

    async def work() -> None:
        with pytest.raises(TimeoutError):
            await time_out()
        with pytest.raises(ExceptionGroup):
            await fail_in_group()

    await drive_with(driver, work(), copy_context())
    assert isinstance(driver.delivered, asyncio.CancelledError)
    assert (driver.natively_cancelled, driver.take_self_cancels()) == (False, 0)


@on_asyncio
async def test_a_cancel_that_a_thread_of_the_coroutine_asks_for_counts_as_somebody_elses() -> None:
    noted = []

    async def work() -> None:
        driver = Driver()
        try:
            await drive_with(driver, cancel_self_through_a_thread(), copy_context())
        finally:
            noted.append((driver.natively_cancelled, driver.take_self_cancels()))

    task = asyncio.create_task(work())
    await asyncio.wait([task])
    assert (task.cancelled(), noted) == (True, [(True, 0)])
