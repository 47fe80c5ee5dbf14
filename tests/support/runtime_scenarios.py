"""Scenarios of the runtime for the search through schedules and interruptions. Each checks what it leaves.

Each runs alone or with an `Interruption`, and then checks what must hold wherever it ends.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from contextvars import ContextVar
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.models import (
    AssistantMessage,
    ToolCallOutcome,
    ToolCallRequest,
    ToolCallResult,
    ToolMessages,
)
from seqoria_runtime.models.errors import ClientClosedError
from seqoria_runtime.testing import (
    Interruption,
    ScriptedProvider,
    call,
    calls,
    no_leaks,
    says,
    wait_for_abandoned_threads,
)
from seqoria_runtime.testing._trace.recorded import RecordedToolbox, record_batch, record_turn
from seqoria_runtime.testing.invariants import check_history, check_trace
from seqoria_runtime.testing.tools import ScriptedTool, ToolDag, blocks_thread, fails, ignores_cancel, sleeps
from seqoria_runtime.toolbox import LocalToolbox

from .tools import Deeds, recording_toolbox

Scenario = Callable[..., Awaitable[Any]]

LONG = 30
"""Seconds in which every thread of these scenarios has come to its end."""


class CurrentDeeds(Deeds):
    """The deeds of the current run. One toolbox serves all runs, since making one is slow."""

    current: ContextVar[Deeds] = ContextVar("deeds")

    def __getattribute__(self, name: str) -> Any:
        return getattr(CurrentDeeds.current.get(), name)


def begin() -> Deeds:
    """Start a run, and return its deeds."""
    deeds = Deeds()
    CurrentDeeds.current.set(deeds)
    return deeds


TOOLS = recording_toolbox(CurrentDeeds.__new__(CurrentDeeds))

GRAPH = ToolDag(
    ScriptedTool("a", sleeps(1)),
    ScriptedTool("b", sleeps(1)),
    ScriptedTool("c", sleeps(0.5).then(fails(ValueError("no"))), after=["a"]),
    ScriptedTool("d", sleeps(1), after=["a", "b"]),
    ScriptedTool("e", blocks_thread(1), after=["c"]),
    ScriptedTool("f", blocks_thread(0.5), after=["d"]),
).toolbox()

CHAIN = ToolDag(
    ScriptedTool("a", sleeps(1)), ScriptedTool("b", sleeps(0)), ScriptedTool("c", sleeps(1), after=["a"])
).toolbox()

OVERLONG = ToolDag(
    ScriptedTool("slow", blocks_thread(5)),
    ScriptedTool("quick", blocks_thread(0.5)),
    ScriptedTool("deaf", ignores_cancel(3)),
    ScriptedTool("late", sleeps(0.5), after=["quick"]),
).toolbox()

NESTED = ToolDag(ScriptedTool("leaf", sleeps(1)), ScriptedTool("in_thread", blocks_thread(1))).toolbox()
nesting: ContextVar[AsyncAIClient] = ContextVar("nesting")


async def nested(*names: str) -> str:
    outcomes = await nesting.get().run_tool_calls(requests(*names))
    return ", ".join(str(getattr(outcome, "result", outcome)) for outcome in outcomes)


@NESTED.tool()
async def middle() -> str:
    return await nested("leaf", "in_thread")


@NESTED.tool()
async def top() -> str:
    return await nested("middle", "leaf")


def client_of(tools: LocalToolbox, *replies: Any, **options: Any) -> tuple[AsyncAIClient, ScriptedProvider]:
    """A client and its model, which answers with `replies` and then always with "again"."""
    left = list(replies)
    model = ScriptedProvider(lambda request: left.pop(0) if left else says("again"))
    client = AsyncAIClient([model], local_toolbox=tools, **{"system_prompt": "", **options})
    return client, model


def requests(*names: str) -> list[ToolCallRequest]:
    return [ToolCallRequest(id=f"call-{number}", name=name) for number, name in enumerate(names, 1)]


def region(interruption: Interruption | None) -> AbstractAsyncContextManager[None]:
    return nullcontext() if interruption is None else interruption.region()


def fired(interruption: Interruption | None) -> bool:
    return interruption is not None and interruption.fired


def check_deeds(deeds: Deeds, history: list[Any]) -> None:
    """Check that the history says of each call what its tool did."""
    told: dict[str, ToolCallOutcome] = {
        request.arguments["tag"]: outcome
        for exchange in check_history(history)
        for response in exchange.responses
        for request, outcome in response.pairs
    }
    assert set(deeds.begun) <= set(told)
    for tag, outcome in told.items():
        if isinstance(outcome, ToolCallResult):
            assert tag in deeds.done
        else:
            assert "before it started" not in outcome.error or tag not in deeds.begun
    for tag in deeds.done:
        assert isinstance(told[tag], ToolCallResult) or tag.startswith("thread")


async def check_goes_on(client: AsyncAIClient, history: list[Any]) -> None:
    """Check that the list accepts another turn, with the model's next answer."""
    before = len(history)
    async with client.chat("go on", history=history) as turn:
        events: list[Any] = [event async for event in turn]
    assert isinstance(events[-1], AssistantMessage)
    assert len(history) > before
    check_history(history)


async def dag_under_a_cap(interruption: Interruption | None = None) -> None:
    """Six calls in a graph, at most two at a time; one fails, and what depends only on it is skipped."""
    tools = RecordedToolbox(GRAPH)
    client, _ = client_of(tools, max_concurrency=2)
    seen: list[Any] = []
    async with client:
        with no_leaks(client):
            async with region(interruption):
                seen = await record_batch(client, tools, requests("f", "e", "d", "c", "b", "a"))
            await anyio.sleep(LONG)
        check_trace(tools.trace(client))
    if not fired(interruption):
        kinds = {request.name: type(outcome).__name__ for request, outcome in seen}
        assert kinds == dict.fromkeys("abdf", "ToolCallResult") | dict.fromkeys("ce", "ToolCallError")


async def batch_in_the_callers_task(interruption: Interruption | None = None) -> None:
    """The same graph without a stream."""
    tools = RecordedToolbox(GRAPH)
    client, _ = client_of(tools, max_concurrency=2)
    outcomes: list[ToolCallOutcome] = []
    async with client:
        with no_leaks(client):
            async with region(interruption):
                outcomes = await client.run_tool_calls(requests("f", "e", "d", "c", "b", "a"))
            assert client.stats().running == {}
            await anyio.sleep(LONG)
    if outcomes:
        kinds = [getattr(outcome, "kind", "result") for outcome in outcomes]
        assert kinds == ["result", "skipped", "result", "failed", "result", "result"]


async def streaming_turn(interruption: Interruption | None = None) -> None:
    """Two rounds and an answer, with deltas and tool events."""
    tools = RecordedToolbox(CHAIN)
    client, model = client_of(
        tools,
        calls(call("a"), call("b"), call("c"), text="let me see", chunks=3),
        calls(call("b"), call("a"), delay=1),
        says("all done", chunks=4, every=0.5),
        max_concurrency=2,
    )
    history: list[Any] = []
    events: list[Any] = []
    async with client:
        with no_leaks(client, providers=[model]):
            async with region(interruption):
                events = await record_turn(client, tools, "q", history=history)
        check_trace(tools.trace(client))
        check_history(history)
        if not fired(interruption):
            assert [event.content for event in events[-1:]] == ["all done"]
            assert [len(event) for event in events if isinstance(event, ToolMessages)] == [6, 4]
            assert len(history) == 13
        await check_goes_on(client, history)


async def nested_calls(interruption: Interruption | None = None) -> None:
    """Tools that call tools, at a limit that would deadlock without lending."""
    client, _ = client_of(NESTED, max_concurrency=2)
    nesting.set(client)
    outcomes: list[ToolCallOutcome] = []
    async with client:
        with no_leaks(client):
            async with region(interruption):
                outcomes = await client.run_tool_calls(requests("top", "middle", "leaf"))
            assert client.stats().running == client.stats().waiting == {}
            await anyio.sleep(LONG)
    assert outcomes or fired(interruption)
    assert all(isinstance(outcome, ToolCallResult) for outcome in outcomes), outcomes


async def closed_by_another_task(interruption: Interruption | None = None) -> None:
    """A turn that another task closes near the end of its first round, or anywhere ("aclose")."""
    deeds, history = begin(), list[Any]()
    client, model = client_of(
        TOOLS,
        calls(
            call("work", tag="a", seconds=1),
            call("lingers", tag="b", seconds=1),
            call("block", tag="thread"),
        ),
        says("done", chunks=2),
        max_concurrency=2,
    )

    async def close() -> None:
        await turn.aclose()
        assert deeds.cleaned == [tag for tag in deeds.begun if tag == "b"]
        assert client.stats().running == {}

    async def close_after(seconds: float) -> None:
        await anyio.sleep(seconds)
        await close()

    async with client:
        with no_leaks(client, providers=[model]):
            turn = client.stream_chat("q", history=history, tool_events=True)
            async with anyio.create_task_group() as group:
                if interruption is None:
                    group.start_soon(close_after, 1)
                else:
                    interruption.on(aclose=close)
                async with region(interruption), turn:
                    async for _ in turn:
                        await checkpoint()
            await wait_for_abandoned_threads()
        check_deeds(deeds, history)
        await check_goes_on(client, history)


async def abandoned_threads(interruption: Interruption | None = None) -> None:
    """Threads that outlive their calls' timeout hold the slots as long as they run."""
    tools = RecordedToolbox(OVERLONG)
    client, _ = client_of(tools, max_concurrency=2, tool_timeout=1)
    seen: list[Any] = []
    async with client:
        with no_leaks(client):
            async with region(interruption):
                seen = await record_batch(client, tools, requests("slow", "deaf", "quick", "late"))
            assert client.stats().free_slots + sum(client.stats().abandoned.values()) == 2
            await anyio.sleep(LONG)
        check_trace(tools.trace(client))
    if not fired(interruption):
        kinds = {request.name: getattr(outcome, "kind", "result") for request, outcome in seen}
        assert kinds == {"slow": "timed_out", "deaf": "timed_out", "quick": "result", "late": "result"}


async def two_turns_share_slots(interruption: Interruption | None = None) -> None:
    """Three conversations on one client with one slot; one of them is given up half-way, or anywhere."""
    deeds = begin()
    histories: dict[str, list[Any]] = {"a": [], "b": [], "c": []}

    def reply(request: Any) -> Any:
        asked = next(message.content for message in request.messages if message.role == "user")
        rounds = sum(message.role == "tool_result" for message in request.messages)
        if rounds < 4:
            return calls(call("work", tag=f"{asked}{rounds}"), call("after", tag=f"{asked}{rounds}x"))
        return says(asked)

    model = ScriptedProvider(reply)
    client = AsyncAIClient([model], local_toolbox=TOOLS, system_prompt="", max_concurrency=1)

    async def talk(name: str) -> None:
        async with client.chat(name, history=histories[name]) as turn:
            async for _ in turn:
                assert sum(client.stats().running.values()) <= 1

    async with client:
        with no_leaks(client, providers=[model]):
            async with anyio.create_task_group() as group:
                group.start_soon(talk, "a")
                group.start_soon(talk, "b")
                with anyio.move_on_after(1.5 if interruption is None else 100):
                    async with region(interruption):
                        await talk("c")
    for name, history in histories.items():
        check_history(history)
        assert name == "c" or history[-1].content == name
    assert sorted(deeds.done) == sorted(set(deeds.done))


async def client_closes_under_streams(interruption: Interruption | None = None) -> None:
    """A client that closes while a turn, a batch's stream and a batch run in other tasks ("leave")."""
    deeds, history = begin(), list[Any]()
    ended: list[str] = []
    client, model = client_of(
        TOOLS,
        calls(call("work", tag="a", seconds=1), call("lingers", tag="b", seconds=3)),
        max_concurrency=3,
    )

    async def turn() -> None:
        with suppress(ClientClosedError):
            async for _ in client.stream_chat("q", history=history, tool_events=True):
                await checkpoint()
        ended.append("turn")

    async def stream() -> None:
        batch = [ToolCallRequest(id="1", name="work", arguments={"tag": "c"})]
        with suppress(ClientClosedError):
            async for _ in client.run_call_stream(batch * 2):
                pass
        ended.append("stream")

    async def batch() -> None:
        with suppress(ClientClosedError):
            await client.run_tool_calls([ToolCallRequest(id="1", name="block", arguments={"tag": "d"})] * 2)
        ended.append("batch")

    leave = anyio.Event()
    with no_leaks(client, providers=[model]):
        async with anyio.create_task_group() as group:
            async with client:
                if interruption is not None:
                    interruption.on(leave=leave.set)
                started = [anyio.Event() for _ in range(3)]
                for begun, task in zip(started, (turn, stream, batch), strict=True):
                    group.start_soon(_after_saying_so, begun, task)
                for begun in started:
                    await begun.wait()
                async with region(interruption):
                    with anyio.move_on_after(1 if interruption is None else 5):
                        await leave.wait()
            assert deeds.cleaned == [tag for tag in deeds.begun if tag == "b"]
            await wait_for_abandoned_threads()
    assert sorted(ended) == ["batch", "stream", "turn"]
    check_history(history)


async def _after_saying_so(begun: anyio.Event, task: Callable[[], Awaitable[None]]) -> None:
    begun.set()
    await task()


async def next_turn_while_one_closes(interruption: Interruption | None = None) -> None:
    """A second turn on the list of a closing one waits, and then finds a history that it can continue."""
    deeds, history = begin(), list[Any]()
    client, model = client_of(
        TOOLS, calls(call("lingers", tag="a", seconds=5), call("work", tag="b", seconds=0))
    )

    async with client:
        with no_leaks(client, providers=[model]):
            async with anyio.create_task_group() as group:
                first = client.chat("q", history=history)
                closing = anyio.Event()

                async def read() -> None:
                    async for _ in first:
                        pass

                async def close() -> None:
                    closing.set()
                    await first.aclose()

                group.start_soon(read)
                await anyio.sleep(1)
                async with region(interruption):
                    group.start_soon(close)
                    await closing.wait()
                    async with client.chat("again", history=history) as second:
                        events: list[Any] = [event async for event in second]
                    assert [event.content for event in events] == ["again"]
        check_deeds(deeds, history)
        await check_goes_on(client, history)


async def resumed_anext(interruption: Interruption | None = None) -> None:
    """A consumer with a cancelled `anext` ("anext") gets the same event from the next one."""
    deeds, history = begin(), list[Any]()
    client, model = client_of(
        TOOLS,
        calls(
            call("work", tag="a", seconds=1), call("work", tag="b", seconds=0), text="let me see", chunks=2
        ),
        says("all done", chunks=3, every=0.5),
    )
    events: list[Any] = []
    async with client:
        with no_leaks(client, providers=[model]):
            async with client.stream_chat("q", history=history) as turn, region(interruption):
                while True:
                    with anyio.CancelScope() as scope:
                        if interruption is not None:
                            interruption.on(anext=scope.cancel)
                        try:
                            events.append(await anext(turn))
                        except StopAsyncIteration:
                            break
                    await checkpoint()
        check_deeds(deeds, history)
    if interruption is None or interruption.form in {None, "anext"}:
        kinds = [type(event).__name__ for event in events]
        chunks = ["ChatChunk"]
        assert kinds == [*chunks * 2, "ToolMessages", *chunks * 3, "AssistantMessage"]
        assert len(history) == 7


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
        dag_under_a_cap,
        batch_in_the_callers_task,
        streaming_turn,
        nested_calls,
        closed_by_another_task,
        abandoned_threads,
        two_turns_share_slots,
        client_closes_under_streams,
        next_turn_while_one_closes,
        resumed_anext,
    )
}

ACTIONS: dict[str, list[str]] = {
    "closed_by_another_task": ["aclose"],
    "client_closes_under_streams": ["leave"],
    "resumed_anext": ["anext"],
}
"""The actions, besides cancellations, that can end the scenarios."""
