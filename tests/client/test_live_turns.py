import subprocess
import sys
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.client._live_turns import _live
from seqoria_runtime.models import AssistantMessage, ToolMessages, UserMessage
from seqoria_runtime.models.errors import RateLimitError, TurnInProgressError
from seqoria_runtime.testing import ScriptedProvider, call, calls, fails, says, stalls
from tests.support.histories import check_history
from tests.support.talk import Talk, collect

TWO_ROUNDS = (
    calls(call("work", tag="a", seconds=1), text="one", every=0.1),
    calls(call("work", tag="b", seconds=1), text="two", every=0.1),
    says("three", every=0.1),
)


# The barrier


@pytest.mark.clause("C21")
@pytest.mark.parametrize("form", ["chat", "stream_chat"])
async def test_nothing_goes_on_after_tool_messages_until_the_next_event_is_asked_for(form: str) -> None:
    talk = Talk(*TWO_ROUNDS)
    asked, begun = [], []
    async with talk.client, getattr(talk.client, form)("q", history=talk.history) as turn:
        async for event in turn:
            if isinstance(event, ToolMessages):
                await anyio.sleep(60)
                asked.append(len(talk.model.requests))
                begun.append(list(talk.deeds.begun))
    assert asked == [1, 2]
    assert begun == [["a"], ["a", "b"]]


@pytest.mark.clause("C21")
@pytest.mark.parametrize("tool_events", [False, True])
async def test_the_history_changes_only_while_an_event_is_waited_for(tool_events: bool) -> None:
    talk = Talk(*TWO_ROUNDS)
    seen: list[tuple[str, int]] = []
    async with talk.client:
        turn = talk.client.stream_chat("q", history=talk.history, tool_events=tool_events)
        await anyio.sleep(60)
        assert talk.history == []
        async with turn:
            length = 1
            await anyio.sleep(60)
            assert len(talk.history) == length
            async for event in turn:
                length = len(talk.history)
                await anyio.sleep(60)
                assert len(talk.history) == length
                seen.append((type(event).__name__, length))
        await anyio.sleep(60)
        assert len(talk.history) == length
    outcome = [("ToolOutcome", 1)] if tool_events else []
    later = [("ToolOutcome", 4)] if tool_events else []
    assert seen == [
        *[("ChatChunk", 1), *outcome, ("ToolMessages", 4)],
        *[("ChatChunk", 4), *later, ("ToolMessages", 7)],
        *[("ChatChunk", 7), ("AssistantMessage", 8)],
    ]


@pytest.mark.clause("C21", "C33")
async def test_asking_for_the_next_event_under_a_deadline_lifts_the_barrier() -> None:
    talk = Talk(*TWO_ROUNDS[:1], says("late", delay=5))
    async with talk.client, talk.client.chat("q", history=talk.history) as turn:
        await anext(turn)
        with anyio.move_on_after(1) as scope:
            await anext(turn)
        assert scope.cancelled_caught
        assert len(talk.model.requests) == 2
        await anyio.sleep(60)
        with anyio.fail_after(0.001):
            answer: Any = await anext(turn)
        assert answer.content == "late"


# One live turn per list


@pytest.mark.clause("C22")
async def test_a_second_turn_on_a_list_with_a_live_one_is_refused_and_changes_nothing() -> None:
    talk = Talk(*TWO_ROUNDS[:1], says("done"), says("later"))
    async with talk.client, talk.client.chat("q", history=talk.history) as turn:
        await anext(turn)
        before = list(talk.history)
        for form in (talk.client.chat, talk.client.stream_chat):
            second = form("again", history=talk.history)
            with pytest.raises(TurnInProgressError, match="turn in progress"):
                await anext(second)
            with pytest.raises(TurnInProgressError):
                await second.__aenter__()
        assert talk.history == before
        await collect(turn)
        [*_, answer] = await collect(second)
        assert answer.content == "later"
    check_history(talk.history)


@pytest.mark.clause("C22")
async def test_the_rule_holds_over_all_clients_of_the_process() -> None:
    talk = Talk(stalls())
    other = Talk(says("hi"))
    async with talk.client, other.client, talk.client.chat("q", history=talk.history):
        with pytest.raises(TurnInProgressError):
            await anext(other.client.chat("q", history=talk.history))


@pytest.mark.clause("C22")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_turn_is_refused_while_another_event_loop_has_one_on_the_list(backend: str) -> None:
    talk, other = Talk(stalls()), Talk(says("hi"))

    async def second() -> None:
        async with other.client:
            with pytest.raises(TurnInProgressError, match="in another event loop"):
                await anext(other.client.chat("q", history=talk.history))

    async def first() -> None:
        async with talk.client, talk.client.chat("q", history=talk.history):
            await anyio.to_thread.run_sync(partial(anyio.run, second, backend=backend))

    anyio.run(first, backend=backend)
    assert not _live


LOOP_THAT_DIES = """
import anyio, asyncio
from seqoria_runtime import AsyncAIClient
from seqoria_runtime.testing import ScriptedProvider, says, stalls

history = []

async def first():
    client = AsyncAIClient([ScriptedProvider([stalls()])], system_prompt="")
    await client.__aenter__()
    turn = client.chat("q", history=history)
    await turn.__aenter__()
    await asyncio.sleep(0)
    return client, turn

async def second():
    async with AsyncAIClient([ScriptedProvider([says("hi")])], system_prompt="") as client:
        async with client.chat("again", history=history) as turn:
            print([event.content async for event in turn])

loop = asyncio.new_event_loop()
held = loop.run_until_complete(first())
loop.close()
asyncio.run(second())
print([message.content for message in history])
"""


@pytest.mark.clause("C22")
def test_a_list_is_free_when_the_event_loop_of_its_turn_is_gone() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOOP_THAT_DIES],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.stdout.splitlines() == ["['hi']", "['again', 'hi']"], done.stderr


@pytest.mark.clause("C5", "C22")
async def test_equal_lists_are_not_the_same_list() -> None:
    talk = Talk(stalls(), says("hi"))
    first: list[Any] = [UserMessage(content="earlier"), AssistantMessage(content="answer")]
    second = list(first)
    async with talk.client, talk.client.chat("q", history=first):
        await anyio.sleep(1)
        [answer] = await collect(talk.client.chat("q", history=second))
    assert answer.content == "hi"
    assert len(second) == 4
    assert len(first) == 2


@pytest.mark.clause("C22")
@pytest.mark.parametrize(
    "how", ["read to its end", "last event taken", "failed", "closed", "never started", "bad history"]
)
async def test_a_turn_that_is_over_leaves_the_list_free(how: str) -> None:
    script = fails(RateLimitError("slow")) if how == "failed" else says("hi")
    talk = Talk(*([] if how in {"never started", "bad history"} else [script]), says("again"))
    async with talk.client:
        turn = talk.client.chat("q", history=talk.history)
        if how == "read to its end":
            await collect(turn)
        elif how == "last event taken":
            await anext(turn)
        elif how == "failed":
            with pytest.raises(RateLimitError):
                await anext(turn)
        elif how == "closed":
            await turn.__aenter__()
            await turn.aclose()
        elif how == "bad history":
            talk.history.append({"role": "wizard"})
            with pytest.raises(ValueError, match="wizard"):
                await anext(turn)
            talk.history.clear()
        [answer] = await collect(talk.client.chat("q", history=talk.history))
        await turn.aclose()
    assert answer.content == "again"
    assert not _live


@pytest.mark.clause("C22", "C31")
async def test_a_turn_waits_for_an_earlier_one_that_is_being_closed() -> None:
    talk = Talk(calls(call("lingers", tag="a", seconds=5)), says("again"))
    async with talk.client, anyio.create_task_group() as group:
        first = talk.client.chat("q", history=talk.history)
        await first.__aenter__()
        await anyio.sleep(1)
        group.start_soon(first.aclose)
        await anyio.sleep(0.125)
        [answer] = await collect(talk.client.chat("again", history=talk.history))
        assert anyio.current_time() == 1.25
    assert answer.content == "again"
    assert talk.roles == ["user", "tool_call", "tool_error", "user", "assistant"]
    check_history(talk.history)


@pytest.mark.clause("C22", "C34")
@pytest.mark.parametrize("script", [stalls(), says("abc", chunks=3), calls(call("lingers", tag="a"))])
@pytest.mark.filterwarnings("ignore:this turn was dropped:ResourceWarning")
async def test_a_turn_may_follow_at_once_on_one_that_was_dropped(script: Any) -> None:
    talk = Talk(script, says("again"))
    async with talk.client:
        turn = talk.client.stream_chat("q", history=talk.history)
        with anyio.move_on_after(0.5):
            await anext(turn)
        await anyio.sleep(0)  # until then the event loop holds the cancellation, and that the stream
        del turn
        [*_, answer] = await collect(talk.client.stream_chat("again", history=talk.history))
    assert answer.content == "again"
    check_history(talk.history)


@pytest.mark.clause("C22", "C34")
async def test_a_turn_may_follow_at_once_on_one_that_was_dropped_with_its_answer_unread() -> None:
    talk = Talk(says("hi"), says("again"))
    async with talk.client:
        turn = talk.client.stream_chat("q", history=talk.history)
        await anext(turn)
        await anyio.sleep(1)
        del turn
        [*_, answer] = await collect(talk.client.stream_chat("again", history=talk.history))
    assert answer.content == "again"
    assert talk.roles == ["user", "assistant"]


class Waiting:
    """A turn on a list whose earlier turn is being closed and takes a quarter of a second for it."""

    def __init__(self) -> None:
        self.talk = Talk(calls(call("lingers", tag="a", seconds=5)), says("again"))
        self.late = Talk(says("from another"))

    async def __aenter__(self) -> "Waiting":
        self.group = anyio.create_task_group()
        await self.group.__aenter__()
        await self.talk.client.__aenter__()
        self.first = self.talk.client.chat("q", history=self.talk.history)
        await self.first.__aenter__()
        await anyio.sleep(1)
        self.group.start_soon(self.first.aclose)
        await anyio.sleep(0.125)
        self.second = self.talk.client.chat("again", history=self.talk.history)
        self.events: list[Any] = []
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self.talk.client.__aexit__(*exc)
        await self.group.__aexit__(*exc)

    async def read(self) -> None:
        await collect(self.second, self.events)


@pytest.mark.clause("C22", "C33")
async def test_a_turn_that_waits_to_start_can_be_cancelled_and_started_later() -> None:
    async with Waiting() as waiting:
        with anyio.move_on_after(0.0625):
            await anext(waiting.second)
        assert waiting.events == []
        await waiting.read()
        assert [event.content for event in waiting.events] == ["again"]
    check_history(waiting.talk.history)
    assert not _live


@pytest.mark.clause("C22", "C31")
async def test_a_turn_that_waits_to_start_can_be_closed_by_another_task() -> None:
    async with Waiting() as waiting:
        waiting.group.start_soon(waiting.read)
        await anyio.sleep(0.0625)
        await waiting.second.aclose()
        assert anyio.current_time() == 1.1875
    assert waiting.events == []
    assert waiting.talk.roles == ["user", "tool_call", "tool_error"]
    assert len(waiting.talk.model.requests) == 1
    assert not _live


@pytest.mark.clause("C22")
async def test_of_two_turns_that_wait_to_start_one_does_and_the_other_is_refused() -> None:
    ends: list[Any] = []
    async with Waiting() as waiting:

        async def read(query: str) -> None:
            turn = waiting.talk.client.chat(query, history=waiting.talk.history)
            try:
                ends.extend(await collect(turn))
            except TurnInProgressError as error:
                ends.append(error)

        waiting.group.start_soon(read, "second")
        waiting.group.start_soon(read, "third")
        await anyio.sleep(1)
    assert {type(end) for end in ends} == {AssistantMessage, TurnInProgressError}
    assert len(waiting.talk.model.requests) == 2
    check_history(waiting.talk.history)


@pytest.mark.clause("C3", "C22")
async def test_a_turn_that_waits_to_start_when_its_client_closes_never_does() -> None:
    ends: list[Any] = []
    history: list[Any] = []
    talk = Talk(calls(call("lingers", tag="a", seconds=5)))
    other = AsyncAIClient([ScriptedProvider([])], system_prompt="")

    async def read_on_other() -> None:
        try:
            ends.extend(await collect(other.chat("again", history=history)))
        except Exception as error:
            ends.append(error)

    async with talk.client, anyio.create_task_group() as group:
        first = talk.client.chat("q", history=history)
        await first.__aenter__()
        await anyio.sleep(1)
        async with other:
            group.start_soon(first.aclose)
            await anyio.sleep(0.125)
            group.start_soon(read_on_other)
            await anyio.sleep(0.125)
    assert [str(end) for end in ends] == ["the client is being closed: nothing new can be started on it"]
    assert [message.role for message in history] == ["user", "tool_call", "tool_error"]
    assert not _live
