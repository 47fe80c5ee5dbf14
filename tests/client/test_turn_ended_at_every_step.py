"""One turn, ended in every way at every scheduling step; what it leaves is checked each time."""

import asyncio
import gc
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from seqoria_runtime._execution.streams.stream import Stream
from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.client._live_turns import _live
from seqoria_runtime.models import (
    ToolCallRequest,
    ToolCallRequestList,
    ToolCallResult,
    ToolMessages,
    UserMessage,
)
from seqoria_runtime.models.errors import ClientClosedError
from seqoria_runtime.providers import ModelRequest
from seqoria_runtime.testing import (
    Reply,
    ScriptedProvider,
    call,
    calls,
    says,
    wait_for_abandoned_threads,
)
from tests.support.histories import check_history
from tests.support.steps import Steps, every_step, run_stepped
from tests.support.tools import Deeds, recording_toolbox
from tests.support.truth import check_truth

NEVER = 10**9
LIMIT = 3
BLOCKING = {"blocking", "blocking too"}


def model(request: ModelRequest) -> Reply:
    """Two rounds of tools and an answer to the question "q", an answer to any other."""
    last = request.messages[-1]
    asked = max(place for place, one in enumerate(request.messages) if isinstance(one, UserMessage))
    if request.messages[asked].content != "q":  # type: ignore[union-attr]
        return says("again")
    if last is request.messages[asked]:
        return calls(
            call("work", tag="a", seconds=0.5),
            call("work", tag="b", seconds=0),
            call("after", tag="c", seconds=0.25),
            call("block", tag="blocking"),
            call("lingers", tag="slow", seconds=1),
            call("fail", tag="d", seconds=0),
            call("nobody", tag="unknown"),
            text="let me see",
            chunks=2,
        )
    if not any(isinstance(one, ToolCallResult) and one.result == "e done" for one in request.messages):
        return calls(call("work", tag="e", seconds=0.25), call("block", tag="blocking too"), delay=0.125)
    return says("all done", chunks=4, every=0.125)


@dataclass
class Run:
    """One run of the turn: what its tools did, what its consumer saw and what is in its history."""

    steps: Steps
    deeds: Deeds = field(default_factory=Deeds)
    history: list[Any] = field(default_factory=list)
    seen: list[Any] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.model = ScriptedProvider(model)
        self.client = AsyncAIClient(
            [self.model],
            local_toolbox=recording_toolbox(self.deeds),
            system_prompt="",
            max_concurrency=LIMIT,
        )

    def turn(self) -> Stream[Any]:
        self.steps.counting = True
        return self.client.stream_chat("q", history=self.history, tool_events=True)

    async def read(self, stream: Stream[Any]) -> None:
        async for event in stream:
            self.seen.append(event)
            await anyio.lowlevel.checkpoint()
        self.ended.append("by itself")

    def over(self, tasks: set[int]) -> None:
        """Nothing is left of the turn at the moment when whoever ended it goes on."""
        self.steps.counting = False
        assert {task.id for task in anyio.get_running_tasks()} <= tasks
        assert self.model.open_streams == 0
        assert (self.client.stats().running, self.client.stats().waiting) == ({}, {})
        assert self.deeds.cleaned == [tag for tag in self.deeds.begun if tag == "slow"]
        assert not _live

    def check(self) -> None:
        """The history is one to go on with, and says what the tools did."""
        check_truth(self.history, self.deeds, in_threads=BLOCKING)
        for event in self.seen:
            if isinstance(event, ToolMessages):
                assert all(any(message is one for one in self.history) for message in event)

    async def go_on(self) -> None:
        """The same list takes another turn, and every slot is back."""
        await wait_for_abandoned_threads()
        assert self.client.stats().free_slots == LIMIT
        async with self.client.chat("again", history=self.history) as turn:
            events: list[Any] = [event async for event in turn]
        assert [event.content for event in events] == ["again"]
        check_history(self.history)


def task_ids() -> set[int]:
    return {task.id for task in anyio.get_running_tasks()}


async def end_by_scope(run: Run) -> None:
    async with run.client:
        tasks = task_ids()
        with anyio.CancelScope() as scope:
            run.steps.action = scope.cancel
            async with run.turn() as turn:
                await run.read(turn)
        run.over(tasks)
        await run.go_on()


async def end_by_native_cancel(run: Run) -> None:
    async def consume() -> None:
        async with run.turn() as turn:
            await run.read(turn)

    async with run.client:
        tasks = task_ids()
        task = asyncio.ensure_future(consume())
        run.steps.action = task.cancel
        run.steps.counting = True
        with suppress(asyncio.CancelledError):
            await task
        run.over(tasks)
        await run.go_on()


async def end_by_another_task(run: Run) -> None:
    close = anyio.Event()
    run.steps.action = close.set

    async def closer(stream: Stream[Any]) -> None:
        await close.wait()
        await stream.aclose()
        run.over(tasks)

    async with run.client:
        async with anyio.create_task_group() as group:
            turn = run.turn()
            group.start_soon(closer, turn)
            tasks = task_ids()
            await run.read(turn)
            run.steps.counting = False
            if not run.steps.fired:
                group.cancel_scope.cancel()
        await run.go_on()


async def end_by_dropping(run: Run) -> None:
    async with run.client:
        tasks = task_ids()
        with anyio.CancelScope() as scope:
            run.steps.action = scope.cancel
            turn = run.turn()
            await run.read(turn)
        run.steps.counting = False
        await anyio.lowlevel.checkpoint()
        del turn
        await anyio.sleep(1)
        run.over(tasks)
        await run.go_on()


async def end_by_closing_the_client(run: Run) -> None:
    leave = anyio.Event()
    run.steps.action = leave.set

    async def consume() -> None:
        try:
            await run.read(run.turn())
        except ClientClosedError:
            run.ended.append("client closed")
        leave.set()

    async with anyio.create_task_group() as group:
        tasks = task_ids()
        async with run.client:
            group.start_soon(consume)
            consumer = task_ids() - tasks
            await leave.wait()
        run.over(tasks | consumer)
        run.check()
        await anyio.sleep(1)
    assert run.ended in (["by itself"], ["client closed"])
    async with run.client:
        await run.go_on()


async def resume(run: Run) -> None:
    """Not an end: one `anext` is cancelled, and the next one goes on."""
    async with run.client, run.turn() as turn:
        while not run.ended:
            with anyio.CancelScope() as scope:
                run.steps.action = scope.cancel
                try:
                    run.seen.append(await anext(turn))
                except StopAsyncIteration:
                    run.ended.append("by itself")
            await anyio.lowlevel.checkpoint()
        run.steps.counting = False


WAYS: dict[str, Callable[[Run], Any]] = {
    "outer scope": end_by_scope,
    "aclose in another task": end_by_another_task,
    "dropped": end_by_dropping,
    "client closed": end_by_closing_the_client,
}

CASES = [(way, backend) for way in WAYS for backend in ("asyncio", "trio")]


def ended_by(way: Callable[[Run], Any]) -> Callable[[Steps], Any]:
    async def main(steps: Steps) -> Run:
        run = Run(steps)
        await way(run)
        run.check()
        return run

    return main


@pytest.mark.clause("C18", "C31", "C80")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("form", ["llm_generate_once", "llm_stream_once"])
def test_wherever_a_single_step_is_cancelled_its_user_message_stays_only_if_it_was_answered(
    form: str, backend: str
) -> None:
    async def main(steps: Steps) -> bool:
        run = Run(steps)
        answered = False
        async with run.client:
            tasks = task_ids()
            with anyio.CancelScope() as scope:
                steps.action = scope.cancel
                steps.counting = True
                if form == "llm_generate_once":
                    await run.client.llm_generate_once(run.history, append_user_message="q")
                    answered = True
                else:
                    async with run.client.llm_stream_once(run.history, append_user_message="q") as stream:
                        async for event in stream:
                            answered = isinstance(event, ToolCallRequestList)
            run.over(tasks)
        assert [message.role for message in run.history] == ["user"] * answered
        return answered

    answers = [answered for _, answered in every_step(main, backend)]
    assert answers.count(False) >= 5


@pytest.mark.clause("C43", "C48")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("limit", [1, 2])
def test_wherever_batches_that_compete_for_slots_are_cancelled_nothing_else_comes_out(
    backend: str, limit: int
) -> None:
    async def main(steps: Steps) -> None:
        deeds = Deeds()
        tools = recording_toolbox(deeds)
        client = AsyncAIClient(
            [ScriptedProvider([])], local_toolbox=tools, system_prompt="", max_concurrency=limit
        )
        async with client:
            with anyio.CancelScope() as scope:
                steps.action = scope.cancel
                steps.counting = True
                async with anyio.create_task_group() as group:
                    for size in (1, 2, 1, 3):
                        group.start_soon(client.run_tool_calls, competing_batch(size))
            steps.counting = False
            assert (client.stats().running, client.stats().waiting) == ({}, {})
            await wait_for_abandoned_threads()
            assert client.stats().free_slots == limit

    for seed in range(3):
        for _ in every_step(main, backend, seed=seed):
            pass


def competing_batch(size: int) -> list[ToolCallRequest]:
    names = ["work", "block", "after"][:size]
    return [ToolCallRequest(id=name, name=name, arguments={"tag": name}) for name in names]


def shapes(events: list[Any]) -> list[Any]:
    return [
        [type(message).__name__ for message in event]
        if isinstance(event, ToolMessages)
        else type(event).__name__
        for event in events
    ]


@pytest.fixture(autouse=True)
def only_drops_are_warned_about() -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "this turn was dropped", ResourceWarning)
        yield
        gc.collect()


@pytest.mark.clause("C12")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_left_alone_the_turn_runs_as_it_should(backend: str) -> None:
    run, steps = run_stepped(ended_by(end_by_scope), backend, NEVER)
    assert run.ended == ["by itself"]
    assert steps.count > 40
    assert [shape for shape in shapes(run.seen) if shape != "ToolOutcome"] == [
        *["ChatChunk"] * 2,
        [
            *["ToolCallRequest", "ToolCallResult"] * 5,
            *["ToolCallRequest", "ToolCallError"] * 2,
        ],
        ["ToolCallRequest", "ToolCallResult"] * 2,
        *["ChatChunk"] * 4,
        "AssistantMessage",
    ]
    assert sorted(run.deeds.done) == ["a", "b", "blocking", "blocking too", "c", "d", "e", "slow"]


@pytest.mark.clause("C18", "C31", "C34", "C53")
@pytest.mark.case("A1", "B1", "B3")
@pytest.mark.parametrize(("way", "backend"), CASES)
def test_wherever_a_turn_is_ended_it_leaves_a_true_history_and_nothing_else(way: str, backend: str) -> None:
    lengths = set()
    for _, run in every_step(ended_by(WAYS[way]), backend):
        lengths.add(len(run.history))
    assert len(lengths) >= 3


@pytest.mark.clause("C18", "C31", "C53")
def test_wherever_a_consumer_is_natively_cancelled_it_leaves_the_same() -> None:
    lengths = {len(run.history) for _, run in every_step(ended_by(end_by_native_cancel), "asyncio")}
    assert len(lengths) >= 3


@pytest.mark.clause("C33")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_wherever_one_anext_is_cancelled_the_next_returns_what_would_have_come(backend: str) -> None:
    whole, _ = run_stepped(ended_by(resume), backend, NEVER)
    for at, run in every_step(ended_by(resume), backend):
        assert [shape for shape in shapes(run.seen) if shape != "ToolOutcome"] == [
            shape for shape in shapes(whole.seen) if shape != "ToolOutcome"
        ], at
        assert len(run.seen) == len(whole.seen)
        assert [message.role for message in run.history] == [message.role for message in whole.history]
