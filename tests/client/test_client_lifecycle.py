import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import pytest

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.client._root import _entered
from seqoria_runtime.models import AssistantMessage, ToolCallRequest, ToolCallResult, UserMessage
from seqoria_runtime.models.errors import CallEndedError, ClientClosedError, ClientStateError
from seqoria_runtime.providers import AsyncBaseProvider, ModelRequest, ProviderEvent
from seqoria_runtime.testing import Reply, ScriptedProvider, call, calls, says, stalls
from seqoria_runtime.toolbox import LocalToolbox
from tests.support.tools import Deeds, recording_toolbox

ONE_CALL = [ToolCallRequest(id="c1", name="work", arguments={"tag": "a", "seconds": 5})]


def client_of(*script: Reply, tools: LocalToolbox | None = None, **options: Any) -> AsyncAIClient:
    provider = ScriptedProvider(script) if script else ScriptedProvider(lambda _: says("hello"))
    return AsyncAIClient([provider], local_toolbox=tools, system_prompt="", **options)


async def answer(client: AsyncAIClient, history: list[Any] | None = None) -> Any:
    """The last event of a turn."""
    async with client.chat("q", history=[] if history is None else history) as turn:
        return [event async for event in turn][-1]


# Open and closed


USES: dict[str, Callable[[AsyncAIClient], Any]] = {
    "chat": lambda client: client.chat("q", history=[]),
    "stream_chat": lambda client: client.stream_chat("q", history=[]),
    "llm_generate_once": lambda client: client.llm_generate_once([]),
    "llm_stream_once": lambda client: client.llm_stream_once([]),
    "run_tool_calls": lambda client: client.run_tool_calls(ONE_CALL),
    "run_call_stream": lambda client: client.run_call_stream(ONE_CALL),
    "call_mcp_tool": lambda client: client.call_mcp_tool("work", {"tag": "a"}),
    "refresh_tools": lambda client: client.refresh_tools(),
}

WRONG_USES: dict[str, Callable[[AsyncAIClient], Any]] = {
    "chat max_turns": lambda client: client.chat("q", history=[], max_turns=0),
    "chat history": lambda client: client.chat("q"),
    "chat query": lambda client: client.chat(3, history=[]),  # type: ignore[arg-type]
    "chat context": lambda client: client.chat("q", history=[], context=3),  # type: ignore[arg-type]
    "stream_chat tool_events": lambda client: client.stream_chat("q", history=[], tool_events=3),  # type: ignore[arg-type]
    "stream_chat context": lambda client: client.stream_chat("q", history=[], context=[1]),  # type: ignore[arg-type]
    "llm_generate_once": lambda client: client.llm_generate_once(()),  # type: ignore[arg-type]
    "llm_stream_once": lambda client: client.llm_stream_once([], use_tools=3),  # type: ignore[arg-type]
    "run_tool_calls": lambda client: client.run_tool_calls([3]),  # type: ignore[list-item]
    "run_tool_calls context": lambda client: client.run_tool_calls([], context=3),  # type: ignore[arg-type]
    "run_call_stream": lambda client: client.run_call_stream("add"),  # type: ignore[arg-type]
    "call_mcp_tool": lambda client: client.call_mcp_tool(""),
    "call_mcp_tool arguments": lambda client: client.call_mcp_tool("add", [1]),  # type: ignore[arg-type]
}


async def use(how: Callable[[AsyncAIClient], Any], client: AsyncAIClient) -> None:
    result = how(client)
    if isinstance(result, Awaitable):
        await result


@pytest.mark.clause("C3")
@pytest.mark.parametrize("how", USES.values(), ids=USES)
async def test_a_client_that_is_not_open_says_so(how: Callable[[AsyncAIClient], Any]) -> None:
    client = client_of()
    with pytest.raises(ClientStateError, match="'async with client:'"):
        await use(how, client)
    async with client:
        pass
    with pytest.raises(ClientStateError, match="'async with client:'"):
        await use(how, client)


@pytest.mark.clause("C3")
@pytest.mark.parametrize("how", WRONG_USES.values(), ids=WRONG_USES)
async def test_a_wrong_argument_is_reported_before_a_client_that_is_not_open(
    how: Callable[[AsyncAIClient], Any],
) -> None:
    with pytest.raises((TypeError, ValueError)):
        await use(how, client_of())


async def test_leaving_a_client_that_is_not_open_is_an_error() -> None:
    with pytest.raises(ClientStateError, match="nothing to leave"):
        await client_of().__aexit__(None, None, None)


@pytest.mark.clause("C3")
async def test_a_client_is_entered_once_at_a_time_and_may_be_entered_again() -> None:
    client = client_of()
    for _ in range(3):
        async with client:
            with pytest.raises(ClientStateError, match="open already"):
                await client.__aenter__()
            assert (await answer(client)).content == "hello"


@pytest.mark.clause("C3", "C6")
def test_a_client_may_be_entered_again_in_another_event_loop() -> None:
    client = client_of(tools=recording_toolbox(Deeds()))

    async def main() -> Any:
        async with client:
            [outcome] = await client.run_tool_calls([
                ToolCallRequest(id="c", name="block", arguments={"tag": "a"})
            ])
            return outcome.result if isinstance(outcome, ToolCallResult) else None

    for backend in ("asyncio", "trio", "asyncio"):
        assert anyio.run(main, backend=backend) == "a done"


@pytest.mark.clause("C3")
async def test_the_tools_are_listed_only_while_the_client_is_open() -> None:
    client = client_of(tools=recording_toolbox(Deeds()))
    assert (client.list_tools(), client.tools_enabled()) == ([], False)
    async with client:
        assert len(client.list_tools()) == 5
        assert client.tools_enabled()
    assert (client.list_tools(), client.tools_enabled()) == ([], False)


async def test_a_client_without_tools_warns_that_it_has_none(caplog: pytest.LogCaptureFixture) -> None:
    async with client_of():
        pass
    assert "LLM-only" in caplog.text
    caplog.clear()
    async with client_of(tools=recording_toolbox(Deeds())):
        pass
    assert not caplog.records


class Unreadable(LocalToolbox):
    """A toolbox that cannot be read until it is mended."""

    broken = True

    @property
    def tools(self) -> Any:
        if self.broken:
            raise OSError("no tools today")
        return ()


@pytest.mark.clause("C3")
async def test_what_was_opened_is_closed_again_if_entering_fails_half_way() -> None:
    toolbox = Unreadable()
    client = client_of(tools=toolbox, refresh_interval=1.0)
    with pytest.raises(OSError, match="no tools today"):
        await client.__aenter__()
    assert not _entered
    with pytest.raises(ClientStateError, match="not open"):
        client.chat("q", history=[])
    toolbox.broken = False
    async with client:
        assert (await answer(client)).content == "hello"


# Who may leave it, and when


@pytest.mark.clause("C3")
async def test_another_task_cannot_leave_the_client_and_breaks_nothing() -> None:
    errors: list[ClientStateError] = []

    async def leave() -> None:
        with pytest.raises(ClientStateError, match="by the task that entered it") as caught:
            await client.__aexit__(None, None, None)
        errors.append(caught.value)

    async with client_of() as client, anyio.create_task_group() as group:
        group.start_soon(leave)
        await anyio.sleep(1)
        assert errors
        assert (await answer(client)).content == "hello"


@pytest.mark.clause("C3")
async def test_clients_nest_and_one_that_is_left_too_early_says_so_and_stays_open() -> None:
    outer, inner = client_of(), client_of()
    async with outer, inner:
        with pytest.raises(ClientStateError, match="reverse order"):
            await outer.__aexit__(None, None, None)
        assert (await answer(outer)).content == "hello"
        assert (await answer(inner)).content == "hello"
    assert not _entered


@pytest.mark.clause("C3")
async def test_clients_of_different_tasks_are_left_in_any_order() -> None:
    first_left = anyio.Event()
    log: list[str] = []

    async def serve(name: str, seconds: float) -> None:
        async with client_of() as client:
            await anyio.sleep(seconds)
            await answer(client)
        log.append(name)
        first_left.set()

    async with anyio.create_task_group() as group:
        group.start_soon(serve, "entered first", 1)
        await anyio.sleep(0.5)
        group.start_soon(serve, "entered second", 2)
        await first_left.wait()
        assert log == ["entered first"]


# What leaving does


class Own(Exception):
    """An application's exception."""


class Running:
    """A client, and consumers of it that run next to its body; each notes how it ended."""

    def __init__(self, client: AsyncAIClient) -> None:
        self.client = client
        self.ends: list[Any] = []

    async def consume(self, work: Callable[[AsyncAIClient], Awaitable[Any]]) -> None:
        try:
            self.ends.append(await work(self.client))
        except Exception as error:
            self.ends.append(error)


async def read(stream: Any) -> list[Any]:
    return [event async for event in stream]


CONSUMERS: dict[str, Callable[[AsyncAIClient], Awaitable[Any]]] = {
    "chat": lambda client: read(client.chat("q", history=[])),
    "stream_chat": lambda client: read(client.stream_chat("q", history=[])),
    "llm_stream_once": lambda client: read(client.llm_stream_once([UserMessage(content="q")])),
    "llm_generate_once": lambda client: client.llm_generate_once([UserMessage(content="q")]),
    "run_call_stream": lambda client: read(client.run_call_stream(ONE_CALL)),
    "run_tool_calls, one call": lambda client: client.run_tool_calls(ONE_CALL),
    "run_tool_calls, two calls": lambda client: client.run_tool_calls(ONE_CALL * 2),
    "call_mcp_tool": lambda client: client.call_mcp_tool("work", {"tag": "a", "seconds": 5}),
}


@pytest.mark.clause("C3")
@pytest.mark.parametrize("work", CONSUMERS.values(), ids=CONSUMERS)
async def test_a_consumer_gets_an_error_when_its_client_closes(
    work: Callable[[AsyncAIClient], Awaitable[Any]],
) -> None:
    deeds = Deeds()
    running = Running(client_of(stalls(), tools=recording_toolbox(deeds)))
    async with anyio.create_task_group() as group:
        async with running.client:
            group.start_soon(running.consume, work)
            await anyio.sleep(1)
        at_leaving = anyio.current_time()
    assert [type(end) for end in running.ends] == [ClientClosedError]
    assert at_leaving == 1.0
    assert deeds.done == []
    assert running.client.stats().free_slots == 16


@pytest.mark.clause("C3", "C18")
async def test_a_consumer_that_is_busy_when_its_client_closes_gets_the_error_at_its_next_event() -> None:
    history: list[Any] = []
    client = client_of(says("abc", chunks=3).stalls(after=2))
    async with client:
        turn = client.stream_chat("q", history=history)
        await anext(turn)
        await anyio.sleep(1)
    assert history == []
    with pytest.raises(ClientClosedError, match="this turn"):
        await anext(turn)
    with pytest.raises(StopAsyncIteration):
        await anext(turn)


@pytest.mark.clause("C3", "C18", "C22")
async def test_a_turn_that_was_not_read_to_its_end_when_its_client_closed_is_given_up() -> None:
    history: list[Any] = []
    client = client_of(says("hello"))
    async with client:
        turn = client.stream_chat("q", history=history)
        await anext(turn)
        await anyio.sleep(1)
    assert history == []
    async with client_of() as other:
        assert (await answer(other, history)).content == "hello"
    with pytest.raises(ClientClosedError):
        await anext(turn)
    with pytest.raises(StopAsyncIteration):
        await anext(turn)


@pytest.mark.clause("C3")
async def test_a_turn_that_was_read_to_its_last_event_ends_well_after_its_client_closed() -> None:
    history: list[Any] = []
    client = client_of(says("hello"), tools=recording_toolbox(Deeds()))
    batch = [ToolCallRequest(id="c1", name="work", arguments={"tag": "a"})]
    async with client:
        turn = client.chat("q", history=history)
        assert isinstance(await anext(turn), AssistantMessage)
        stream = client.run_call_stream(batch)
        await anext(stream)
        await anyio.sleep(1)
    assert await read(turn) == await read(stream) == []
    assert [message.role for message in history] == ["user", "assistant"]


@pytest.mark.clause("C3", "C20")
async def test_a_failure_that_was_not_seen_yet_is_raised_rather_than_that_the_client_closed() -> None:
    history: list[Any] = []
    client = client_of(says("ab", chunks=2).fails(Own("bug")))
    async with client:
        turn = client.stream_chat("q", history=history)
        await anext(turn)
        await anyio.sleep(1)
    assert history == []
    with pytest.raises(Own):
        await anext(turn)


@pytest.mark.clause("C3", "C36")
@pytest.mark.parametrize("reopened", [False, True])
async def test_a_stream_that_had_not_started_when_its_client_closed_never_does(reopened: bool) -> None:
    history: list[Any] = []
    client = client_of()
    async with client:
        turn = client.chat("q", history=history)
        late = client.chat("q", history=history)
    if reopened:
        await client.__aenter__()
    with pytest.raises(ClientStateError, match="nothing new"):
        await late.__aenter__()
    with pytest.raises(ClientStateError, match="nothing new"):
        await anext(turn)
    with pytest.raises(StopAsyncIteration):
        await anext(turn)
    assert history == []
    await turn.aclose()
    if reopened:
        assert (await answer(client, history)).content == "hello"
        await client.__aexit__(None, None, None)


@pytest.mark.clause("C3", "C31")
async def test_leaving_returns_when_every_tool_has_cleaned_up() -> None:
    deeds = Deeds()
    client = client_of(calls(call("lingers", tag="a", seconds=5)), tools=recording_toolbox(deeds))
    history: list[Any] = []
    async with anyio.create_task_group() as group:
        running = Running(client)
        async with client:
            group.start_soon(running.consume, lambda client: read(client.chat("q", history=history)))
            await anyio.sleep(1)
        assert deeds.cleaned == ["a"]
        assert anyio.current_time() == 1.25
        assert [message.role for message in history] == ["user", "tool_call", "tool_error"]


@pytest.mark.clause("C3")
async def test_nothing_new_starts_on_a_client_that_is_being_left() -> None:
    deeds = Deeds()
    client = client_of(calls(call("lingers", tag="a", seconds=5)), tools=recording_toolbox(deeds))
    late: list[BaseException] = []

    async def start_late() -> None:
        await anyio.sleep(1.1)
        for how in USES.values():
            with pytest.raises(ClientStateError) as caught:
                await use(how, client)
            late.append(caught.value)

    async with anyio.create_task_group() as group:
        async with client:
            group.start_soon(Running(client).consume, CONSUMERS["chat"])
            group.start_soon(start_late)
            await anyio.sleep(1)
        assert len(late) == len(USES)


@pytest.mark.clause("C3", "C32")
@pytest.mark.parametrize("error", [Own("mine"), KeyboardInterrupt("mine"), SystemExit(3), GeneratorExit()])
async def test_an_exception_of_the_body_leaves_the_client_as_itself(error: BaseException) -> None:
    deeds = Deeds()
    client = client_of(calls(call("lingers", tag="a", seconds=5)), tools=recording_toolbox(deeds))
    with pytest.raises(type(error)) as caught:  # noqa: PT012
        async with client:
            turn = client.chat("q", history=[])
            with anyio.move_on_after(1):
                await anext(turn)
            raise error
    assert caught.value is error
    assert deeds.cleaned == ["a"]


@pytest.mark.clause("C32")
async def test_an_exception_of_the_body_leaves_as_itself_through_a_cancelled_scope_too() -> None:
    deeds = Deeds()
    client = client_of(calls(call("lingers", tag="a", seconds=5)), tools=recording_toolbox(deeds))
    with anyio.CancelScope() as scope:
        with pytest.raises(Own) as caught:  # noqa: PT012
            async with client:
                turn = client.chat("q", history=[])
                with anyio.move_on_after(1):
                    await anext(turn)
                scope.cancel()
                raise Own
    assert not scope.cancelled_caught
    assert caught.value.__cause__ is None
    assert deeds.cleaned == ["a"]


@pytest.mark.clause("C32", "C53")
async def test_a_cancelled_body_leaves_the_client_cancelled() -> None:
    deeds = Deeds()
    client = client_of(calls(call("lingers", tag="a", seconds=5)), tools=recording_toolbox(deeds))
    with anyio.move_on_after(1) as scope:
        async with client, client.chat("q", history=[]) as turn:
            await anext(turn)
        pytest.fail("the cancellation was swallowed")
    assert scope.cancelled_caught
    assert deeds.cleaned == ["a"]
    assert anyio.current_time() == 1.25


@pytest.mark.clause("C53")
async def test_a_cancellation_that_comes_while_the_client_is_being_left_is_not_lost() -> None:
    deeds = Deeds()
    client = client_of(calls(call("lingers", tag="a", seconds=5)), tools=recording_toolbox(deeds))
    with anyio.CancelScope() as scope:
        async with client:
            turn = client.chat("q", history=[])
            with anyio.move_on_after(1):
                await anext(turn)
            scope.deadline = 1.1
        await anyio.sleep(1)
    assert scope.cancelled_caught
    assert deeds.cleaned == ["a"]
    assert anyio.current_time() == 1.25


@pytest.mark.clause("C53")
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize("seconds", [0.5, 1.1])
async def test_a_native_cancel_of_the_clients_task_comes_out_when_all_is_closed(
    anyio_backend: str, seconds: float
) -> None:
    deeds = Deeds()
    client = client_of(calls(call("lingers", tag="a", seconds=5)), tools=recording_toolbox(deeds))

    async def serve() -> None:
        async with client:
            turn = client.chat("q", history=[])
            with anyio.move_on_after(1):
                await anext(turn)

    task = asyncio.create_task(serve())
    await anyio.sleep(seconds)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert deeds.cleaned == ["a"]


@pytest.mark.clause("C53")
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_native_cancel_while_leaving_waits_for_batches_in_other_tasks(anyio_backend: str) -> None:
    deeds = Deeds()
    client = client_of(tools=recording_toolbox(deeds))
    batch = [ToolCallRequest(id="c1", name="lingers", arguments={"tag": "a", "seconds": 5})]
    running = Running(client)

    async def serve() -> None:
        async with client:
            await anyio.sleep(1)

    task = asyncio.create_task(serve())
    await anyio.sleep(0.5)
    other = asyncio.create_task(running.consume(lambda client: client.run_tool_calls(batch)))
    await anyio.sleep(0.6)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert deeds.cleaned == ["a"]
    await other
    assert [type(end) for end in running.ends] == [ClientClosedError]


@pytest.mark.clause("C31")
async def test_a_tool_cannot_close_the_client_that_runs_it() -> None:
    tools = LocalToolbox()

    @tools.tool()
    async def close() -> str:
        await client.__aexit__(None, None, None)
        return "closed"

    client = client_of(calls(call("close")), says("done"), tools=tools)
    batch = [ToolCallRequest(id="c1", name="close")]
    async with client:
        async with client.chat("q", history=[]) as turn:
            [messages, final] = await read(turn)
        alone = await client.run_tool_calls(batch)
        two = await client.run_tool_calls(batch * 2)
    assert final.content == "done"
    for outcome in (messages[1], *alone, *two):
        assert outcome.error == "Tool 'close' failed: a tool cannot close the client that runs it"


@pytest.mark.clause("C31")
async def test_a_tool_may_open_and_close_another_client() -> None:
    tools = LocalToolbox()

    @tools.tool()
    async def ask() -> Any:
        async with client_of(says("from inside")) as own:
            return (await answer(own)).content

    async with client_of(tools=tools) as client:
        batch = [ToolCallRequest(id="c1", name="ask")]
        for outcome in [*await client.run_tool_calls(batch), *await client.run_tool_calls(batch * 2)]:
            assert isinstance(outcome, ToolCallResult)
            assert outcome.result == "from inside"


@pytest.mark.clause("C49")
async def test_a_task_that_outlives_the_tool_that_started_it_cannot_use_the_client() -> None:
    tools = LocalToolbox()
    refused: dict[str, CallEndedError] = {}

    async def later() -> None:
        await anyio.sleep(1)
        for name, how in USES.items():
            try:
                await use(how, client)
            except CallEndedError as error:
                refused[name] = error

    @tools.tool()
    async def spawn() -> None:
        group.start_soon(later)

    client = client_of(tools=tools)
    async with client, anyio.create_task_group() as group:
        await client.run_tool_calls([ToolCallRequest(id="c1", name="spawn")])
    assert refused.keys() == USES.keys()
    assert all("'spawn', which has ended" in str(error) for error in refused.values())


@pytest.mark.clause("C3")
@pytest.mark.real_time
async def test_a_client_is_used_in_the_event_loop_that_it_was_entered_in() -> None:
    errors: dict[str, BaseException] = {}

    async def elsewhere(client: AsyncAIClient) -> None:
        for name in ("chat", "llm_generate_once", "run_tool_calls", "run_call_stream"):
            try:
                await CONSUMERS.get(name, CONSUMERS["run_tool_calls, one call"])(client)
            except BaseException as error:
                errors[name] = error

    async with client_of(says("hello"), tools=recording_toolbox(Deeds())) as client:
        thread = threading.Thread(target=anyio.run, args=(elsewhere, client))
        thread.start()
        while thread.is_alive():
            await anyio.sleep(0.001)
        thread.join()
        assert (await answer(client)).content == "hello"
    assert {name: type(error) for name, error in errors.items()} == dict.fromkeys(errors, ClientStateError)
    assert len(errors) == 4


# Providers and conversations


class Closable(AsyncBaseProvider):
    """A provider that would notice if somebody closed it."""

    closed = False

    async def stream(self, request: ModelRequest) -> AsyncIterator[ProviderEvent]:
        yield AssistantMessage(content="hello")

    async def aclose(self) -> None:
        self.closed = True

    close = __aexit__ = aclose


@pytest.mark.clause("C4")
async def test_a_client_never_closes_a_provider() -> None:
    provider = Closable()
    for _ in range(2):
        async with AsyncAIClient([provider], system_prompt="") as client:
            assert (await answer(client)).content == "hello"
    assert not provider.closed


@pytest.mark.clause("C5")
async def test_conversations_at_once_keep_their_histories_and_contexts_apart() -> None:
    tools = LocalToolbox()

    @tools.tool(server_populated=["user_id"])
    async def whoami(user_id: str) -> str:
        await anyio.sleep(1)
        return user_id

    def reply(request: ModelRequest) -> Reply:
        last = request.messages[-1]
        if isinstance(last, UserMessage):
            return calls(call("whoami"), text=f"asked {last.content}", delay=0.5)
        assert isinstance(last, ToolCallResult)
        return says(f"you are {last.result}", delay=0.5)

    client = AsyncAIClient([ScriptedProvider(reply)], local_toolbox=tools, system_prompt="")
    histories: dict[str, list[Any]] = {f"user-{number}": [] for number in range(10)}

    async def converse(name: str) -> None:
        async with client.chat(f"I am {name}", history=histories[name], context={"user_id": name}) as turn:
            await read(turn)

    async with client, anyio.create_task_group() as group:
        for name in histories:
            group.start_soon(converse, name)
    assert anyio.current_time() == 2.0
    for name, history in histories.items():
        assert [message.role for message in history] == [
            "user",
            "assistant",
            "tool_call",
            "tool_result",
            "assistant",
        ]
        assert history[1].content == f"asked I am {name}"
        assert history[3].result == name
        assert history[-1].content == f"you are {name}"


# The background refresh


async def test_tools_registered_later_appear_at_the_next_refresh(caplog: pytest.LogCaptureFixture) -> None:
    toolbox = Unreadable()
    toolbox.broken = False
    tools = LocalToolbox()
    async with client_of(tools=[tools, toolbox], refresh_interval=10.0) as client:  # type: ignore[arg-type]
        tools.add(print_nothing)
        assert client.list_tools() == []
        toolbox.broken = True
        await anyio.sleep(15)
        assert client.list_tools() == []
        assert "Refreshing the tools failed" in caplog.text
        toolbox.broken = False
        await anyio.sleep(10)
        assert [tool["function"]["name"] for tool in client.list_tools()] == ["print_nothing"]


def print_nothing() -> None:
    """Does nothing."""


@pytest.mark.real_time
@pytest.mark.clause("C6")
@pytest.mark.case("M1")
async def test_a_whole_turn_works_alike_on_every_backend() -> None:
    deeds = Deeds()
    tools = recording_toolbox(deeds)

    async def source() -> str:
        await anyio.sleep(0)
        return "async"

    @tools.tool(server_populated=["first", "second"], timeout=5)
    def who(first: str, second: str) -> str:
        return f"{first} and {second}"

    @tools.tool(timeout=0.01)
    async def late() -> None:
        await anyio.sleep_forever()

    script = [
        calls(
            call("work", tag="a", seconds=0),
            call("block", tag="b"),
            call("after", tag="c", seconds=0),
            call("fail", tag="d", seconds=0),
            call("who"),
            call("late"),
            call("nobody"),
            text="let me see",
            chunks=2,
        ),
        says("done", chunks=2),
    ]
    history: list[Any] = []
    client = client_of(*script, tools=tools, param_registry={"first": lambda: "sync", "second": source})
    async with client, client.stream_chat("q", history=history, tool_events=True) as turn:
        kinds = [type(event).__name__ for event in await read(turn)]
    assert kinds == [
        *["ChatChunk"] * 2,
        *["ToolOutcome"] * 7,
        "ToolMessages",
        *["ChatChunk"] * 2,
        "AssistantMessage",
    ]
    outcomes = [
        getattr(message, "result", None) or getattr(message, "kind", None) for message in history[3:-1:2]
    ]
    assert outcomes == ["a done", "b done", "c done", "failed", "sync and async", "timed_out", "unknown_tool"]
