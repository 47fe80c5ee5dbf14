"""The tasks in which calls run, and the deadlines that they find there."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest
import trio

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.testing import ScriptedProvider, call, calls, says
from tests.support.batches import Lab, assert_idle, request, results

WAYS = ["run_tool_calls", "run_call_stream", "chat", "stream_chat"]


def task_id() -> int:
    return anyio.get_current_task().id


class Talking(Lab):
    """A lab whose client can be made to call the tool `name` in every way, and notes who called."""

    own: AsyncAIClient

    async def call(self, way: str, name: str, count: int = 1) -> None:
        if way == "run_tool_calls":
            await self.own.run_tool_calls([request(name) for _ in range(count)])
        elif way == "run_call_stream":
            async with self.own.run_call_stream([request(name) for _ in range(count)]) as stream:
                async for _ in stream:
                    pass
        else:
            chat = self.own.chat if way == "chat" else self.own.stream_chat
            async with chat(f"{name} {count}", history=[]) as turn:
                async for _ in turn:
                    pass

    def answer(self, asked: Any) -> Any:
        last = asked.messages[-1]
        if last.role != "user":
            return says("well")
        name, count = last.content.split()
        return calls(*[call(name) for _ in range(int(count))])

    async def within(self, work: Callable[[], Awaitable[None]], **options: Any) -> None:
        model = ScriptedProvider([self.answer] * 100)
        self.own = AsyncAIClient([model], local_toolbox=self.tools, system_prompt="", **options)
        async with self.own:
            await work()
            assert_idle(self.own)


@pytest.mark.clause("C83")
@pytest.mark.parametrize("limit", [1, 16])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("inner", WAYS)
@pytest.mark.parametrize("outer", WAYS)
async def test_no_call_runs_in_the_task_that_asked_for_it(
    outer: str, inner: str, count: int, limit: int
) -> None:
    lab = Talking()
    callers: list[int] = []
    ran: list[int] = []

    @lab.tools.tool()
    async def nested() -> None:
        assert task_id() not in callers
        ran.append(task_id())
        await anyio.sleep(1)

    @lab.tools.tool()
    async def first() -> None:
        assert task_id() not in callers
        callers.append(task_id())
        await lab.call(inner, "nested", count)
        callers.remove(task_id())

    async def work() -> None:
        callers.append(task_id())
        await lab.call(outer, "first", count)

    await lab.within(work, max_concurrency=limit)
    assert len(ran) == count * count


@pytest.mark.real_time  # virtual time on trio does not see threads under a limiter of the application's
@pytest.mark.clause("C83")
@pytest.mark.parametrize("kind", ["anyio", "trio"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_limiter_that_the_caller_holds_can_be_used_by_the_calls(
    way: str, kind: str, anyio_backend: tuple[str, Any]
) -> None:
    if kind == "trio" and anyio_backend[0] != "trio":
        pytest.skip("trio's own limiter needs trio")
    lab, held = Talking(), []
    limiter: Any = anyio.CapacityLimiter(10) if kind == "anyio" else trio.CapacityLimiter(10)

    @lab.tools.tool()
    async def first() -> None:
        async with limiter:
            await lab.call(way, "second")

    @lab.tools.tool()
    async def second() -> None:
        async with limiter:
            held.append(limiter.borrowed_tokens)
        if kind == "anyio":
            await anyio.to_thread.run_sync(held.append, 3, limiter=limiter)

    async def work() -> None:
        async with limiter:
            await lab.call(way, "first")

    await lab.within(work)
    assert held == ([3, 3] if kind == "anyio" else [3])
    assert limiter.borrowed_tokens == 0


class Sessions:
    """What libraries keep for the current task: here a list of what has been done and not committed."""

    def __init__(self) -> None:
        self.of: dict[int, list[str]] = {}
        self.stored: list[str] = []

    def add(self, row: str) -> None:
        self.of.setdefault(task_id(), []).append(row)

    def pending(self) -> list[str]:
        return list(self.of.get(task_id(), []))

    def commit(self) -> None:
        self.stored += self.of.pop(task_id(), [])

    def remove(self) -> None:
        self.of.pop(task_id(), None)


@pytest.mark.clause("C83")
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("way", WAYS)
async def test_a_session_scoped_to_the_task_is_not_shared_with_the_calls(way: str, nested: bool) -> None:
    lab, sessions, seen = Talking(), Sessions(), []

    @lab.tools.tool()
    async def count_rows() -> None:
        try:
            seen.append(sessions.pending())
        finally:
            sessions.remove()  # as such libraries ask for at the end of each unit of work

    async def handle() -> None:
        sessions.add("row")
        await lab.call(way, "count_rows")
        sessions.commit()

    lab.tools.add(handle)

    async def work() -> None:
        await (lab.call(way, "handle") if nested else handle())

    await lab.within(work)
    assert (seen, sessions.stored) == ([[]], ["row"])


# Deadlines


class Looking(Talking):
    """A lab whose tools note how far off the deadline is that each of their steps finds."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[float] = []

        @self.tools.tool(timeout=5)
        async def at_once() -> None:
            self.look()

        @self.tools.tool(timeout=7)
        async def after_a_while() -> None:
            self.look()
            await anyio.sleep(1)
            self.look(passed=1)

        @self.tools.tool(timeout=6, server_populated=["user"])
        async def with_hidden(user: str) -> None:
            self.look(passed=1)

        @self.tools.tool(timeout=9)
        def in_thread() -> Awaitable[None]:
            return self.look_later()

        async def without_end() -> None:
            self.look()

        self.tools.add(without_end)

    def look(self, passed: float = 0) -> None:
        self.found.append(round(anyio.current_effective_deadline() - anyio.current_time() + passed, 6))

    async def look_later(self) -> None:
        self.look()

    async def find_user(self) -> str:
        self.look()
        await anyio.sleep(1)
        self.look(passed=1)
        return "u1"


EXPECTED = {
    "at_once": [5.0],
    "after_a_while": [7.0, 7.0],
    "with_hidden": [6.0, 6.0, 6.0],
    "in_thread": [9.0],
    "without_end": [float("inf")],
}


@pytest.mark.clause("C44")
@pytest.mark.parametrize("limit", [1, 16])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", EXPECTED)
async def test_every_step_of_a_call_finds_the_deadline_of_its_own_call(
    name: str, way: str, limit: int
) -> None:
    """In the first call of a worker and in later ones, which find none of an earlier call."""
    lab = Looking()

    async def work() -> None:
        for other in EXPECTED:
            for order in ([other, name], [name, other]):
                lab.found.clear()
                await lab.own.run_tool_calls([request(tool) for tool in order])
                assert sorted(lab.found) == sorted(EXPECTED[name] + EXPECTED[other])
        lab.found.clear()
        await lab.call(way, name, 3)
        assert lab.found == sorted(EXPECTED[name] * 3)

    await lab.within(work, max_concurrency=limit, param_registry={"user": lab.find_user})


@pytest.mark.clause("C44")
@pytest.mark.parametrize("limit", [1, 16])
@pytest.mark.parametrize("timeout", [3, 50, None])
async def test_of_nested_calls_the_nearest_deadline_counts(timeout: float | None, limit: int) -> None:
    lab = Looking()

    @lab.tools.tool(timeout=timeout)
    async def outer() -> None:
        await anyio.sleep(1)
        await lab.own.run_tool_calls([request("at_once"), request("without_end"), request("at_once")])

    async def work() -> None:
        await lab.own.run_tool_calls([request("outer"), request("at_once")])

    await lab.within(work, max_concurrency=limit)
    left = float("inf") if timeout is None else timeout - 1
    assert sorted(lab.found) == sorted([5.0, min(5.0, left), left, min(5.0, left)])


@pytest.mark.clause("C44")
async def test_a_call_that_ends_in_time_leaves_no_deadline_to_the_next_one_of_its_worker() -> None:
    lab = Looking()

    async def work() -> None:
        batch = [request(name) for name in ["at_once", "without_end", "after_a_while", "without_end"]]
        assert results(await lab.own.run_tool_calls(batch)) == ["null"] * 4

    await lab.within(work, max_concurrency=1)
    assert lab.found == [5.0, float("inf"), 7.0, 7.0, float("inf")]
