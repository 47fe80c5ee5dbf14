"""How Responses answers are read, streamed or not, well-formed or not."""

import json
from typing import Any

import pytest

from seqoria_runtime.models import ChatChunk, LLMUsage, ToolCallStarted
from seqoria_runtime.models.errors import (
    ContentFilterError,
    InvalidRequestError,
    LLMError,
    ProviderProtocolError,
    RateLimitError,
    ServerError,
)
from tests.support.wire_formats import Responses

TEXT = {"type": "output_text", "text": "Hi", "annotations": []}
MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [TEXT]}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "add",
    "arguments": '{"a":1}',
    "status": "completed",
}


def whole(*output: Any, **fields: Any) -> dict[str, Any]:
    response = {"id": "resp_1", "object": "response", "model": "gpt", "status": "completed"}
    return response | {"output": list(output), "error": None} | fields


def ended(*output: Any, kind: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "response": whole(*output, **{"status": kind} | fields)}


@pytest.mark.case("I1")
@pytest.mark.clause("C91")
def test_encrypted_reasoning_text_and_calls_are_kept_in_their_order() -> None:
    answer = Responses().start().reasoning("Let me ", "add.", encrypted="gAAAAAB").text("Adding.")
    read = answer.call("call_1", "add", '{"a":', "1}").text("Then.").call("call_2", "now").end().read()
    assert (read.thinking, read.text) == ("Let me add.", "Adding.Then.")
    assert read.calls == [("add", {"a": 1}), ("now", {})]
    assert read.beside.wire_format == "openai_responses"
    assert read.beside.blocks is not None
    assert [block["type"] for block in read.beside.blocks] == [
        *("reasoning", "message", "tool_call", "message", "tool_call"),
    ]
    assert read.beside.blocks[0] == {
        "id": "item_0",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Let me add."}],
        "encrypted_content": "gAAAAAB",
    }
    assert read.beside.blocks[2] == {"type": "tool_call", "index": 0, "id": "item_2"}


def test_calls_that_need_nothing_else_have_no_blocks() -> None:
    assert Responses().start().call("call_1", "now").end("calls").read().batch.message is None


def test_items_of_an_unknown_type_are_kept_as_they_came() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "x"}}
    answer = (
        Responses().start().added({**search, "status": "in_progress"}).done(search).text("It is x.").end()
    )
    message = answer.read().message
    assert message.blocks is not None
    assert (message.blocks[0], message.content) == (search, "It is x.")


def test_fields_of_a_call_that_go_back_are_kept_at_its_place() -> None:
    read = Responses.read_whole(whole({**CALL, "caller": {"type": "direct"}, "namespace": None}))
    assert read.beside.blocks == [
        {"type": "tool_call", "index": 0, "id": "fc_1", "caller": {"type": "direct"}}
    ]


def test_parts_of_a_summary_stand_apart() -> None:
    answer = Responses().start().added({"type": "reasoning", "id": "rs_1", "summary": []})
    for index, piece in [(0, "On"), (0, "e."), (1, "Two.")]:
        answer.event({
            "type": "response.reasoning_summary_text.delta",
            "item_id": "rs_1",
            "summary_index": index,
            "delta": piece,
        })
    answer.event({"type": "response.reasoning_text.delta", "item_id": "rs_2", "delta": "raw"})
    assert answer.end().read().thinking == "One.\n\nTwo.\n\nraw"


def test_reasoning_that_did_not_come_whole_does_not_go_back() -> None:
    answer = Responses().start().added({"type": "reasoning", "id": "rs_1", "encrypted_content": "half"})
    answer.event({"type": "response.reasoning_text.delta", "item_id": "rs_1", "delta": "hm"})
    message = answer.text("Hi").end().read().message
    assert message.thinking == "hm"
    assert message.blocks is not None
    assert [block["type"] for block in message.blocks] == ["message"]


@pytest.mark.case("E5")
def test_what_servers_leave_out_is_not_missed() -> None:
    answer = Responses()
    answer.event({"type": "response.output_item.added", "item": {"type": "message", "content": []}})
    answer.event({"type": "response.output_text.delta", "delta": "Hi"})
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "add", "arguments": ""}
    answer.event({"type": "response.output_item.added", "item": item})
    answer.event({"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": '{"a":'})
    answer.event({"type": "response.function_call_arguments.delta", "delta": "1}"})
    read = answer.event({"type": "response.completed", "response": {}}).read()
    assert (read.text, read.calls) == ("Hi", [("add", {"a": 1})])
    assert read.batch.usage is None
    assert read.beside.blocks == [
        {"role": "assistant", "type": "message", "content": [TEXT]},
        {"type": "tool_call", "index": 0, "id": "fc_1"},
    ]


def test_what_an_item_is_in_the_end_fills_in_what_was_not_streamed() -> None:
    opened = {"type": "function_call", "id": "fc_1"}
    answer = Responses().start().added(opened).done(CALL)
    assert answer.event({"type": "response.completed", "response": {}}).read().calls == [("add", {"a": 1})]
    answer = Responses().start().added({**opened, "name": "add"})
    delta = {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": '{"a":2}'}
    answer.event(delta).event({**delta, "type": "response.function_call_arguments.done", "arguments": ""})
    answer.done({**CALL, "arguments": ""})
    assert answer.event({"type": "response.completed", "response": {}}).read().calls == [("add", {"a": 2})]


@pytest.mark.case("F1")
def test_items_without_ids_are_told_apart_by_their_index() -> None:
    answer = Responses().start()
    for index, name in [(4, "x"), (2, "y")]:
        item = {"type": "function_call", "call_id": name, "name": name}
        answer.event({"type": "response.output_item.added", "output_index": index, "item": item})
    for piece in ('{"n":', "5}"):
        for index in (4, 2):
            delta = {"type": "response.function_call_arguments.delta", "output_index": index, "delta": piece}
            answer.event(delta)
    read = answer.event({"type": "response.completed", "response": {}}).read()
    assert read.calls == [("x", {"n": 5}), ("y", {"n": 5})]


def test_only_the_last_event_may_tell_it_all() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}
    read = Responses().event(ended(reasoning, MESSAGE, CALL)).read()
    assert read.events == [ChatChunk(thinking="hm"), ChatChunk(content="Hi"), ToolCallStarted("add")]
    assert read.calls == [("add", {"a": 1})]


def test_what_was_streamed_is_not_told_again_by_later_events() -> None:
    answer = Responses().start().text("H", "i").call("call_1", "add", '{"a":1}')
    read = answer.event(ended({**MESSAGE, "id": "new"}, {**CALL, "id": "newer"})).read()
    assert (read.text, read.beside.content, read.calls) == ("Hi", "Hi", [("add", {"a": 1})])
    assert len(read.batch.tool_calls) == 1


def test_an_item_that_is_new_in_the_last_event_is_not_taken_for_another() -> None:
    answer = Responses().start().text("Hi")
    first = {**MESSAGE, "id": "unheard", "content": [{**TEXT, "text": "Well. "}]}
    read = answer.event(ended(first, {**MESSAGE, "id": "item_0"})).read()
    assert read.text == "HiWell. "


def test_the_rest_of_a_text_that_was_streamed_in_part_is_given() -> None:
    answer = Responses().start().added({"type": "message", "id": "msg_1", "content": []})
    answer.event({"type": "response.output_text.delta", "item_id": "msg_1", "delta": "H"})
    assert answer.event(ended(MESSAGE)).read().events == [ChatChunk(content="H"), ChatChunk(content="i")]


@pytest.mark.case("F2")
def test_another_id_under_the_same_index_is_another_item() -> None:
    answer = Responses().start()
    for name in "ab":
        item = {"type": "function_call", "id": f"fc_{name}", "call_id": name, "name": "rd", "arguments": ""}
        answer.event({"type": "response.output_item.added", "output_index": 0, "item": item})
        delta = {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": f"fc_{name}"}
        answer.event({**delta, "delta": f'{{"f":"{name}"}}'})
    assert answer.end().read().calls == [("rd", {"f": "a"}), ("rd", {"f": "b"})]


@pytest.mark.case("F4")
def test_an_item_that_is_opened_twice_is_one() -> None:
    answer = Responses().start()
    item = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "now", "arguments": ""}
    for _ in range(2):
        answer.event({"type": "response.output_item.added", "output_index": 0, "item": item})
    read = answer.end().read()
    assert (read.events, read.calls) == ([ToolCallStarted("now")], [("now", {})])


def test_a_refusal_is_text_with_its_own_reason() -> None:
    answer = Responses().start().added({"type": "message", "id": "msg_1", "content": []})
    answer.event({"type": "response.refusal.delta", "item_id": "msg_1", "delta": "I cannot."})
    for read in (
        answer.end().read(),
        Responses.read_whole(whole({**MESSAGE, "content": [{"type": "refusal", "refusal": "I cannot."}]})),
    ):
        assert (read.message.content, read.message.finish_reason) == ("I cannot.", "refusal")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "completed"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "incomplete", "incomplete_details": None}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "of_tomorrow"}}, "of_tomorrow"),
    ],
)
def test_the_reason_of_the_end_is_kept(fields: dict[str, Any], reason: str) -> None:
    assert Responses.read_whole(whole(MESSAGE, **fields)).message.finish_reason == reason
    # Some servers name every end alike and tell the status inside it.
    streamed = Responses().start().event(ended(MESSAGE, **{"status": "completed"} | fields)).read()
    assert streamed.message.finish_reason == reason


def test_an_answer_that_a_filter_withheld_is_an_error() -> None:
    details = {"reason": "content_filter"}
    event = ended(MESSAGE, kind="incomplete", incomplete_details=details)
    error = Responses().start().text("H").event(event).read().error
    assert isinstance(error, ContentFilterError)
    assert error.filter_reason == "content_filter"


@pytest.mark.case("J1")
@pytest.mark.clause("C94")
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("rate_limit_exceeded", RateLimitError),
        ("server_error", ServerError),
        ("invalid_prompt", InvalidRequestError),
        ("image_too_large", InvalidRequestError),
        ("image_content_policy_violation", ContentFilterError),
        (None, ServerError),
    ],
)
def test_a_failed_response_is_the_error_that_its_code_says(
    code: str | None, expected: type[LLMError]
) -> None:
    error = {"code": code, "message": "It failed."}
    for read in (
        Responses().start().text("H").event(ended(kind="failed", error=error)).read(),
        Responses.read_whole(whole(status="failed", error=error)),
    ):
        assert type(read.error) is expected
        assert str(read.error) == "It failed."


def test_a_failed_response_may_say_nothing_of_why() -> None:
    assert isinstance(Responses().event(ended(kind="failed")).read().error, ServerError)


@pytest.mark.clause("C95")
@pytest.mark.parametrize("status", ["queued", "in_progress", "cancelled"])
def test_a_response_that_is_not_done_is_no_answer(status: str) -> None:
    error = Responses.read_whole(whole(status=status)).error
    assert isinstance(error, ProviderProtocolError)
    assert f"did not complete (status {status!r})" in str(error)
    assert isinstance(Responses().start().event(ended(kind="cancelled")).read().error, ProviderProtocolError)


@pytest.mark.case("G2")
def test_a_call_that_was_left_incomplete_does_not_run() -> None:
    [first, second] = Responses.read_whole(
        whole(CALL, {**CALL, "id": "fc_2", "call_id": "call_2", "status": "incomplete"})
    ).batch.tool_calls
    assert (first.truncated, second.truncated) == (False, True)


def test_usage_counts_what_was_cached_and_what_was_thought() -> None:
    usage = {
        "input_tokens": 30,
        "input_tokens_details": {"cached_tokens": 10},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 7},
        "total_tokens": 50,
    }
    assert Responses.read_whole(whole(MESSAGE, usage=usage)).message.usage == LLMUsage(
        prompt_tokens=30, completion_tokens=20, total_tokens=50, cached_tokens=10, reasoning_tokens=7
    )
    assert Responses.read_whole(whole(MESSAGE, usage=None)).message.usage is None


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.output_item.added", "item": None},
        {"type": "response.output_item.done", "item": [1]},
        {"type": "response.output_text.delta", "delta": 5},
        {"type": "response.function_call_arguments.delta", "delta": {}},
        {"type": "response.function_call_arguments.done", "arguments": {}},
        {"type": "response.completed", "response": 5},
        {"type": "response.completed", "response": {"output": [5]}},
        {"type": "response.completed", "response": {"usage": [1]}},
    ],
)
def test_an_event_of_another_shape_is_a_clear_error(event: dict[str, Any]) -> None:
    error = Responses().start().event(event).end().read().error
    assert isinstance(error, ProviderProtocolError)
    assert "malformed stream event (" in str(error)


def test_a_whole_answer_may_be_an_error_alone() -> None:
    assert str(Responses.read_whole({"error": {"message": "busy"}}).error) == "busy"


@pytest.mark.case("F1")
def test_an_output_index_is_a_label_and_items_stand_in_order_of_appearance() -> None:
    stream = Responses().start()
    for index in (7, 2):
        item = {"type": "function_call", "id": f"fc_{index}", "call_id": f"c{index}", "name": "add"}
        written, place = json.dumps({"a": index}), {"output_index": index}
        opened, whole = item | {"arguments": ""}, item | {"arguments": written}
        stream.event({"type": "response.output_item.added", **place, "item": opened})
        labels = place | {"item_id": f"fc_{index}"}
        stream.event({"type": "response.function_call_arguments.delta", **labels, "delta": written})
        stream.event({"type": "response.output_item.done", **place, "item": whole})
    ended = {"status": "completed", "output": []}
    read = stream.event({"type": "response.completed", "response": ended}).read()
    assert read.calls == [("add", {"a": 7}), ("add", {"a": 2})]
