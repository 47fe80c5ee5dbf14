"""What is sent to a Chat Completions server."""

import json
from dataclasses import replace
from typing import Any

import pytest

from seqoria_runtime.models import (
    UNNAMED_TOOL,
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolCallError,
    ToolCallRequest,
    ToolCallResult,
    UserMessage,
)
from seqoria_runtime.models.errors import InvalidRequestError
from seqoria_runtime.providers import PROFILES, ModelRequest, ToolDefinition
from tests.support.chat_wire import ADD, NOW, body, exchange, wire

USER = UserMessage(content="hi")


def call(call_id: str = "c1", name: str = "add", **fields: Any) -> ToolCallRequest:
    return ToolCallRequest(id=call_id, name=name, response_id="r", **fields)


def result(call_id: str = "c1", text: str = "3") -> ToolCallResult:
    return ToolCallResult(tool_call_id=call_id, result=text, response_id="r")


@pytest.mark.case("B6")
@pytest.mark.clause("C91")
def test_the_calls_of_one_response_go_back_in_one_message_and_their_results_in_its_order() -> None:
    history: list[ChatMessage] = [
        SystemMessage(content="Be brief."),
        USER,
        AssistantMessage(content="Three sums.", response_id="r"),
        call("a", arguments={"a": 1, "b": "é"}),
        call("b"),
        call("c"),
        result("c", "three"),
        result("a", "one"),
        ToolCallError(tool_call_id="b", name="add", error="Tool 'add' failed: boom", response_id="r"),
    ]
    assert wire(history) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "Three sums.",
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "add", "arguments": '{"a": 1, "b": "é"}'},
                },
                {"id": "b", "type": "function", "function": {"name": "add", "arguments": "{}"}},
                {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "one"},
        {"role": "tool", "tool_call_id": "b", "content": "Tool 'add' failed: boom"},
        {"role": "tool", "tool_call_id": "c", "content": "three"},
    ]


@pytest.mark.case("B5")
def test_duplicate_ids_of_one_response_go_out_as_two_on_call_and_result_alike() -> None:
    _, assistant, first, second = wire([USER, call("k0"), result("k0", "1"), call("k0"), result("k0", "2")])
    assert [one["id"] for one in assistant["tool_calls"]] == ["k0", "k0_2"]
    assert [(one["tool_call_id"], one["content"]) for one in (first, second)] == [("k0", "1"), ("k0_2", "2")]


@pytest.mark.case("I5")
@pytest.mark.parametrize("text", ["", "\n"])
def test_nothing_blank_goes_out(text: str) -> None:
    history: list[ChatMessage] = [
        SystemMessage(content=text),
        USER,
        AssistantMessage(content=text),
        AssistantMessage(content=text, thinking="only thought"),
        AssistantMessage(content=text, response_id="r"),
        call(),
        result(text=text),
    ]
    system_left_out, assistant, tool = wire(history)
    assert system_left_out["role"] == "user"
    assert assistant["content"] is None
    assert tool["content"] == "(no output)"


def test_a_call_without_an_outcome_is_answered_on_the_wire() -> None:
    assert wire([USER, call()])[-1]["content"] == "No result was recorded for this call."


@pytest.mark.case("G2")
@pytest.mark.clause("C18")
def test_arguments_that_were_broken_go_back_as_json() -> None:
    broken = call("a", invalid_arguments='{"title":"x', truncated=True)
    nan = call("b", arguments={"x": float("nan")})
    cut = call("c", arguments={"title": "x"}, truncated=True)
    message = wire([USER, broken, nan, cut])[1]
    assert [json.loads(one["function"]["arguments"]) for one in message["tool_calls"]] == [
        {},
        {},
        {"title": "x"},
    ]


@pytest.mark.case("G1")
@pytest.mark.parametrize(
    "name", ["add<|x|>commentary", "files.read all", "é", "1st", "x" * 200, UNNAMED_TOOL, "-x"]
)
@pytest.mark.parametrize("profile", ["compatible", "mistral"])
def test_a_name_that_the_model_made_up_goes_back_in_the_grammar_of_names(name: str, profile: str) -> None:
    messages = wire([USER, call(name=name), result()], profile)
    sent = messages[1]["tool_calls"][0]["function"]["name"]
    assert sent.replace("_", "a").replace("-", "a").isalnum()
    assert sent.isascii()
    assert len(sent) <= 64
    assert messages[2].get("name", sent) == sent


@pytest.mark.clause("C104")
def test_tools_are_offered_under_names_that_every_server_takes() -> None:
    odd = ToolDefinition("files.read", "", {})
    odder = ToolDefinition("files/read", "", {})
    names = [tool["function"]["name"] for tool in body(tools=[odd, odder, ADD], tool_choice="auto")["tools"]]
    assert len(set(names)) == 3
    assert names[2] == "add"
    assert all(name.replace("_", "").isalnum() for name in names)
    assert wire([USER, call(name="files.read")])[1]["tool_calls"][0]["function"]["name"] == names[0]


def test_a_tool_is_offered_with_a_schema_even_where_it_takes_nothing() -> None:
    assert body(tools=[ADD, NOW])["tools"] == [
        {
            "type": "function",
            "function": {"name": "add", "description": "Add two numbers.", "parameters": ADD.parameters},
        },
        {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
    ]


@pytest.mark.parametrize(
    ("profile", "choice", "sent"),
    [
        ("compatible", "auto", "auto"),
        ("compatible", "none", "none"),
        ("compatible", "required", "required"),
        ("mistral", "required", "any"),
        ("compatible", "add", {"type": "function", "function": {"name": "add"}}),
        ("llama.cpp", "add", "required"),
        ("ollama", "add", "required"),
    ],
)
def test_a_choice_of_tools_is_put_in_the_servers_words(profile: str, choice: str, sent: Any) -> None:
    assert body(profile=profile, tools=[ADD, NOW], tool_choice=choice)["tool_choice"] == sent


def test_where_a_server_ignores_a_named_choice_nothing_else_is_offered() -> None:
    sent = body(profile="llama.cpp", tools=[ADD, NOW], tool_choice="now")
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["now"]


def test_a_choice_of_a_tool_that_is_not_offered_is_an_error() -> None:
    with pytest.raises(InvalidRequestError, match="'nope'"):
        body(tools=[ADD], tool_choice="nope")


@pytest.mark.case("I5")
def test_without_tools_nothing_about_tools_goes_out() -> None:
    sent = body(tool_choice="auto", parallel_tool_calls=False)
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & sent.keys()
    assert body(tools=[ADD], parallel_tool_calls=False)["parallel_tool_calls"] is False


def test_nothing_is_sent_that_was_not_asked_for() -> None:
    assert body(stream=False) == {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    assert body(tools=[ADD]).keys() == {"model", "messages", "tools", "stream", "stream_options"}


def test_a_stream_asks_for_its_usage_where_the_server_takes_that() -> None:
    assert body()["stream_options"] == {"include_usage": True}
    assert body(stream_options={"include_usage": False})["stream_options"] == {"include_usage": False}
    assert "stream_options" not in body(profile="mistral")
    assert "stream_options" not in body(stream=False, stream_options={"include_usage": True})


def test_an_extra_body_is_merged_in() -> None:
    sent = body(extra_body={"top_k": 5, "temperature": 1}, temperature=0.5)
    assert (sent["top_k"], sent["temperature"]) == (5, 0.5)
    assert "extra_body" not in sent


@pytest.mark.case("I6")
def test_ids_are_mapped_one_to_one_where_the_server_has_a_grammar_for_them() -> None:
    foreign = ["call_abc-123", "toolu_01", "long-id-the-same-1", "long-id-the-same-2", "ABCdef123"]
    history: list[ChatMessage] = [USER]
    for call_id in foreign:
        history += [call(call_id), result(call_id, call_id), USER]
    messages = wire(history, "mistral")
    sent = [one["id"] for message in messages for one in message.get("tool_calls", [])]
    answered = {m["tool_call_id"]: m["content"] for m in messages if m["role"] == "tool"}
    assert all(len(one) == 9 and one.isalnum() and one.isascii() for one in sent)
    assert len(set(sent)) == len(foreign)
    assert sent[-1] == "ABCdef123"
    assert [answered[one] for one in sent] == foreign
    assert [m.id for m in history if isinstance(m, ToolCallRequest)] == foreign


@pytest.mark.case("I6")
def test_the_map_of_ids_is_the_same_in_every_request_and_absent_elsewhere() -> None:
    def sent(history: list[ChatMessage], profile: str) -> str:
        made: str = wire(history, profile)[-2]["tool_calls"][0]["id"]
        return made

    short: list[ChatMessage] = [USER, call("toolu_01"), result("toolu_01")]
    long: list[ChatMessage] = [USER, call("call_abc-123"), result("call_abc-123"), *short]
    assert sent(short, "mistral") == sent(long, "mistral")
    assert sent(short, "compatible") == "toolu_01"


@pytest.mark.case("I6")
def test_an_id_that_is_too_long_is_shortened_everywhere() -> None:
    messages = wire([USER, call("x" * 100), result("x" * 100)])
    assert messages[1]["tool_calls"][0]["id"] == messages[2]["tool_call_id"]
    assert len(messages[2]["tool_call_id"]) <= 40


@pytest.mark.case("I6")
def test_a_user_message_does_not_follow_a_result_where_the_server_refuses_that() -> None:
    history: list[ChatMessage] = [USER, call(), result(), UserMessage(content="go on")]
    assert [message["role"] for message in wire(history, "mistral")] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert wire(history, "mistral")[3]["content"].strip()
    assert [message["role"] for message in wire(history)] == ["user", "assistant", "tool", "user"]


def thoughtful(thinking: str | None = "r1r2") -> list[ChatMessage]:
    return [
        USER,
        AssistantMessage(content="", thinking=thinking, response_id="r"),
        call(),
        result(),
        AssistantMessage(content="3", thinking="easy"),
        UserMessage(content="and now?"),
    ]


@pytest.mark.case("I3")
@pytest.mark.clause("C91")
def test_reasoning_goes_back_with_calls_where_the_server_wants_it() -> None:
    messages = wire(thoughtful(), "deepseek")
    assert messages[1]["reasoning_content"] == "r1r2"
    assert "reasoning_content" not in messages[3]
    assert "reasoning_content" not in wire(thoughtful(None), "deepseek")[1]
    assert wire(thoughtful(), "vllm")[1]["reasoning"] == "r1r2"


@pytest.mark.case("I3")
@pytest.mark.parametrize("profile", ["compatible", "openai", "groq", "mistral", "gemini", "ollama"])
def test_reasoning_is_absent_where_the_server_refuses_unknown_fields(profile: str) -> None:
    for message in wire(thoughtful(), profile):
        assert message.keys() <= {"role", "content", "tool_calls", "tool_call_id", "name"}


@pytest.mark.case("I3")
def test_reasoning_goes_back_always_where_a_profile_says_so() -> None:
    profile = replace(PROFILES["compatible"], replay_reasoning="always", reasoning_field="reasoning")
    assert [message.get("reasoning") for message in wire(thoughtful(), profile)] == [
        None,
        "r1r2",
        None,
        "easy",
        None,
    ]


@pytest.mark.case("I1")
@pytest.mark.clause("C91")
def test_reasoning_blocks_go_back_as_they_came() -> None:
    details = [{"type": "reasoning.text", "text": "hm", "signature": "c2ln"}]
    message = AssistantMessage(
        content="",
        thinking="hm",
        response_id="r",
        wire_format="chat_completions",
        blocks=[{"type": "reasoning_details", "details": details}],
    )
    stored = AssistantMessage.model_validate(json.loads(message.model_dump_json()))
    assert wire([USER, stored, call(), result()], "openrouter")[1]["reasoning_details"] == details
    assert wire([USER, stored, call(), result()])[1].keys() == {"role", "content", "tool_calls"}


def test_blocks_of_another_wire_format_stay_at_home() -> None:
    foreign = AssistantMessage(
        content="x", wire_format="messages", blocks=[{"type": "reasoning_details", "details": [1]}]
    )
    assert wire([USER, foreign], "openrouter")[1] == {"role": "assistant", "content": "x"}


@pytest.mark.clause("C91")
def test_a_signature_of_a_call_goes_back_at_its_place() -> None:
    signed = {"google": {"thought_signature": "c2ln"}}
    message = AssistantMessage(
        response_id="r",
        wire_format="chat_completions",
        blocks=[{"type": "tool_call", "index": 1, "extra_content": signed, "other": 1}],
    )
    history: list[ChatMessage] = [USER, message, call("a"), call("b"), result("a"), result("b")]
    first, second = wire(history, "gemini")[1]["tool_calls"]
    assert "extra_content" not in first
    assert second["extra_content"] == signed
    assert "other" not in second
    assert "extra_content" not in wire(history)[1]["tool_calls"][1]


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        (None, ""),
        ("", ""),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": " "}], [{"type": "text", "text": "a"}]),
        ([{"type": "text", "text": ""}], ""),
        (
            [{"type": "image", "url": "https://h/i.png"}],
            [{"type": "image_url", "image_url": {"url": "https://h/i.png"}}],
        ),
        (
            [{"type": "image", "base64": "QUJD", "media_type": "image/png"}],
            [{"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}],
        ),
        (
            [{"type": "image", "data": "QUJD", "detail": "low"}],
            [{"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,QUJD", "detail": "low"}}],
        ),
        (
            [{"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "QUJD"}}],
            [{"type": "image_url", "image_url": {"url": "data:image/gif;base64,QUJD"}}],
        ),
        (
            [{"type": "image_url", "image_url": "data:image/png;base64,QUJD"}],
            [{"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}],
        ),
        (
            [{"type": "image_url", "image_url": {"url": "https://h/i.png", "detail": "high"}}],
            [{"type": "image_url", "image_url": {"url": "https://h/i.png", "detail": "high"}}],
        ),
        ([{"type": "note", "text": "a"}], [{"type": "text", "text": "a"}]),
        (
            [{"type": "input_audio", "input_audio": {"data": "QUJD"}}],
            [{"type": "input_audio", "input_audio": {"data": "QUJD"}}],
        ),
    ],
)
def test_content_blocks_are_put_into_the_form_of_chat_completions(content: Any, sent: Any) -> None:
    assert wire([UserMessage(content=content)]) == [{"role": "user", "content": sent}]


def test_what_json_cannot_hold_is_an_error_that_says_so() -> None:
    with pytest.raises(InvalidRequestError, match="cannot be written as JSON"):
        body([UserMessage(content=[{"type": "x", "data": b"raw"}])])
    with pytest.raises(InvalidRequestError, match="cannot be written as JSON"):
        body(temperature=float("nan"))


def test_the_body_is_utf_8_whatever_the_text_holds() -> None:
    sent = exchange(ModelRequest([UserMessage(content="漢 \ud83d \u2028")])).body
    assert "漢 ? \u2028" in sent.decode()


def test_named_results_carry_the_tools_name() -> None:
    assert [m.get("name") for m in wire([USER, call(), result()], "gemini")] == [None, None, "add"]
    assert [m.get("name") for m in wire([USER, call(), result()])] == [None, None, None]
