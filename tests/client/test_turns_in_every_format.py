"""Whole turns with the provider of each wire format, against a server that checks what it is sent."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import anyio
import httpx
import pytest

from seqoria_runtime import AsyncAIClient, LocalToolbox
from seqoria_runtime.models import AssistantMessage, ChatChunk, ToolCallError, ToolCallResult, ToolMessages
from seqoria_runtime.models.errors import OverloadedError, RateLimitError
from seqoria_runtime.providers import RetryPolicy
from tests.support.histories import check_history
from tests.support.wire_formats import FORMATS, Chat, Messages
from tests.support.wires import Body, Stream

all_formats = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)


class Answer(httpx.AsyncByteStream):
    """A body that comes line by line; one that hangs never ends."""

    def __init__(self, data: bytes, *, hangs: bool) -> None:
        self.data = data
        self.hangs = hangs
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for line in self.data.splitlines(keepends=True):
            yield line
        if self.hangs:
            await anyio.sleep_forever()

    async def aclose(self) -> None:
        self.closed = True


class Desk:
    """A server of one format and the client that asks it; each request has each call answered once."""

    def __init__(self, form: type[Stream], *streams: Stream | httpx.Response) -> None:
        self.form = form
        self.bodies: list[Body] = []
        self.answers: list[Answer] = []
        self.history: list[Any] = []
        self.tools = LocalToolbox()
        self.done: list[str] = []
        self.hangs = False
        self._streams = list(streams)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body: Body = json.loads(request.content)
        self.bodies.append(body)
        called = [call_id for call_id, _, _ in self.form.called(body)]
        assert called == [call_id for call_id, _ in self.form.answered(body)]
        stream = self._streams.pop(0)
        if isinstance(stream, httpx.Response):
            return stream
        self.answers.append(Answer(stream.data, hangs=self.hangs))
        return httpx.Response(200, headers={"content-type": self.form.content_type}, stream=self.answers[-1])

    def provider(self, **settings: Any) -> Any:
        http = httpx.AsyncClient(transport=httpx.MockTransport(self))
        return self.form.provider("m", base_url="http://localhost:1", http_client=http, **settings)

    def client(self, *more: Any, **settings: Any) -> AsyncAIClient:
        return AsyncAIClient(
            [self.provider(**settings), *more], local_toolbox=self.tools, system_prompt="", tool_timeout=60
        )

    async def chat(self, client: AsyncAIClient, query: str = "go on") -> list[Any]:
        async with client.chat(query, history=self.history) as turn:
            return [event async for event in turn]

    def store(self) -> None:
        """Keep the history as JSON and load it as plain dictionaries, as an application does."""
        kept = [one if isinstance(one, dict) else one.model_dump(mode="json") for one in self.history]
        self.history[:] = json.loads(json.dumps(kept))


def said(form: type[Stream], text: str) -> Stream:
    return form().start().text(text).end()


def calls(form: type[Stream], *wanted: tuple[str | None, str | None, str], why: str = "calls") -> Stream:
    stream = form().start()
    for call_id, name, arguments in wanted:
        stream.call(call_id, name, arguments)
    return stream.end(why)


def adding(desk: Desk) -> None:
    @desk.tools.tool(description="Add.")
    def add(a: int, b: int) -> int:
        desk.done.append(f"{a}+{b}")
        return a + b


def results(events: Sequence[Any]) -> list[str]:
    return [
        message.result if isinstance(message, ToolCallResult) else message.error
        for event in events
        if isinstance(event, ToolMessages)
        for message in event
        if isinstance(message, (ToolCallResult, ToolCallError))
    ]


@pytest.mark.case("B1", "B3")
@pytest.mark.clause("C15", "C18")
@all_formats
@pytest.mark.parametrize("stored", [False, True], ids=["models", "stored"])
async def test_after_a_round_that_was_cut_off_the_api_gets_a_history_that_it_takes(
    form: type[Stream], stored: bool
) -> None:
    desk = Desk(form, calls(form, ("c1", "book", "{}"), ("c2", "slow", "{}")), said(form, "ok"))

    @desk.tools.tool(description="Book.")
    def book() -> str:
        desk.done.append("booked")
        return "seat 5"

    @desk.tools.tool(description="Take long.")
    async def slow() -> str:
        await anyio.sleep(50)
        return "never"

    async with desk.client() as client:
        with anyio.move_on_after(0.5):
            await desk.chat(client, "book one")
        check_history(desk.history)
        if stored:
            desk.store()
        assert (await desk.chat(client))[-1].content == "ok"
    assert desk.done == ["booked"]
    texts = [text for _, text in form.answered(desk.bodies[-1])]
    assert texts[0] == "seat 5"
    assert "cancelled while running; it may have taken effect" in texts[1]


@pytest.mark.case("B6")
@pytest.mark.clause("C91")
@all_formats
async def test_results_go_back_in_the_order_of_the_calls_whatever_finished_first(form: type[Stream]) -> None:
    first = form().start().text("Let me see.")
    for number, seconds in enumerate((3, 1, 2), 1):
        first.call(f"c{number}", "work", json.dumps({"seconds": seconds}))
    desk = Desk(form, first.end("calls"), said(form, "ok"))

    @desk.tools.tool(description="Work.")
    async def work(seconds: int) -> str:
        await anyio.sleep(seconds)
        desk.done.append(str(seconds))
        if seconds == 1:
            raise ValueError("out of paper")
        return f"took {seconds}"

    async with desk.client() as client:
        await desk.chat(client)
    assert desk.done == ["1", "2", "3"]
    texts = [text for _, text in form.answered(desk.bodies[-1])]
    assert (texts[0], texts[2]) == ("took 3", "took 2")
    assert "out of paper" in texts[1]
    assert "Let me see." in json.dumps(desk.bodies[-1])
    if form is Messages:
        [assistant] = [one for one in desk.bodies[-1]["messages"] if one["role"] == "assistant"]
        answers = desk.bodies[-1]["messages"][-1]["content"]
        assert [one["type"] for one in assistant["content"]] == ["text", *["tool_use"] * 3]
        assert [one.get("is_error", False) for one in answers] == [False, True, False]


@pytest.mark.case("B5")
@all_formats
@pytest.mark.parametrize("stored", [False, True], ids=["models", "stored"])
async def test_ids_that_servers_use_again_confuse_nothing(form: type[Stream], stored: bool) -> None:
    def one(call_id: str | None, a: int) -> tuple[str | None, str, str]:
        return call_id, "add", json.dumps({"a": a, "b": a + 1})

    desk = Desk(
        form,
        *(calls(form, one("k0", 1)), said(form, "ok"), calls(form, one("k0", 3)), said(form, "ok")),
        *(calls(form, one("k0", 5), one("k0", 7), one("", 9), one(None, 11)), said(form, "ok")),
    )
    adding(desk)
    async with desk.client() as client:
        found = []
        for _ in range(3):
            found += results(await desk.chat(client))
            if stored:
                desk.store()
    assert found == ["3", "7", "11", "15", "19", "23"]
    sent = form.answered(desk.bodies[-1])
    assert [text for _, text in sent] == found
    assert len({call_id for call_id, _ in sent[2:]}) == 4


@pytest.mark.case("G1", "G4")
@all_formats
async def test_what_the_model_gets_wrong_is_answered_call_by_call(form: type[Stream]) -> None:
    good = '{"a": 1, "b": 2}'
    desk = Desk(
        form,
        calls(
            form,
            *(("1", "add", good), ("2", "ad", good), ("3", "", good), ("4", None, good)),
            *(("5", "add<|x|>commentary", good), ("6", "add", "[1]"), ("7", "add", '{"a":')),
            *(("8", "add", json.dumps(good)), ("9", "add", "null")),
        ),
        said(form, "ok"),
    )
    adding(desk)
    async with desk.client() as client:
        found = results(await desk.chat(client))
    assert (found[0], found[7]) == ("3", "3")
    assert desk.done == ["1+2", "1+2"]
    for number in (1, 2, 3, 4):
        assert "add" in found[number]
        assert len(found[number]) < 1000
    assert "[1]" in found[5]
    for _, name, arguments in form.called(desk.bodies[-1]):
        assert name
        assert len(name) <= 64
        assert name.replace("_", "a").replace("-", "a").isalnum()
        assert isinstance(arguments, dict)


@pytest.mark.case("F5")
@all_formats
async def test_a_tool_without_parameters_runs_and_one_with_them_says_what_it_misses(
    form: type[Stream],
) -> None:
    desk = Desk(form, calls(form, ("1", "now", ""), ("2", "now", " \n"), ("3", "add", "")), said(form, "ok"))
    adding(desk)

    @desk.tools.tool(description="The time.")
    def now() -> str:
        return "noon"

    async with desk.client() as client:
        found = results(await desk.chat(client))
    assert found[:2] == ["noon", "noon"]
    assert re.search(r"\ba\b\s+Field required", found[2])
    assert [arguments for _, _, arguments in form.called(desk.bodies[-1])] == [{}, {}, {}]


@pytest.mark.case("G2")
@pytest.mark.clause("C95")
@all_formats
@pytest.mark.parametrize("cut", ['{"a": 3, "b', '{"a": 3, "b": 4}'], ids=["broken", "whole"])
async def test_a_call_that_the_limit_cut_never_runs_and_the_one_before_it_does(
    form: type[Stream], cut: str
) -> None:
    whole = ("1", "add", '{"a": 1, "b": 2}')
    desk = Desk(form, calls(form, whole, ("2", "add", cut), why="length"), said(form, "ok"))
    adding(desk)
    async with desk.client() as client:
        found = results(await desk.chat(client))
    assert desk.done == ["1+2"]
    assert found[0] == "3"
    assert "output limit" in found[1]
    assert all(isinstance(arguments, dict) for _, _, arguments in form.called(desk.bodies[-1]))


@pytest.mark.case("G2")
@pytest.mark.clause("C19")
@all_formats
async def test_a_call_that_is_still_being_written_as_the_turn_is_left_is_nowhere(
    form: type[Stream],
) -> None:
    stream = form().start().text("Let ").call("c1", "add", '{"a": 1, "b": 2}')
    desk = Desk(form, stream)
    desk.hangs = True
    adding(desk)
    async with desk.client() as client:
        with anyio.move_on_after(5) as scope:
            async with client.stream_chat("hi", history=desk.history) as turn:
                async for _ in turn:
                    pass
        assert scope.cancelled_caught
    assert (desk.done, desk.history) == ([], [])
    assert desk.answers[0].closed


@pytest.mark.case("J1")
@pytest.mark.clause("C20", "C92")
@all_formats
@pytest.mark.parametrize("after", ["text", "call"])
async def test_an_error_after_output_ends_the_turn_and_runs_no_tool(form: type[Stream], after: str) -> None:
    stream = form().start()
    stream = stream.text("Hel") if after == "text" else stream.call("c1", "add", '{"a": 1, "b": 2}')
    desk = Desk(form, stream.error("overloaded_error", "busy"))
    adding(desk)
    text: list[str] = []

    async def consume(client: AsyncAIClient) -> None:
        async with client.stream_chat("hi", history=desk.history) as turn:
            async for event in turn:
                assert isinstance(event, ChatChunk)
                text.append(event.content)

    async with desk.client(Desk(form).provider()) as client:
        with pytest.raises(OverloadedError, match="busy"):
            await consume(client)
    assert "".join(text) == ("Hel" if after == "text" else "")
    assert (desk.done, desk.history) == ([], [])


@pytest.mark.case("J3")
@pytest.mark.clause("C92")
@all_formats
@pytest.mark.parametrize("begun", [False, True])
async def test_a_cancelled_turn_asks_no_other_provider(form: type[Stream], begun: bool) -> None:
    desk, other = Desk(form, form().start().text("H") if begun else form()), Desk(form)
    desk.hangs = True
    async with desk.client(other.provider()) as client:
        with anyio.move_on_after(5) as scope:
            async with aclosing(client.stream_chat("hi", history=desk.history)) as turn:
                async for _ in turn:
                    pass
        assert scope.cancelled_caught
    assert (len(desk.bodies), len(other.bodies)) == (1, 0)
    assert desk.answers[0].closed


@pytest.mark.case("J3")
@all_formats
@pytest.mark.parametrize("other", FORMATS, ids=lambda form: f"then-{form.name}")
async def test_the_next_provider_gets_the_whole_question_and_nothing_of_the_failed_answer(
    form: type[Stream], other: type[Stream]
) -> None:
    first = Desk(form, calls(form, ("c1", "add", '{"a": 1, "b": 2}')), form().start().error("x", "gone"))
    second = Desk(other, said(other, "ok"))
    adding(first)
    async with first.client(second.provider()) as client:
        events = await first.chat(client)
    assert isinstance(events[-1], AssistantMessage)
    assert events[-1].content == "ok"
    assert [(name, arguments) for _, name, arguments in other.called(second.bodies[0])] == [
        ("add", {"a": 1, "b": 2})
    ]
    assert [text for _, text in other.answered(second.bodies[0])] == ["3"]


@pytest.mark.case("J2")
@pytest.mark.clause("C93", "C94")
@all_formats
@pytest.mark.parametrize(
    ("headers", "parsed", "wait"),
    [
        ({"retry-after": "2"}, 2.0, 2.0),
        ({"retry-after": "0"}, 0.0, 0.0),
        ({"retry-after": "1.5"}, 1.5, 1.5),
        ({"retry-after-ms": "250"}, 0.25, 0.25),
        ({"retry-after": "-1"}, None, 0.5),
        ({"retry-after": "nan"}, None, 0.5),
        ({"retry-after": "inf"}, None, 0.5),
        ({"retry-after": "soon"}, None, 0.5),
        ({"retry-after": "Fri, 31 Dec 99999 23:59:59 GMT"}, None, 0.5),
        ({"retry-after": "90"}, 90.0, None),
        ({"retry-after": "999999"}, 999999.0, None),
    ],
    ids=lambda value: next(iter(value.values()), "") if isinstance(value, dict) else "",
)
async def test_the_wait_that_a_server_asks_for_holds_for_each_provider(
    form: type[Stream], headers: dict[str, str], parsed: float | None, wait: float | None
) -> None:
    def busy() -> httpx.Response:
        return httpx.Response(429, json={"error": {"message": "slow down"}}, headers=headers)

    once = Desk(form, busy())
    async with once.client() as client:
        began = anyio.current_time()
        with pytest.raises(RateLimitError) as caught:
            await once.chat(client)
        assert (caught.value.retry_after, anyio.current_time()) == (parsed, began)
    desk = Desk(form, busy(), said(form, "ok"))
    policy = RetryPolicy(max_attempts=3, backoff_base=0.5, random=lambda: 1.0)
    async with desk.client(retry=policy) as client:
        began = anyio.current_time()
        if wait is None:
            with pytest.raises(RateLimitError):
                await desk.chat(client)
            assert anyio.current_time() == began
        else:
            await desk.chat(client)
            assert anyio.current_time() - began == pytest.approx(wait)


@pytest.mark.case("I6")
@pytest.mark.clause("C10")
@all_formats
async def test_a_forced_choice_holds_for_the_first_round_only(form: type[Stream]) -> None:
    desk = Desk(form, calls(form, ("c1", "add", '{"a": 1, "b": 2}')), said(form, "ok"))
    adding(desk)
    async with desk.client() as client, client.chat("hi", history=desk.history, tool_choice="add") as turn:
        assert [type(event) async for event in turn] == [ToolMessages, AssistantMessage]
    first, second = (json.dumps(body.get("tool_choice")) for body in desk.bodies)
    if form is Chat or form is Messages:
        assert "add" in first
    assert "add" not in second
