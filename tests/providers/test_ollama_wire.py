"""What is sent to Ollama's chat, and how its answers are read."""

import json
from typing import Any

import pytest

from seqoria_runtime.models import (
    AssistantMessage,
    ChatMessage,
    LLMUsage,
    SystemMessage,
    ToolCallError,
    ToolCallRequest,
    ToolCallResult,
    ToolCallStarted,
    UserMessage,
)
from seqoria_runtime.models.errors import InvalidRequestError, ProviderProtocolError, ServerError
from seqoria_runtime.providers import ToolDefinition
from seqoria_runtime.providers._answers.lines import LineFraming
from tests.support.wire_formats import Ollama
from tests.support.wires import ADD, NOW, read_with

USER = UserMessage(content="hi")
SAID = {"role": "assistant", "content": ""}


def call(call_id: str, name: str = "add", **arguments: Any) -> ToolCallRequest:
    return ToolCallRequest(id=call_id, name=name, arguments=arguments, response_id="r")


def result(call_id: str, text: str = "3") -> ToolCallResult:
    return ToolCallResult(tool_call_id=call_id, result=text, response_id="r")


@pytest.mark.case("F2")
def test_calls_without_ids_in_an_early_line_are_kept_though_the_last_says_stop() -> None:
    calls = [{"function": {"name": "rd", "arguments": {"f": name}}} for name in "ab"]
    answer = Ollama().line(message={"tool_calls": calls}).end().read()
    assert answer.events == [ToolCallStarted("rd"), ToolCallStarted("rd")]
    assert answer.calls == [("rd", {"f": "a"}), ("rd", {"f": "b"})]
    assert len({one.id for one in answer.batch.tool_calls}) == 2


def test_calls_in_lines_of_their_own_stay_apart() -> None:
    answer = Ollama()
    for index, city in enumerate(["Paris", "Rome"]):
        label = {"index": index} if index else {}
        function = {**label, "name": "weather", "arguments": {"city": city}}
        answer.line(message={"tool_calls": [{"index": 0, "function": function}]})
    assert answer.end().read().calls == [("weather", {"city": "Paris"}), ("weather", {"city": "Rome"})]


def test_an_id_that_a_server_does_send_is_kept() -> None:
    assert Ollama().call("call_x1", "now").end().read().batch.tool_calls[0].id == "call_x1"


@pytest.mark.parametrize("field", ["thinking", "reasoning_content", "reasoning"])
def test_reasoning_is_kept_apart_from_the_text(field: str) -> None:
    answer = Ollama().line(message={field: "Let me "}).line(message={field: "add."}).text("Sum.").end().read()
    message = answer.message
    assert (answer.thinking, message.thinking, message.content) == ("Let me add.", "Let me add.", "Sum.")
    assert (message.wire_format, message.blocks) == (
        "ollama_chat",
        [{"type": "thinking", "thinking": "Let me add."}],
    )


def test_usage_and_reason_come_with_the_last_line() -> None:
    message = Ollama().text("Hi").end().read().message
    assert message.usage == LLMUsage(prompt_tokens=7, completion_tokens=3, total_tokens=10)
    assert (message.finish_reason, message.model) == ("stop", "llama")
    bare = Ollama().line(done=True).read().message
    assert (bare.usage, bare.finish_reason) == (None, None)


def test_an_unstreamed_answer_is_one_object() -> None:
    function = {"name": "add", "arguments": {"a": 1}}
    body = {"model": "llama", "message": {**SAID, "tool_calls": [{"function": function}]}, "done": True}
    assert Ollama.read_whole(body).calls == [("add", {"a": 1})]
    # A stream that calls itself JSON, and lines where an object was asked for.
    lines = Ollama().text("Hi").end().data
    assert read_with(Ollama.exchange(), [lines], "application/json").message.content == "Hi"
    assert read_with(Ollama.exchange(stream=False), [lines], "application/x-ndjson").message.content == "Hi"


@pytest.mark.case("J1")
@pytest.mark.clause("C95")
def test_an_error_in_a_line_is_raised_behind_the_text_before_it() -> None:
    words = "an error was encountered while running the model: unexpected EOF"
    answer = Ollama().text("Hel").event({"error": words}).read()
    assert isinstance(answer.error, ServerError)
    assert (str(answer.error), answer.text) == (words, "Hel")
    assert isinstance(Ollama.read_whole({"error": words}).error, ServerError)


@pytest.mark.case("E1")
def test_lines_end_at_line_feeds_alone_and_the_last_needs_none() -> None:
    framing = LineFraming()
    assert framing.feed(b'{"a":1}\r\n\n \n{"b":\xe2\x80\xa8}\n{"c"') == [
        ("", b'{"a":1}\r'),
        ("", b'{"b":\xe2\x80\xa8}'),
    ]
    assert framing.feed(b":3}") == []
    assert framing.close() == [("", b'{"c":3}')]
    assert framing.close() == []
    assert Ollama.read_pieces([Ollama().text("Hi").end().data.rstrip()]).message.content == "Hi"


def test_a_line_that_never_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqoria_runtime.providers._answers.lines._MAX_LINE_BYTES", 10)
    error = Ollama.read_pieces([b"x" * 6, b"x" * 6]).error
    assert isinstance(error, ProviderProtocolError)
    assert "a line of more than 10 bytes" in str(error)


@pytest.mark.case("B6")
@pytest.mark.clause("C91")
def test_a_round_is_one_assistant_message_and_then_its_results_by_name() -> None:
    failed = ToolCallError(tool_call_id="b", name="now", error="boom", response_id="r")
    message = AssistantMessage(content="Sums.", thinking="foreign", response_id="r")
    history: list[ChatMessage] = [SystemMessage(content="Be brief."), USER, message]
    history += [call("a", a=1), call("b", "now")]
    assert Ollama.body([*history, failed, result("a", "one")])["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "Sums.",
            "tool_calls": [
                {"id": "a", "function": {"name": "add", "arguments": {"a": 1}}},
                {"id": "b", "function": {"name": "now", "arguments": {}}},
            ],
        },
        {"role": "tool", "content": "one", "tool_name": "add", "tool_call_id": "a"},
        {"role": "tool", "content": "boom", "tool_name": "now", "tool_call_id": "b"},
    ]


@pytest.mark.case("I1", "I3")
@pytest.mark.clause("C91", "C15")
def test_reasoning_goes_back_with_its_calls_from_storage_too() -> None:
    batch = Ollama().line(message={"thinking": "hm"}).call(None, "add", '{"a":1}').end().read().batch
    assert batch.message is not None
    stored = AssistantMessage.model_validate(json.loads(batch.message.model_dump_json()))
    [request] = batch.tool_calls
    sent = Ollama.body([USER, stored, request])["messages"][1]
    function = {"name": "add", "arguments": {"a": 1}}
    assert sent == {
        "role": "assistant",
        "content": "",
        "thinking": "hm",
        "tool_calls": [{"id": request.id, "function": function}],
    }
    plain = Ollama().line(message={"thinking": "hm"}).text("3").end().read().message
    assert Ollama.body([USER, plain])["messages"][1] == {"role": "assistant", "content": "3"}


@pytest.mark.parametrize(
    ("choice", "offered"),
    [
        ("auto", ["add", "now"]),
        (None, ["add", "now"]),
        ("required", ["add", "now"]),
        ("none", []),
        ("now", ["now"]),
    ],
)
def test_a_choice_of_tools_decides_what_is_offered(choice: str | None, offered: list[str]) -> None:
    body = Ollama.body(tools=[ADD, NOW], tool_choice=choice)
    assert [name for name, _ in Ollama.offered(body)] == offered
    assert "tool_choice" not in body
    assert ("tools" in body) is bool(offered)


def test_a_tool_that_is_not_offered_this_time_keeps_its_name() -> None:
    odd = ToolDefinition("files.read", "", {})
    body = Ollama.body([USER, call("a", "files.read")], tools=[odd], tool_choice="none")
    assert body["messages"][1]["tool_calls"][0]["function"]["name"].startswith("files_read_")


def test_options_go_where_ollama_reads_them() -> None:
    body = Ollama.body(temperature=0, num_ctx=8, stop=["x"], think=True, keep_alive="5m", format="json")
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "think": True,
        "keep_alive": "5m",
        "format": "json",
        "options": {"temperature": 0, "num_ctx": 8, "stop": ["x"]},
        "stream": True,
    }
    assert Ollama.body(stream=False) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": False,
    }


@pytest.mark.parametrize(
    ("blocks", "sent"),
    [
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], {"content": "a\nb"}),
        (
            [{"type": "text", "text": "see"}, {"type": "image", "base64": "QUJD"}],
            {"content": "see", "images": ["QUJD"]},
        ),
        (
            [{"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}],
            {"content": "", "images": ["QUJD"]},
        ),
        ([{"type": "image", "url": "https://h/x.png"}], {"content": "[Image URL: https://h/x.png]"}),
    ],
)
def test_content_blocks_of_a_user_are_put_into_the_format(
    blocks: list[dict[str, Any]], sent: dict[str, Any]
) -> None:
    assert Ollama.body([UserMessage(content=blocks)])["messages"] == [{"role": "user", **sent}]


def test_a_content_block_that_has_no_form_is_an_error() -> None:
    with pytest.raises(InvalidRequestError, match="takes text and images, not a block of type 'document'"):
        Ollama.body([UserMessage(content=[{"type": "document", "source": {}}])])


@pytest.mark.case("H3")
def test_references_are_replaced_and_plain_unions_become_lists_of_types() -> None:
    schema = {
        "type": "object",
        "properties": {
            "node": {"$ref": "#/$defs/Node", "description": "first"},
            "limit": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None},
        },
        "$defs": {
            "Node": {
                "type": "object",
                "description": "a node",
                "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/Node"}},
            }
        },
    }
    [(_, sent)] = Ollama.offered(Ollama.body(tools=[ToolDefinition("walk", "", schema)]))
    assert sent == {
        "type": "object",
        "properties": {
            "node": {
                "type": "object",
                "description": "first",
                "properties": {"name": {"type": "string"}, "next": {"type": "object"}},
            },
            "limit": {"type": ["integer", "null"], "minimum": 1, "default": None},
        },
    }


@pytest.mark.case("E5")
def test_what_servers_leave_out_is_not_missed() -> None:
    stream = Ollama().event({"message": None, "done": False}).event({"model": "llama", "done": False})
    nothing = {"role": "assistant", "content": None, "tool_calls": None, "thinking": None}
    stream.event({"message": nothing, "done": False}).event({"message": {"content": "hi"}, "done": False})
    stream.event({"message": {}, "done": False})
    read = stream.event({"done": True, "done_reason": None, "prompt_eval_count": None}).read()
    assert (read.text, read.message.content, read.message.usage) == ("hi", "hi", None)


@pytest.mark.case("E2")
def test_blank_lines_keep_a_stream_alive_and_say_nothing() -> None:
    read = Ollama().raw(b"\n\n  \n\r\n").start().raw(b"\n").text("hi").raw(b"\r\n\n").end().raw(b"\n").read()
    assert (read.text, read.failure) == ("hi", None)
