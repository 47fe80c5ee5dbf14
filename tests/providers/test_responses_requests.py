"""What is sent to a Responses server."""

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
from seqoria_runtime.providers import ModelRequest, ToolDefinition
from seqoria_runtime.providers._responses.request import encode_responses
from tests.support.wire_formats import Responses
from tests.support.wires import ADD, NOW

USER = UserMessage(content="hi")
SENT_USER = {"type": "message", "role": "user", "content": "hi"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAAB"}
TEXT = {"type": "output_text", "text": "Adding.", "annotations": []}
MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [TEXT]}
PLACE = {"type": "tool_call", "index": 0, "id": "fc_1"}


def call(call_id: str, name: str = "add", **arguments: Any) -> ToolCallRequest:
    return ToolCallRequest(id=call_id, name=name, arguments=arguments, response_id="r")


def result(call_id: str, text: str = "3") -> ToolCallResult:
    return ToolCallResult(tool_call_id=call_id, result=text, response_id="r")


def came(*blocks: dict[str, Any], content: str = "") -> AssistantMessage:
    return AssistantMessage(
        content=content, response_id="r", wire_format="openai_responses", blocks=list(blocks)
    )


def sent(*messages: ChatMessage, **options: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = Responses.body([USER, *messages], **options)["input"][1:]
    return items


@pytest.mark.case("B6")
@pytest.mark.clause("C91")
def test_a_round_is_the_items_of_the_response_and_then_the_results() -> None:
    failed = ToolCallError(tool_call_id="b", name="add", error="boom", response_id="r")
    body = Responses.body([
        SystemMessage(content="Be brief."),
        USER,
        AssistantMessage(content="Sums.", response_id="r"),
        call("a", a="é"),
        call("b"),
        failed,
        result("a", "one"),
        SystemMessage(content="Be kind."),
    ])
    assert body["instructions"] == "Be brief.\nBe kind."
    assert body["input"] == [
        SENT_USER,
        {"type": "message", "role": "assistant", "content": "Sums."},
        {"type": "function_call", "call_id": "a", "name": "add", "arguments": '{"a": "é"}'},
        {"type": "function_call", "call_id": "b", "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "one"},
        {"type": "function_call_output", "call_id": "b", "output": "boom"},
    ]


@pytest.mark.case("I1")
@pytest.mark.clause("C91", "C15")
def test_what_came_in_one_response_goes_back_as_it_came_also_from_storage() -> None:
    answer = Responses().start().reasoning("hm", encrypted="gAAAAAB").text("Adding.")
    batch = answer.call("call_1", "add", '{"a": 1}').end().read().batch
    assert batch.message is not None
    stored = [json.loads(message.model_dump_json()) for message in (batch.message, *batch.tool_calls)]
    outcome = ToolCallResult(tool_call_id="call_1", result="3", response_id=batch.message.response_id)
    items = sent(
        AssistantMessage.model_validate(stored[0]), ToolCallRequest.model_validate(stored[1]), outcome
    )
    assert items == [
        {
            "type": "reasoning",
            "id": "item_0",
            "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": "gAAAAAB",
        },
        {**MESSAGE, "id": "item_1"},
        {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "3"},
    ]


def test_an_id_of_a_call_goes_back_where_it_is_one_of_the_api() -> None:
    assert sent(came(PLACE), call("a"))[0]["id"] == "fc_1"
    assert "id" not in sent(came({**PLACE, "id": "item_2"}), call("a"))[0]
    assert sent(came({**PLACE, "caller": {"type": "direct"}}), call("a"))[0]["caller"] == {"type": "direct"}


@pytest.mark.case("I3")
@pytest.mark.parametrize("store", [None, True, False])
@pytest.mark.parametrize("held", [{"encrypted_content": "gAAAAAB"}, {"content": [{"text": "hm"}]}, {}])
def test_reasoning_that_the_server_would_have_to_look_up_goes_back_only_where_it_stores(
    store: bool | None, held: dict[str, Any]
) -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None, **held}
    items = sent(came(reasoning, MESSAGE, PLACE), call("a"), store=store)
    goes_back = bool(held) or store is not False
    assert ("reasoning" in [item["type"] for item in items]) is goes_back
    # The others would be refused with their ids, which belong to the reasoning.
    assert ["id" in item for item in items if item["type"] in {"message", "function_call"}] == [goes_back] * 2
    assert all(value is not None for item in items for value in item.values())


@pytest.mark.case("I5")
def test_reasoning_that_leads_nowhere_and_blank_messages_are_left_out() -> None:
    blank = {**MESSAGE, "content": [{**TEXT, "text": ""}]}
    assert sent(came(REASONING), USER) == [SENT_USER]
    assert sent(came(REASONING, blank), USER) == [SENT_USER]
    assert sent(came(blank), UserMessage(content=" "), USER) == [SENT_USER]
    assert [item["type"] for item in sent(came(MESSAGE, REASONING))] == ["message"]


def test_nothing_is_sent_that_was_not_asked_for() -> None:
    assert Responses.body(stream=False) == {"model": "m", "input": [SENT_USER]}
    assert Responses.body(tools=[ADD]).keys() == {"model", "input", "tools", "stream"}


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        ("auto", "auto"),
        ("required", "required"),
        ("none", "none"),
        ("add", {"type": "function", "name": "add"}),
        (None, None),
    ],
)
def test_a_choice_of_tools_is_put_in_the_formats_words(choice: str | None, wanted: Any) -> None:
    assert Responses.body(tools=[ADD, NOW], tool_choice=choice).get("tool_choice") == wanted


def test_tools_are_strict_only_where_that_is_asked_for_and_their_schema_allows_it() -> None:
    strict = ToolDefinition("f", "", {**ADD.parameters, "additionalProperties": False})
    assert Responses.body(tools=[ADD, NOW])["tools"] == [
        {
            "type": "function",
            "name": "add",
            "parameters": ADD.parameters,
            "strict": False,
            "description": "Add two numbers.",
        },
        {
            "type": "function",
            "name": "now",
            "parameters": {"type": "object", "properties": {}},
            "strict": False,
        },
    ]
    tools = Responses.body(tools=[strict, ADD, NOW], strict_tools=True)["tools"]
    assert [tool["strict"] for tool in tools] == [True, False, False]


def test_tools_of_the_server_are_offered_with_the_requests_own() -> None:
    search = {"type": "web_search"}
    request = ModelRequest([USER], tools=[ADD], tool_choice="auto")
    own = json.loads(Responses.exchange(request).body)["tools"]
    assert json.loads(Responses.exchange(request, tools=[search]).body)["tools"] == [*own, search]
    alone = json.loads(Responses.exchange(tools=[search]).body)
    assert alone["tools"] == [search]
    assert "tool_choice" not in alone


@pytest.mark.parametrize(
    ("block", "wanted"),
    [
        ({"type": "text", "text": "x"}, {"type": "input_text", "text": "x"}),
        ({"type": "of_tomorrow", "text": "x"}, {"type": "input_text", "text": "x"}),
        ({"type": "text", "text": " "}, None),
        (
            {"type": "image", "url": "https://h/x.png"},
            {"type": "input_image", "image_url": "https://h/x.png", "detail": "auto"},
        ),
        (
            {"type": "image", "base64": "QUJD", "media_type": "image/png"},
            {"type": "input_image", "image_url": "data:image/png;base64,QUJD", "detail": "auto"},
        ),
        (
            {"type": "image_url", "image_url": {"url": "https://h/x.png", "detail": "low"}},
            {"type": "input_image", "image_url": "https://h/x.png", "detail": "low"},
        ),
        ({"type": "input_file", "file_id": "file_1"}, {"type": "input_file", "file_id": "file_1"}),
        ({"type": "input_text", "text": "x", "mark": 1}, {"type": "input_text", "text": "x", "mark": 1}),
    ],
)
def test_content_blocks_of_a_user_are_put_into_the_format(block: dict[str, Any], wanted: Any) -> None:
    content = Responses.body([UserMessage(content=[{"type": "text", "text": "see"}, block])])["input"][0][
        "content"
    ]
    assert content == [{"type": "input_text", "text": "see"}] + ([wanted] if wanted else [])


def test_a_model_that_takes_no_temperature_gets_none() -> None:
    for model, kept in (("gpt-5-mini", False), ("gpt-4.1", True)):
        made = encode_responses(ModelRequest([USER]), model=model, options={"temperature": 0}, stream=True)
        assert ("temperature" in json.loads(made.body)) is kept


def test_options_that_belong_to_tools_or_to_streams_stay_there() -> None:
    options: dict[str, Any] = {"parallel_tool_calls": False, "max_tool_calls": 3}
    assert Responses.body(**options).keys() == {"model", "input", "stream"}
    assert options.items() <= Responses.body(tools=[ADD], **options).items()
    assert "stream_options" in Responses.body(stream_options={"include_obfuscation": False})
    assert "stream_options" not in Responses.body(stream_options={"include_obfuscation": False}, stream=False)


def test_structured_output_and_other_options_go_through() -> None:
    options: dict[str, Any] = {
        "text": {"format": {"type": "json_schema", "name": "person", "schema": {"type": "object"}}},
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "k",
        "store": False,
    }
    assert options.items() <= Responses.body(**options).items()
