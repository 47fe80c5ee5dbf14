import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import anyio.from_thread
import pytest

from seqoria_runtime.client._live_turns import _live
from seqoria_runtime.models import (
    AssistantMessage,
    ToolCallError,
    ToolCallRequest,
    ToolCallResult,
    UserMessage,
)
from seqoria_runtime.models.errors import ClientClosedError, RateLimitError
from seqoria_runtime.providers import ModelRequest
from seqoria_runtime.testing import (
    Reply,
    call,
    calls,
    says,
    wait_for_abandoned_threads,
)
from seqoria_runtime.toolbox import LocalToolbox
from tests.support.histories import check_history
from tests.support.talk import Talk, collect
from tests.support.tools import Deeds, Gate, recording_toolbox

BEFORE = "before it started"
RUNNING = "cancelled while running; it may have taken effect"


class Own(Exception):
    """An application's exception."""


Moment = Callable[[], Awaitable[Any]]


async def two_seconds() -> None:
    await anyio.sleep(2)


async def close(talk: Talk, stream: Any, moment: Moment = two_seconds) -> None:
    async with talk.client, stream() as turn:
        await read_until(turn, moment)


async def cancel(talk: Talk, stream: Any, moment: Moment = two_seconds) -> None:
    async with talk.client:
        await read_until(stream(), moment, entered=True)


async def fail(talk: Talk, stream: Any, moment: Moment = two_seconds) -> None:
    async with talk.client:
        with pytest.raises(Own):
            await _fail(stream, moment)


async def _fail(stream: Any, moment: Moment) -> None:
    async with stream() as turn:
        await read_until(turn, moment)
        raise Own


async def close_client(talk: Talk, stream: Any, moment: Moment = two_seconds) -> None:
    async with talk.client:
        turn = stream()
        await read_until(turn, moment)
    with pytest.raises(ClientClosedError):
        await anext(turn)


async def drop(talk: Talk, stream: Any, moment: Moment = two_seconds) -> None:
    async with talk.client:
        turn = stream()
        await read_until(turn, moment)
        await anyio.sleep(0)
        with pytest.warns(ResourceWarning):
            del turn
        await anyio.sleep(0.5)


async def read_until(turn: Any, moment: Moment, *, entered: bool = False) -> None:
    """Read events, and be cancelled in that at a certain moment, inside the stream's `async with` or not."""
    async with anyio.create_task_group() as group:
        group.start_soon(_cancel_at, moment, group.cancel_scope)
        if entered:
            async with turn:
                await collect(turn)
        else:
            await collect(turn)
        pytest.fail("the turn ended by itself")


async def _cancel_at(moment: Moment, scope: anyio.CancelScope) -> None:
    await moment()
    scope.cancel()


async def cancel_natively(talk: Talk, stream: Any) -> None:
    async def consume() -> None:
        async with stream() as turn:
            await collect(turn)

    async with talk.client:
        task = asyncio.ensure_future(consume())
        await anyio.sleep(2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


WAYS: dict[str, Callable[[Talk, Any], Any]] = {
    "close": close,
    "cancel": cancel,
    "fail": fail,
    "close client": close_client,
    "drop": drop,
}

every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
both_forms = pytest.mark.parametrize("form", ["chat", "stream_chat"])


def turn_of(talk: Talk, form: str, **options: Any) -> Callable[[], Any]:
    return lambda: getattr(talk.client, form)("q", history=talk.history, **options)


def outcomes(talk: Talk) -> dict[str, str]:
    """What the history says of each call, by tag."""
    said = {}
    for exchange in check_history(talk.history):
        for response in exchange.responses:
            for request, outcome in response.pairs:
                text = outcome.result if isinstance(outcome, ToolCallResult) else outcome.error
                said[request.arguments["tag"]] = text
    return said


# A round that is under way


MIXED = calls(
    call("work", tag="done", seconds=1),
    call("lingers", tag="running", seconds=5),
    call("lingers", tag="next", seconds=5),
    call("lingers", tag="queued", seconds=5),
    call("after", tag="dependent", seconds=1),
    call("nobody", tag="unknown"),
    text="let me see",
)


@pytest.mark.clause("C18")
@pytest.mark.case("B1")
@every_way
@both_forms
async def test_a_round_under_way_is_kept_whole_and_tells_the_truth(way: Any, form: str) -> None:
    talk = Talk(MIXED, says("go on"), max_concurrency=2)
    await way(talk, turn_of(talk, form))
    assert talk.roles == [
        "user",
        "assistant",
        *["tool_call", "tool_result"],
        *["tool_call", "tool_error"] * 5,
    ]
    said = outcomes(talk)
    assert said["done"] == "done done"
    assert said["running"].endswith(RUNNING)
    assert said["next"].endswith(RUNNING)
    assert said["queued"].endswith(BEFORE)
    assert said["dependent"].endswith(BEFORE)
    assert "not found" in said["unknown"]
    kinds = [message.kind for message in talk.history if isinstance(message, ToolCallError)]
    assert kinds == ["cancelled"] * 4 + ["unknown_tool"]
    assert talk.deeds.done == ["done"]
    assert sorted(talk.deeds.cleaned) == ["next", "running"]
    assert talk.client.stats().free_slots == 2
    [answer] = await talk.chat("go on")
    assert answer.content == "go on"
    check_history(talk.history)


@pytest.mark.clause("C18")
@pytest.mark.parametrize("limit", [1, 2])
@every_way
async def test_what_waits_for_a_call_that_was_cut_short_is_not_skipped_for_it(way: Any, limit: int) -> None:
    asked = calls(call("work", tag="running", seconds=5), call("after", tag="dependent", seconds=1))
    talk = Talk(asked, says("go on"), max_concurrency=limit)
    await way(talk, turn_of(talk, "stream_chat"))
    said = outcomes(talk)
    assert said["running"].endswith(RUNNING)
    assert said["dependent"].endswith(BEFORE)


@pytest.mark.clause("C18", "C53")
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@both_forms
async def test_a_native_cancel_leaves_the_same_history(anyio_backend: str, form: str) -> None:
    talk, twin = Talk(MIXED, max_concurrency=2), Talk(MIXED, max_concurrency=2)
    await cancel_natively(talk, turn_of(talk, form))
    await cancel(twin, turn_of(twin, form))
    assert talk.history == twin.history


@pytest.mark.clause("C18")
@every_way
async def test_a_round_of_which_no_call_began_is_not_kept(way: Any) -> None:
    batch = calls(call("work", tag="a"), call("nobody", tag="b"), text="let me see", delay=0.5)
    talk = Talk(batch, max_concurrency=1)

    async def hold_the_slot() -> None:
        hog = ToolCallRequest(id="c", name="work", arguments={"tag": "hog", "seconds": 60})
        with suppress(ClientClosedError):
            await talk.client.run_tool_calls([hog])

    def stream() -> Any:
        group.start_soon(hold_the_slot)
        return turn_of(talk, "chat")()

    async with anyio.create_task_group() as group:
        await way(talk, stream)
        group.cancel_scope.cancel()
    assert talk.deeds.begun == ["hog"]
    assert talk.history == []


@pytest.mark.clause("C18", "C51")
@pytest.mark.case("B1")
@every_way
async def test_a_sync_tool_in_its_thread_is_answered_by_the_same_rule(way: Any) -> None:
    gate = Gate()
    begun = anyio.Event()
    tools = LocalToolbox()

    @tools.tool()
    def block(tag: str) -> str:
        anyio.from_thread.run_sync(begun.set)
        gate()
        return "done"

    @tools.tool()
    async def work(tag: str) -> str:
        return "done"

    talk = Talk(calls(call("work", tag="async"), call("block", tag="sync")), says("go on"), tools=tools)
    try:
        await way(talk, turn_of(talk, "chat"), begun.wait)
        assert talk.client.stats().abandoned == {"block": 1}
    finally:
        gate.open.set()
        await wait_for_abandoned_threads()
    said = outcomes(talk)
    assert said["async"] == "done"
    assert said["sync"].endswith(RUNNING)
    assert talk.client.stats().free_slots == 16
    [answer] = await talk.chat("go on")
    assert answer.content == "go on"
    check_history(talk.history)


@pytest.mark.clause("C18")
@every_way
async def test_rounds_before_the_one_under_way_stay_as_they_were(way: Any) -> None:
    talk = Talk(
        calls(call("work", tag="a", seconds=0.5)),
        calls(call("work", tag="b", seconds=5)),
    )
    await way(talk, turn_of(talk, "chat"))
    assert outcomes(talk)["a"] == "a done"
    assert outcomes(talk)["b"].endswith(RUNNING)
    assert len(check_history(talk.history)[0].responses) == 2


@pytest.mark.clause("C18")
async def test_a_round_whose_messages_were_never_taken_is_kept() -> None:
    talk = Talk(calls(call("work", tag="a", seconds=1)), says("bye"))
    async with talk.client, talk.client.chat("q", history=talk.history):
        await anyio.sleep(5)
        assert talk.roles == ["user"]
    assert talk.roles == ["user", "tool_call", "tool_result"]
    assert len(talk.model.requests) == 1


class Fickle(list[Any]):
    """An application's own kind of list, which cannot take rounds while it is `broken`."""

    broken = True

    def extend(self, items: Any) -> None:
        if self.broken:
            raise OSError("the disk is full")
        super().extend(items)


@pytest.mark.clause("C20", "C31")
@pytest.mark.case("A1")
async def test_a_list_that_cannot_take_a_round_is_the_consumers_to_hear_of_and_may_be_mended() -> None:
    talk = Talk(calls(call("work", tag="a")), says("done"))
    talk.history = history = Fickle()
    async with talk.client, talk.client.chat("q", history=history) as turn:
        with pytest.raises(OSError, match="the disk is full"):
            await anext(turn)
        history.broken = False
    assert outcomes(talk) == {"a": "a done"}


@pytest.mark.clause("C20", "C22", "C31")
@pytest.mark.case("A1")
@pytest.mark.parametrize("way", [close_client, drop], ids=["close client", "drop"])
async def test_a_list_that_cannot_be_settled_harms_neither_client_nor_event_loop(
    way: Any, caplog: pytest.LogCaptureFixture
) -> None:
    talk = Talk(calls(call("work", tag="a", seconds=5)))
    talk.history = Fickle()
    await way(talk, turn_of(talk, "chat"))
    assert "this turn could not be settled" in caplog.text
    assert not _live


@pytest.mark.clause("C20", "C22", "C31")
async def test_closing_the_stream_raises_when_the_list_cannot_be_settled() -> None:
    talk = Talk(calls(call("work", tag="a", seconds=5)))
    talk.history = Fickle()
    async with talk.client:
        turn = talk.client.chat("q", history=talk.history)
        with anyio.move_on_after(1):
            await anext(turn)
        with pytest.raises(OSError, match="the disk is full"):
            await turn.aclose()
        await turn.aclose()
    assert not _live


# A model that is answering


@pytest.mark.clause("C18", "C19")
@every_way
@both_forms
@pytest.mark.parametrize("earlier", [0, 1])
async def test_an_answer_under_way_leaves_nothing(way: Any, form: str, earlier: int) -> None:
    script = [calls(call("work", tag="a", seconds=0.25))] * earlier
    talk = Talk(*script, says("half an answer", chunks=2).stalls(after=1), system_prompt="be kind")
    await way(talk, turn_of(talk, form))
    assert talk.roles == (["system", "user", "tool_call", "tool_result"] if earlier else ["system"])
    assert talk.model.open_streams == 0


@pytest.mark.clause("C19")
@every_way
@both_forms
@pytest.mark.parametrize("earlier", [0, 1])
async def test_with_keep_partial_the_text_so_far_is_left_and_marked(
    way: Any, form: str, earlier: int
) -> None:
    script = [calls(call("work", tag="a", seconds=0.25), text="let me see")] * earlier
    talk = Talk(
        *script, says("half an answer", chunks=["half", " an", " answer"]).stalls(after=2), says("ok")
    )
    await way(talk, turn_of(talk, form, keep_partial=True))
    before = ["user", "assistant", "tool_call", "tool_result"] if earlier else ["user"]
    assert talk.roles == [*before, "assistant"]
    assert talk.history[-1] == AssistantMessage(content="half an", interrupted=True)
    check_history(talk.history)
    await talk.chat("go on")
    check_history(talk.history)


@pytest.mark.clause("C19")
@both_forms
@pytest.mark.parametrize("keep_partial", [False, True])
async def test_a_failure_of_the_model_leaves_partial_text_by_the_same_rule(
    form: str, keep_partial: bool
) -> None:
    talk = Talk(says("half an answer", chunks=2).fails(RateLimitError("slow down"), after=1))
    async with talk.client:
        with pytest.raises(RateLimitError):
            await collect(turn_of(talk, form, keep_partial=keep_partial)())
    kept = [UserMessage(content="q"), AssistantMessage(content="half an", interrupted=True)]
    assert talk.history == (kept if keep_partial else [])


@pytest.mark.clause("C19")
async def test_partial_text_is_what_the_consumer_has_seen() -> None:
    talk = Talk(says("abc", chunks=3).stalls())
    async with talk.client, talk.client.stream_chat("q", history=talk.history, keep_partial=True) as turn:
        await anext(turn)
        await anyio.sleep(1)
        await anext(turn)
    assert talk.history[-1].content == "ab"


@pytest.mark.clause("C19")
@both_forms
async def test_keep_partial_changes_nothing_in_a_turn_that_ends_well(form: str) -> None:
    script = (calls(call("work", tag="a"), text="let me see"), says("done", chunks=2))
    plain, keeping = Talk(*script), Talk(*script)
    for talk, options in ((plain, {}), (keeping, {"keep_partial": True})):
        async with talk.client:
            await collect(turn_of(talk, form, **options)())
    assert keeping.history == plain.history


# Nothing is done twice


@pytest.mark.clause("C18")
@pytest.mark.case("B3")
@every_way
async def test_a_finished_effect_is_recorded_and_not_repeated(way: Any) -> None:
    tools = LocalToolbox()
    booked: list[int] = []

    @tools.tool()
    async def book(seats: int) -> str:
        booked.append(seats)
        return f"{seats} seats booked"

    @tools.tool()
    async def slow() -> str:
        await anyio.sleep(5)
        return "slow done"

    def model(request: ModelRequest) -> Reply:
        answered = {message.name for message in request.messages if isinstance(message, ToolCallResult)}
        missing = [one for one in (call("book", seats=2), call("slow")) if one.name not in answered]
        return calls(*missing) if missing else says("all done")

    talk = Talk(*[model] * 3, tools=tools)
    await way(talk, turn_of(talk, "chat"))
    assert booked == [2]
    [messages, answer] = await talk.chat("go on")
    assert [request.name for request in messages[::2]] == ["slow"]
    assert answer.content == "all done"
    assert booked == [2]
    check_history(talk.history)


# Interruptions of the program


@pytest.mark.clause("C53")
@pytest.mark.parametrize("error", [KeyboardInterrupt("stop"), SystemExit(3)])
@pytest.mark.parametrize("blocking", [False, True])
@both_forms
async def test_an_interruption_in_a_tool_cancels_its_turn_and_comes_out_bare(
    error: BaseException, blocking: bool, form: str
) -> None:
    talk = Talk(
        calls(
            call("work", tag="done", seconds=0),
            call("lingers", tag="slow", seconds=60),
            call("stop", tag="stop"),
        ),
        says("go on"),
        tools=interrupting_tools(error, blocking=blocking),
    )
    async with talk.client:
        turn = turn_of(talk, form)()
        with pytest.raises(type(error)) as caught:
            await collect(turn)
        assert caught.value is error
        assert await collect(turn) == []
        assert outcomes(talk)["done"] == "done done"
        assert outcomes(talk)["slow"].endswith(RUNNING)
        [answer] = await collect(turn_of(talk, "chat")())
        assert answer.content == "go on"
    check_history(talk.history)


def interrupting_tools(error: BaseException, *, blocking: bool) -> LocalToolbox:
    tools = recording_toolbox(Deeds())

    async def stop(tag: str) -> None:
        await anyio.sleep(0.5)
        raise error

    def stop_in_thread(tag: str) -> None:
        raise error

    tools.add(stop_in_thread if blocking else stop, name="stop")
    return tools


STOP = ToolCallRequest(id="c1", name="stop", arguments={"tag": "stop"})
LINGER = ToolCallRequest(id="c2", name="lingers", arguments={"tag": "slow", "seconds": 60})


@pytest.mark.clause("C53")
@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("batch", [[STOP], [STOP, LINGER], [LINGER, STOP]])
async def test_an_interruption_comes_out_of_run_tool_calls_bare(blocking: bool, batch: list[Any]) -> None:
    error = KeyboardInterrupt("stop")
    talk = Talk(tools=interrupting_tools(error, blocking=blocking))
    async with talk.client:
        with pytest.raises(KeyboardInterrupt) as caught:
            await talk.client.run_tool_calls(batch)
        assert caught.value is error
        assert talk.client.stats().free_slots == 16


@pytest.mark.clause("C53")
async def test_an_interruption_that_comes_while_a_stream_is_closed_comes_out_of_that() -> None:
    error = KeyboardInterrupt("in cleanup")
    talk = Talk(calls(call("stop")), tools=interrupted_in_cleanup(error))
    async with talk.client:
        turn = talk.client.chat("q", history=talk.history)
        with anyio.move_on_after(1):
            await anext(turn)
        with pytest.raises(KeyboardInterrupt) as caught:
            await turn.aclose()
    assert caught.value is error
    assert talk.roles == ["user", "tool_call", "tool_error"]


@pytest.mark.clause("C53")
async def test_an_interruption_beats_the_news_that_the_client_closed() -> None:
    error = KeyboardInterrupt("in cleanup")
    talk = Talk(calls(call("stop")), tools=interrupted_in_cleanup(error))
    async with talk.client:
        turn = talk.client.chat("q", history=talk.history)
        with anyio.move_on_after(1):
            await anext(turn)
    with pytest.raises(KeyboardInterrupt) as caught:
        await anext(turn)
    assert caught.value is error


@pytest.mark.clause("C34", "C53")
async def test_an_interruption_in_a_dropped_stream_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    talk = Talk(calls(call("stop")), tools=interrupted_in_cleanup(KeyboardInterrupt("nobody saw this")))
    await drop(talk, turn_of(talk, "chat"))
    assert "this turn failed when it was dropped by its consumer" in caplog.text
    assert "nobody saw this" in caplog.text
    assert talk.roles == ["user", "tool_call", "tool_error"]


def interrupted_in_cleanup(error: BaseException) -> LocalToolbox:
    tools = LocalToolbox()

    @tools.tool()
    async def stop() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise error

    return tools
