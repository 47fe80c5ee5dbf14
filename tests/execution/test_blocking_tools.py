"""Sync tools and callbacks in threads: what is answered at once, and what holds a slot until it ends."""

import threading
from collections.abc import Awaitable
from contextvars import copy_context
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from seqoria_runtime._base.catalogue import build_catalogue
from seqoria_runtime._execution.calls.scheduler import Scheduler
from seqoria_runtime._execution.calls.settings import ExecutionSettings
from seqoria_runtime._execution.places.places import Places
from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.client.parameters import ParameterRegistry
from seqoria_runtime.models import ToolCallOutcome
from seqoria_runtime.testing import wait_for_abandoned_threads
from tests.support.batches import Lab, assert_idle, error_of, request, results
from tests.support.tools import Gate

pytestmark = pytest.mark.clause("C51")


class Blocking(Lab):
    """A lab whose sync tools wait in their threads until a test opens the gate of their tag."""

    def __init__(self) -> None:
        super().__init__()
        self.gates: dict[str, Gate] = {}
        self.in_threads = self.most_in_threads = 0
        self._lock = threading.Lock()
        self.add("work")
        for name in ("block", "also_block"):
            self.tools.add(self.block, name=name)

    def block(self, tag: str) -> str:
        with self._lock:
            self.in_threads += 1
            self.most_in_threads = max(self.most_in_threads, self.in_threads)
        try:
            self.gate(tag)()
        finally:
            with self._lock:
                self.in_threads -= 1
        return f"{tag} done"

    def gate(self, tag: str) -> Gate:
        with self._lock:
            return self.gates.setdefault(tag, Gate())

    async def entered(self, *tags: str) -> None:
        """Wait until the threads of these tags are at their gates; virtual time stands still meanwhile."""
        for tag in tags:
            await anyio.to_thread.run_sync(self.gate(tag).entered.wait, 10)

    async def abandon(self, client: AsyncAIClient, *tags: str, tool: str = "block") -> None:
        """Run a batch of blocking calls, one for each tag, and cancel it once they all block."""
        async with anyio.create_task_group() as group:
            group.start_soon(client.run_tool_calls, [request(tool, tag=tag) for tag in tags])
            await self.entered(*tags)
            group.cancel_scope.cancel()

    async def release(self, *tags: str) -> None:
        """Let the threads of these tags, by default all, end."""
        for tag in tags or tuple(self.gates):
            self.gate(tag).open.set()
        if not tags:
            await wait_for_abandoned_threads()


@pytest.fixture
def lab() -> Blocking:
    return Blocking()


async def test_a_sync_tool_runs_in_another_thread_while_the_loop_goes_on(lab: Blocking) -> None:
    @lab.tools.tool()
    def where() -> int:
        anyio.from_thread.run_sync(began.set)
        lab.gate("where")()
        return threading.get_ident()

    began = anyio.Event()
    outcomes: list[Any] = []

    async def run() -> None:
        outcomes.extend(await client.run_tool_calls([request("where")]))

    async with lab.client() as client, anyio.create_task_group() as group:
        group.start_soon(run)
        await began.wait()
        await lab.release("where")
    assert results(outcomes) != [str(threading.get_ident())]


@pytest.mark.parametrize("count", [16, 60])
async def test_as_many_sync_tools_as_there_are_slots_run_at_the_same_time(lab: Blocking, count: int) -> None:
    barrier = threading.Barrier(count)

    @lab.tools.tool()
    def meet() -> str:
        barrier.wait(10)
        return "met"

    outcomes = await lab.run(*[request("meet")] * count, max_concurrency=count)
    assert results(outcomes) == ["met"] * count


async def test_threads_that_the_application_uses_up_are_not_missed(lab: Blocking) -> None:
    limiter = anyio.to_thread.current_default_thread_limiter()
    limiter.total_tokens = 1
    await lab.release("a")
    async with limiter:
        assert results(await lab.run(request("block", tag="a"))) == ["a done"]


@pytest.mark.case("C3")
@pytest.mark.real_time
async def test_a_sync_tool_that_overruns_is_answered_at_once_and_its_slot_comes_back_when_it_ends(
    lab: Blocking,
) -> None:
    async with lab.client(tool_timeout=0.1, max_concurrency=1, abandoned_grace=60) as client:
        [outcome] = await client.run_tool_calls([request("block", tag="a")])
        assert error_of(outcome).error == "Tool 'block' timed out after 0.1s; it may have taken effect"
        stats = client.stats()
        assert (stats.running, stats.abandoned, stats.free_slots) == ({}, {"block": 1}, 0)
        async with anyio.create_task_group() as group:
            waiting: list[Any] = []

            async def wait() -> None:
                waiting.extend(await client.run_tool_calls([request("work", seconds=0, tag="next")]))

            group.start_soon(wait)
            await anyio.sleep(0.03)
            assert (waiting, client.stats().waiting) == ([], {"work": 1})
            await lab.release("a")
        assert results(waiting) == ["next"]
        assert_idle(client)


@pytest.mark.case("C3")
@pytest.mark.real_time
async def test_overrunning_threads_never_exceed_the_limit_and_every_call_is_answered(lab: Blocking) -> None:
    tags = [str(number) for number in range(8)]
    async with lab.client(tool_timeout=0.1, max_concurrency=2, abandoned_grace=60) as client:
        answered: list[Any] = []

        async def run() -> None:
            answered.extend(await client.run_tool_calls([request("block", tag=tag) for tag in tags]))

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            for tag in tags:
                await lab.entered(tag)
                while client.stats().running:
                    await anyio.sleep(0.001)
                await lab.release(tag)
        assert results(answered) == ["[timed_out]"] * 8
        await wait_for_abandoned_threads()
        assert_idle(client)
    assert lab.most_in_threads == 2


@pytest.mark.case("C3")
@pytest.mark.real_time
async def test_a_timeout_of_an_async_tool_leaves_the_sync_tool_that_it_called_to_the_inner_tools_policy(
    lab: Blocking,
) -> None:
    inner: list[Any] = []

    @lab.tools.tool(timeout=0.1)
    async def parent(tag: str) -> str:
        inner.extend(await client.run_tool_calls([request("block", tag=tag)]))
        return "parent done"

    async with lab.client(max_concurrency=1) as client:
        assert results(await client.run_tool_calls([request("parent", tag="a")])) == ["[timed_out]"]
        assert (client.stats().abandoned, client.stats().free_slots) == ({"block": 1}, 0)
        await lab.release()
        assert_idle(client)
        assert inner == []


async def test_a_cancelled_caller_goes_on_at_once_and_the_slots_come_back_with_the_threads(
    lab: Blocking,
) -> None:
    async with lab.client(max_concurrency=3) as client:
        await lab.abandon(client, "a", "b")
        assert anyio.current_time() == 0
        stats = client.stats()
        assert (stats.running, stats.abandoned, stats.free_slots) == ({}, {"block": 2}, 1)
        await lab.release()
        assert_idle(client)


async def test_a_client_closes_while_abandoned_threads_run_and_has_its_slots_when_it_opens_again(
    lab: Blocking,
) -> None:
    async with lab.client(max_concurrency=2) as client:
        await lab.abandon(client, "a")
    assert client.stats().free_slots == 1
    async with client:
        assert client.stats().free_slots == 1
        outcomes = await client.run_tool_calls([request("work", tag=tag) for tag in "xy"])
        assert (results(outcomes), lab.peak) == (["x", "y"], 1)
        await lab.release()
        assert_idle(client)


@pytest.mark.clause("C42")
async def test_calls_that_wait_for_abandoned_threads_fail_after_the_grace_and_name_what_holds_the_slots(
    lab: Blocking,
) -> None:
    async with lab.client(max_concurrency=2, abandoned_grace=5) as client:
        await lab.abandon(client, "a")
        await lab.abandon(client, "b", tool="also_block")
        await anyio.sleep(1)
        outcomes = await client.run_tool_calls([request("work"), request("nobody"), request("work")])
        assert results(outcomes) == ["[unavailable]", "[unknown_tool]", "[unavailable]"]
        assert anyio.current_time() == 5
        assert "also_block, block" in error_of(outcomes[0]).error
        assert "'work'" in error_of(outcomes[0]).error
        await lab.release()
        assert results(await client.run_tool_calls([request("work", tag="works again")])) == ["works again"]


async def test_a_call_that_comes_after_the_grace_fails_at_once(lab: Blocking) -> None:
    async with lab.client(max_concurrency=1, abandoned_grace=5) as client:
        await lab.abandon(client, "a")
        await anyio.sleep(100)
        assert results(await client.run_tool_calls([request("work")])) == ["[unavailable]"]
        assert anyio.current_time() == 100
        await lab.release()


@pytest.mark.parametrize(("options", "grace"), [({}, 30), ({"tool_timeout": 7}, 7)])
async def test_the_grace_is_the_tool_timeout_or_thirty_seconds(
    lab: Blocking, options: dict[str, float], grace: float
) -> None:
    async with lab.client(max_concurrency=1, **options) as client:
        await lab.abandon(client, "a")
        assert results(await client.run_tool_calls([request("work")])) == ["[unavailable]"]
        assert anyio.current_time() == grace
        await lab.release()


async def test_calls_wait_as_long_as_one_slot_is_not_held_by_an_abandoned_thread(lab: Blocking) -> None:
    async with lab.client(max_concurrency=2, abandoned_grace=5) as client, anyio.create_task_group() as group:
        await lab.abandon(client, "a")
        group.start_soon(client.run_tool_calls, [request("work", seconds=60)])
        await anyio.sleep(1)
        assert results(await client.run_tool_calls([request("work", tag="patient")])) == ["patient"]
        assert anyio.current_time() == 61
        await lab.release()


async def test_the_grace_begins_anew_once_a_thread_has_come_back(lab: Blocking) -> None:
    async with lab.client(max_concurrency=2, abandoned_grace=5) as client, anyio.create_task_group() as group:
        await lab.abandon(client, "a", "b")
        got: list[Any] = []

        async def wait() -> None:
            got.extend(await client.run_tool_calls([request("work", seconds=4, tag=tag) for tag in "xy"]))

        group.start_soon(wait)
        await anyio.sleep(4)
        await lab.release("a")
        while not lab.started:
            await anyio.to_thread.run_sync(threading.Event().wait, 0.001)
        await anyio.sleep(20)
        assert (results(got), lab.times("end")) == (["x", "y"], {"x": 8, "y": 12})
        await lab.release()


async def test_dependents_of_calls_that_became_unavailable_are_skipped(lab: Blocking) -> None:
    lab.add("after", depends_on=["work"])
    async with lab.client(max_concurrency=1, abandoned_grace=5) as client:
        await lab.abandon(client, "a")
        outcomes = await client.run_tool_calls([request("after"), request("work")])
        assert results(outcomes) == ["[skipped]", "[unavailable]"]
        await lab.release()


@pytest.mark.clause("C49")
async def test_a_nested_batch_that_waits_for_abandoned_threads_fails_too_and_the_rest_of_it_goes_on() -> None:
    lab = Blocking()
    seen: list[str] = []

    @lab.tools.tool()
    async def hold() -> str:
        await lab.abandon(client, "a")
        await anyio.sleep(100)
        return "held"

    @lab.tools.tool()
    async def parent() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(beside)
            batch = [request("work", tag="first"), request("hold"), request("work", tag="third")]
            seen.extend(results(await client.run_tool_calls(batch)))

    async def beside() -> None:
        await anyio.sleep(0.5)
        await client.run_tool_calls([request("work", tag="beside")])

    async with lab.client(max_concurrency=1, abandoned_grace=5) as client:
        await client.run_tool_calls([request("parent")])
        assert seen == ["first", "held", "[unavailable]"]
        assert (anyio.current_time(), client.stats().abandoned) == (102, {"block": 1})
        await lab.release()
        assert_idle(client)


@pytest.mark.clause("C45", "C46")
@pytest.mark.real_time
async def test_a_dependent_starts_though_the_last_call_that_it_waited_for_took_its_slot_along(
    lab: Blocking,
) -> None:
    lab.add("after", depends_on=["block"])
    await lab.release("done")
    calls = [
        request("block", tag="done"),
        request("block", tag="hangs"),
        request("after", seconds=0, tag="after"),
    ]
    async with lab.client(max_concurrency=3, tool_timeout=0.1) as client:
        assert results(await client.run_tool_calls(calls)) == ["done done", "[timed_out]", "after"]
        assert client.stats().abandoned == {"block": 1}
        await lab.release()


async def test_what_an_abandoned_thread_raises_in_the_end_is_nobodys_business(lab: Blocking) -> None:
    gate, began = lab.gate("fail"), anyio.Event()

    @lab.tools.tool()
    def fail() -> None:
        anyio.from_thread.run_sync(began.set)
        gate()
        raise SystemExit("too late")

    async with lab.client(max_concurrency=1) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.run_tool_calls, [request("fail")])
            await began.wait()
            group.cancel_scope.cancel()
        await lab.release()
        assert_idle(client)


@pytest.mark.clause("C18")
@pytest.mark.case("B3")
@pytest.mark.parametrize("fails", [False, True])
async def test_what_a_thread_came_to_just_before_its_call_was_cancelled_is_the_calls_outcome(
    lab: Blocking, fails: bool
) -> None:
    leaving = threading.Event()

    @lab.tools.tool()
    def finish() -> str:
        anyio.from_thread.run_sync(began.set)
        lab.gate("finish")()
        leaving.set()
        if fails:
            raise ValueError("came to nothing")
        return "came to this"

    async def cancelled_as_the_thread_ends() -> ToolCallOutcome:
        settings = ExecutionSettings(Places(1, anyio.current_time), now=anyio.current_time)
        batch = settings.new_batch([request("finish")], build_catalogue([lab.tools.tools]))
        async with anyio.create_task_group() as group:
            group.start_soon(Scheduler(batch, settings, variables=copy_context(), context={}).run)
            await began.wait()
            lab.gate("finish").open.set()
            leaving.wait(10)
            threading.Event().wait(
                0.01
            )  # the loop must not see the end of the thread before the cancellation
            group.cancel_scope.cancel()
        await wait_for_abandoned_threads()
        assert settings.places.slots.free == 1
        return batch.outcomes_so_far()[0]

    for _ in range(100):
        began, lab.gates = anyio.Event(), {}
        leaving.clear()
        outcome = await cancelled_as_the_thread_ends()
        if "cancelled" not in str(outcome):
            break
    assert "came to nothing" in str(outcome) if fails else "came to this" in str(outcome)


async def test_a_stop_iteration_out_of_a_sync_tool_is_that_calls_error(lab: Blocking) -> None:
    @lab.tools.tool()
    def exhausted() -> None:
        next(iter(()))

    outcomes = await lab.run(request("exhausted"), request("work", tag="beside"))
    assert results(outcomes) == ["[failed]", "beside"]


async def test_an_awaitable_that_a_sync_tool_returns_is_awaited_in_the_loop(lab: Blocking) -> None:
    loop_thread = threading.get_ident()

    async def finish() -> str:
        await anyio.sleep(1)
        assert threading.get_ident() == loop_thread
        return "awaited"

    @lab.tools.tool()
    def begin() -> Awaitable[str]:
        assert threading.get_ident() != loop_thread
        return finish()

    assert results(await lab.run(request("begin"))) == ["awaited"]
    assert anyio.current_time() == 1


@pytest.mark.clause("C44", "C76")
@pytest.mark.real_time
async def test_a_sync_callback_that_overruns_holds_the_slot_and_the_tool_does_not_run(lab: Blocking) -> None:
    ran: list[str] = []

    @lab.tools.tool(server_populated=["user"])
    async def greet(user: str) -> None:
        ran.append(user)

    def find_user() -> str:
        lab.gate("callback")()
        return "u1"

    registry = ParameterRegistry({"user": find_user})
    async with lab.client(max_concurrency=1, tool_timeout=0.1, param_registry=registry) as client:
        [outcome] = await client.run_tool_calls([request("greet")])
        assert error_of(outcome).error == "Tool 'greet' timed out after 0.1s; the tool itself had not started"
        assert (client.stats().abandoned, client.stats().free_slots) == ({"greet": 1}, 0)
        await lab.release()
        assert_idle(client)
    assert ran == []
