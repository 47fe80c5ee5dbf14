import contextvars
import gc
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from seqoria_runtime._execution.calls.threads import (
    Raised,
    Returned,
    ThreadCall,
    run_in_thread,
)
from seqoria_runtime.testing._clock.worker_threads import abandoned_threads, busy_threads

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="none")

pytestmark = pytest.mark.real_time


class Odd(BaseException):
    pass


class Gate:
    """A function that a test lets end when it wants to; it says when it has begun."""

    def __init__(self, value: Any = "value") -> None:
        self.value = value
        self.begun = threading.Event()
        self.open = threading.Event()

    def __call__(self) -> Any:
        self.begun.set()
        assert self.open.wait(10), "the test never opened the gate"
        return self.value


async def wait_for(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(10):
        while not condition():
            await anyio.sleep(0.001)


async def test_a_function_runs_in_another_thread_and_gives_its_value() -> None:
    assert await run_in_thread(threading.get_ident) != threading.get_ident()


async def test_the_function_sees_the_callers_context_variables() -> None:
    request_id.set("r1")
    assert await run_in_thread(request_id.get) == "r1"


async def test_what_the_function_sets_does_not_reach_the_caller() -> None:
    await run_in_thread(lambda: request_id.set("theirs"))
    assert request_id.get() == "none"


@pytest.mark.parametrize("error", [ValueError("v"), Odd("o"), SystemExit(3), KeyboardInterrupt("k")])
async def test_an_exception_of_any_kind_reaches_the_caller_as_itself(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await run_in_thread(fail)
    assert caught.value is error


async def test_stop_iteration_arrives_as_a_runtime_error() -> None:
    with pytest.raises(RuntimeError, match="StopIteration") as caught:
        await run_in_thread(lambda: next(iter(())))
    assert isinstance(caught.value.__cause__, StopIteration)


async def test_an_error_is_not_kept_alive_by_a_cycle_through_its_call() -> None:
    def fail() -> None:
        raise Odd

    async def died() -> weakref.ref[BaseException]:
        try:
            await run_in_thread(fail)
        except Odd as error:
            return weakref.ref(error)
        raise AssertionError("nothing was raised")

    gc.disable()
    try:
        ghost = await died()
        await wait_for(lambda: ghost() is None)
    finally:
        gc.enable()


async def test_on_exit_is_called_once_in_the_loops_thread_when_the_function_has_ended() -> None:
    exits: list[int] = []
    assert await run_in_thread(lambda: "v", on_exit=lambda: exits.append(threading.get_ident())) == "v"
    await anyio.wait_all_tasks_blocked()
    assert exits == [threading.get_ident()]


async def test_on_exit_is_called_for_a_function_that_raised() -> None:
    exits: list[int] = []

    def fail() -> None:
        raise Odd

    with pytest.raises(Odd):
        await run_in_thread(fail, on_exit=lambda: exits.append(1))
    assert exits == [1]


async def test_on_exit_of_an_abandoned_thread_has_the_loop_and_the_callers_context_variables() -> None:
    seen: list[tuple[str, bool]] = []
    gate = Gate()

    async def wait_for_gate() -> None:
        request_id.set("r1")
        await run_in_thread(gate, on_exit=lambda: seen.append((request_id.get(), anyio.current_time() >= 0)))

    async with anyio.create_task_group() as group:
        group.start_soon(wait_for_gate)
        await wait_for(gate.begun.is_set)
        group.cancel_scope.cancel()
    gate.open.set()
    await wait_for(lambda: bool(seen))
    assert seen == [("r1", True)]


@pytest.mark.clause("C51")
async def test_a_cancelled_caller_stops_waiting_at_once_and_on_exit_comes_with_the_threads_end() -> None:
    exits: list[int] = []
    gate = Gate()
    call = ThreadCall(gate, on_exit=lambda: exits.append(threading.get_ident()))
    async with anyio.create_task_group() as group:
        group.start_soon(call.run)
        await wait_for(gate.begun.is_set)
        group.cancel_scope.cancel()
    assert (call.started, call.finished, call.outcome, exits) == (True, False, None, [])
    gate.open.set()
    await wait_for(lambda: bool(exits))
    await anyio.wait_all_tasks_blocked()
    assert exits == [threading.get_ident()]
    assert call.outcome == Returned("value")


async def test_a_function_whose_caller_was_cancelled_before_it_began_never_begins() -> None:
    exits: list[int] = []
    ran: list[int] = []
    call = ThreadCall(lambda: ran.append(1), on_exit=lambda: exits.append(1))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await call.run()
    assert scope.cancelled_caught
    assert (call.started, call.finished, exits, ran) == (False, False, [1], [])


async def test_a_value_that_came_with_the_cancellation_is_not_lost() -> None:
    exits: list[int] = []
    gate = Gate("precious")
    call = ThreadCall(gate, on_exit=lambda: exits.append(1))
    async with anyio.create_task_group() as group:
        group.start_soon(call.run)
        await wait_for(gate.begun.is_set)
        gate.open.set()
        while not call.finished:  # the loop must not see the end of the thread before the cancellation
            pass
        group.cancel_scope.cancel()
    assert call.outcome == Returned("precious")
    await wait_for(lambda: exits == [1])


async def test_on_exit_is_called_exactly_once_whichever_of_thread_and_cancellation_is_first() -> None:
    exits: list[int] = []
    for lead in range(200):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(ThreadCall(lambda: None, on_exit=lambda: exits.append(1)).run)
                for _ in range(lead % 8):
                    await anyio.lowlevel.checkpoint()
                scope.cancel()
    await wait_for(lambda: len(exits) >= 200)
    await anyio.wait_all_tasks_blocked()
    assert len(exits) == 200


class Lingering(ThreadCall[str]):
    """A call whose thread, once it has noted its end, goes on only when its waiter has left."""

    waiter_left = threading.Event()

    @property
    def finished(self) -> bool:
        return self.noted

    @finished.setter
    def finished(self, value: bool) -> None:
        self.noted = value
        if value:
            assert self.waiter_left.wait(10)

    @property
    def reports_exit(self) -> bool:
        """Whether the thread has yet to report its end to the loop."""
        return self._report_exit is not None


async def test_a_thread_and_a_waiter_that_both_see_the_other_gone_call_on_exit_once() -> None:
    exits: list[int] = []
    call = Lingering(lambda: "value", on_exit=lambda: exits.append(1))
    async with anyio.create_task_group() as group:
        group.start_soon(call.run)
        await wait_for(lambda: call.finished)
        group.cancel_scope.cancel()
    assert exits == [1]
    call.waiter_left.set()
    await wait_for(lambda: not call.reports_exit)
    await anyio.wait_all_tasks_blocked()
    assert exits == [1]


async def test_stop_iteration_of_an_abandoned_thread_is_a_runtime_error_as_well() -> None:
    gate = Gate()
    call = ThreadCall(lambda: next(iter(gate() and ())))
    async with anyio.create_task_group() as group:
        group.start_soon(call.run)
        await wait_for(gate.begun.is_set)
        group.cancel_scope.cancel()
    gate.open.set()
    await wait_for(lambda: call.finished)
    assert isinstance(call.outcome, Raised)
    assert isinstance(call.outcome.error, RuntimeError)


async def test_a_call_runs_only_once() -> None:
    call = ThreadCall(lambda: None)
    await call.run()
    with pytest.raises(RuntimeError, match="once"):
        await call.run()


async def test_threads_are_not_limited_here() -> None:
    gates = [Gate() for _ in range(50)]
    async with anyio.create_task_group() as group:
        for gate in gates:
            group.start_soon(run_in_thread, gate)
        await wait_for(lambda: all(gate.begun.is_set() for gate in gates))
        for gate in gates:
            gate.open.set()


async def test_threads_are_counted_as_busy_while_somebody_waits_and_as_abandoned_until_they_end() -> None:
    token = anyio.lowlevel.current_token().native_token
    watched, left = Gate(), Gate()
    assert (busy_threads(token), abandoned_threads(token)) == (0, 0)
    async with anyio.create_task_group() as group:
        group.start_soon(run_in_thread, watched)
        async with anyio.create_task_group() as inner:
            inner.start_soon(run_in_thread, left)
            await wait_for(lambda: watched.begun.is_set() and left.begun.is_set())
            assert (busy_threads(token), abandoned_threads(token)) == (2, 0)
            inner.cancel_scope.cancel()
        assert (busy_threads(token), abandoned_threads(token)) == (1, 1)
        watched.open.set()
    assert (busy_threads(token), abandoned_threads(token)) == (0, 1)
    left.open.set()
    await wait_for(lambda: abandoned_threads(token) == 0)


def test_an_event_loop_is_not_kept_alive_by_its_threads(anyio_backend: tuple[str, dict[str, Any]]) -> None:
    gates = [Gate(), Gate()]

    async def leave_one() -> weakref.ref[Any]:
        async with anyio.create_task_group() as group:
            for gate in gates:
                group.start_soon(run_in_thread, gate)
            await wait_for(lambda: all(gate.begun.is_set() for gate in gates))
            gates[0].open.set()
            group.cancel_scope.cancel()
        return weakref.ref(anyio.lowlevel.current_token().native_token)

    name, options = anyio_backend
    loop = anyio.run(leave_one, backend=name, backend_options=options)
    gates[1].open.set()
    for _ in range(1000):
        gc.collect()
        if loop() is None:
            return
        threading.Event().wait(0.01)
    pytest.fail("the loop lives on")


async def test_a_function_may_call_back_into_the_loop() -> None:
    async def double(value: int) -> int:
        await anyio.sleep(0)
        return 2 * value

    assert await run_in_thread(lambda: anyio.from_thread.run(double, 21)) == 42


@pytest.mark.parametrize("ending", ["pass", "raise ValueError"])
def test_a_thread_that_outlives_its_loop_ends_in_silence(
    ending: str, anyio_backend: tuple[str, dict[str, Any]]
) -> None:
    program = f"""
        import threading, anyio
        from seqoria_runtime._execution.calls.threads import run_in_thread

        begun, loop_is_gone, ended = threading.Event(), threading.Event(), threading.Event()

        def outlive():
            begun.set()
            loop_is_gone.wait(10)
            ended.set()
            {ending}

        async def main():
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: run_in_thread(outlive, on_exit=lambda: print("exit")))
                while not begun.is_set():
                    await anyio.sleep(0.001)
                group.cancel_scope.cancel()

        anyio.run(main, backend={anyio_backend[0]!r}, backend_options={anyio_backend[1]!r})
        loop_is_gone.set()
        assert ended.wait(10)
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join(10)
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
