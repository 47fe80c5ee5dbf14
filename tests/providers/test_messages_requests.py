"""What is sent to a Messages server."""

import json
from typing import Any

import pytest

from seqoria_runtime.models import (
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolCallError,
    ToolCallRequest,
    ToolCallResult,
    UserMessage,
)
from seqoria_runtime.models.errors import InvalidRequestError
from seqoria_runtime.providers import ModelRequest, ToolDefinition
from seqoria_runtime.providers._anthropic.request import encode_messages
from tests.support.wire_formats import Messages
from tests.support.wires import ADD, NOW

USER = UserMessage(content="hi")
SIGNED = {"type": "thinking", "thinking": "Let me é add.", "signature": "EqQBCgIYAhIM+/=="}


def call(call_id: str, name: str = "add", **arguments: Any) -> ToolCallRequest:
    return ToolCallRequest(id=call_id, name=name, arguments=arguments, response_id="r")


def result(call_id: str, text: str = "3") -> ToolCallResult:
    return ToolCallResult(tool_call_id=call_id, result=text, response_id="r")


def came(*blocks: dict[str, Any], content: str = "") -> AssistantMessage:
    return AssistantMessage(
        content=content, response_id="r", wire_format="anthropic_messages", blocks=list(blocks)
    )


@pytest.mark.case("B6")
@pytest.mark.clause("C91")
def test_a_round_is_one_assistant_message_and_one_user_message_of_results() -> None:
    failed = ToolCallError(tool_call_id="b", name="add", error="boom", response_id="r")
    body = Messages.body([
        SystemMessage(content="Be brief."),
        USER,
        AssistantMessage(content="Sums.", response_id="r"),
        call("a", a=1),
        call("b"),
        failed,
        result("a", "one"),
        UserMessage(content="go on"),
        SystemMessage(content="Be kind."),
    ])
    assert body["system"] == [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]
    assert body["messages"] == [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Sums."},
                {"type": "tool_use", "id": "a", "name": "add", "input": {"a": 1}},
                {"type": "tool_use", "id": "b", "name": "add", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "one"},
                {"type": "tool_result", "tool_use_id": "b", "content": "boom", "is_error": True},
            ],
        },
        {"role": "user", "content": "go on"},
    ]


@pytest.mark.case("I1")
@pytest.mark.clause("C91", "C15")
def test_what_came_in_one_response_goes_back_as_it_came_also_from_storage() -> None:
    answer = Messages().start().thinking("Let me ", "é add.", signature=SIGNED["signature"]).text("Adding.")
    answer.open({"type": "redacted_thinking", "data": "b3BhcXVl"}).close()
    answer.call("toolu_1", "add", '{"a": 1}').end("calls")
    batch = answer.read().batch
    assert batch.message is not None
    stored = [json.loads(message.model_dump_json()) for message in (batch.message, *batch.tool_calls)]
    history: list[ChatMessage] = [
        USER,
        AssistantMessage.model_validate(stored[0]),
        ToolCallRequest.model_validate(stored[1]),
        ToolCallResult(tool_call_id="toolu_1", result="3", response_id=batch.message.response_id),
    ]
    assistant, results = Messages.body(history)["messages"][1:]
    assert assistant["content"] == [
        SIGNED,
        {"type": "text", "text": "Adding."},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}},
    ]
    assert results["content"] == [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "3"}]
    later = Messages.body([*history, AssistantMessage(content="3"), USER])["messages"]
    assert later[1:3] == [assistant, results]


@pytest.mark.case("I5")
def test_blank_blocks_and_reasoning_that_leads_nowhere_are_left_out() -> None:
    blank = {"type": "text", "text": "\n\n"}
    messages = Messages.body([USER, came(SIGNED, blank, {"type": "tool_call", "index": 0}), call("a")])[
        "messages"
    ]
    assert [block["type"] for block in messages[1]["content"]] == ["thinking", "tool_use"]
    assert len(Messages.body([USER, came(blank), USER])["messages"]) == 2
    assert len(Messages.body([USER, came(SIGNED), USER])["messages"]) == 2
    cut = Messages.body([USER, came({"type": "text", "text": "x"}, SIGNED), USER])["messages"]
    assert cut[1]["content"] == [{"type": "text", "text": "x"}]
    assert Messages.body([UserMessage(content=" "), USER, UserMessage(content=None)])["messages"] == [
        {"role": "user", "content": "hi"}
    ]


@pytest.mark.case("I3")
def test_unsigned_reasoning_goes_back_only_where_the_server_signs_nothing() -> None:
    unsigned = {"type": "thinking", "thinking": "hm", "signature": ""}
    request = ModelRequest([USER, came(unsigned, {"type": "text", "text": "x"})])
    for signed_only, kept in ((True, ["text"]), (False, ["thinking", "text"])):
        made = encode_messages(request, model="m", options={}, stream=True, signed_only=signed_only)
        assert [block["type"] for block in json.loads(made.body)["messages"][1]["content"]] == kept


def test_places_of_calls_that_are_not_there_and_calls_without_a_place() -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "tool_call", "index": 1},
        {"type": "text", "text": "x"},
        {"type": "tool_call", "index": 7},
    ]
    sent = Messages.body([USER, came(*blocks), call("a"), call("b"), result("a"), result("b")])["messages"]
    assert [block.get("id") or block["text"] for block in sent[1]["content"]] == ["b", "x", "a"]
    assert [block["tool_use_id"] for block in sent[2]["content"]] == ["a", "b"]


def test_fields_of_a_call_go_back_with_it() -> None:
    place = {"type": "tool_call", "index": 0, "caller": {"type": "direct"}}
    sent = Messages.body([USER, came(place), call("a")])["messages"][1]["content"]
    assert sent == [{"caller": {"type": "direct"}, "type": "tool_use", "id": "a", "name": "add", "input": {}}]


def test_the_limit_that_the_api_demands_is_sent_where_none_is_set() -> None:
    assert Messages.body()["max_tokens"] == 4096
    assert Messages.body(max_tokens=7)["max_tokens"] == 7
    assert Messages.body(extra_body={"max_tokens": 8})["max_tokens"] == 8
    thinking = {"type": "enabled", "budget_tokens": 10_000}
    assert Messages.body(thinking=thinking)["max_tokens"] == 14_096
    assert Messages.body(thinking={"type": "adaptive"})["max_tokens"] == 4096


def test_nothing_else_is_sent_that_was_not_asked_for() -> None:
    messages = [{"role": "user", "content": "hi"}]
    assert Messages.body(stream=False) == {"model": "m", "max_tokens": 4096, "messages": messages}
    assert Messages.body(tools=[ADD]).keys() == {"model", "max_tokens", "messages", "tools", "stream"}


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", {"type": "auto"}),
        ("required", {"type": "any"}),
        ("none", {"type": "none"}),
        ("add", {"type": "tool", "name": "add"}),
        (None, None),
    ],
)
def test_a_choice_of_tools_is_put_in_the_formats_words(choice: str | None, sent: Any) -> None:
    body = Messages.body(tools=[ADD, NOW], tool_choice=choice)
    assert body.get("tool_choice") == sent
    assert len(body["tools"]) == 2


def test_one_call_at_a_time_is_part_of_the_choice() -> None:
    body = Messages.body(tools=[ADD], tool_choice="required", disable_parallel_tool_use=True)
    assert body["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    body = Messages.body(tools=[ADD], disable_parallel_tool_use=True)
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    body = Messages.body(tools=[ADD], tool_choice="none", disable_parallel_tool_use=True)
    assert body["tool_choice"] == {"type": "none"}


def test_tools_go_out_with_their_schema_and_strict_ones_where_that_is_asked_for() -> None:
    strict = ToolDefinition("f", "", {**ADD.parameters, "additionalProperties": False})
    assert Messages.body(tools=[ADD, NOW])["tools"] == [
        {"name": "add", "input_schema": ADD.parameters, "description": "Add two numbers."},
        {"name": "now", "input_schema": {"type": "object", "properties": {}}},
    ]
    tools = Messages.body(tools=[strict, ADD, NOW], strict_tools=True)["tools"]
    assert [tool.get("strict") for tool in tools] == [True, None, None]


@pytest.mark.parametrize(
    ("block", "sent"),
    [
        ({"type": "text", "text": "x"}, {"type": "text", "text": "x"}),
        ({"type": "text", "text": " "}, None),
        ({"type": "image", "url": "https://h/x.png"}, {"type": "url", "url": "https://h/x.png"}),
        ({"type": "image", "base64": "QUJD"}, {"type": "base64", "media_type": "image/jpeg", "data": "QUJD"}),
        (
            {"type": "image", "base64": "QUJD", "media_type": "image/png"},
            {"type": "base64", "media_type": "image/png", "data": "QUJD"},
        ),
        ({"type": "image_url", "image_url": "https://h/x.png"}, {"type": "url", "url": "https://h/x.png"}),
        (
            {"type": "image_url", "image_url": {"url": "data:image/webp;base64,QUJD", "detail": "low"}},
            {"type": "base64", "media_type": "image/webp", "data": "QUJD"},
        ),
    ],
)
def test_content_blocks_of_a_user_are_put_into_the_format(block: dict[str, Any], sent: Any) -> None:
    content = Messages.body([UserMessage(content=[{"type": "text", "text": "see"}, block])])["messages"][0][
        "content"
    ]
    if block["type"] != "text":
        sent = {"type": "image", "source": sent}
    assert content == [{"type": "text", "text": "see"}] + ([sent] if sent else [])


def test_native_blocks_and_marks_for_the_cache_go_out_as_they_are() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    native: list[dict[str, Any]] = [
        {"type": "text", "text": "long", **mark},
        {"type": "document", "source": {"type": "url", "url": "https://h/x.pdf"}, **mark},
        {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "container_upload", "file_id": "file_1"},
    ]
    assert Messages.body([UserMessage(content=native)])["messages"][0]["content"] == native
    [image] = Messages.body([UserMessage(content=[{"type": "image", "base64": "QUJD", **mark}])])["messages"][
        0
    ]["content"]
    assert image["cache_control"] == {"type": "ephemeral"}


def test_an_image_block_without_an_image_is_an_error() -> None:
    with pytest.raises(InvalidRequestError, match="as 'url' or as 'base64'"):
        Messages.body([UserMessage(content=[{"type": "image"}])])


def test_structured_output_and_other_options_go_through() -> None:
    options: dict[str, Any] = {
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
        "cache_control": {"type": "ephemeral"},
        "stop_sequences": ["x"],
        "top_k": 5,
    }
    body = Messages.body(**options)
    assert {name: body[name] for name in options} == options
