"""How Messages answers are read, streamed or not, well-formed or not."""

from typing import Any

import pytest

from seqoria_runtime.models import LLMUsage
from seqoria_runtime.models.errors import ContentFilterError, ProviderProtocolError
from tests.support.wire_formats import Messages


def whole(*content: Any, reason: str | None = "end_turn", **fields: Any) -> dict[str, Any]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude"}
    return message | {"content": list(content), "stop_reason": reason, "usage": {}} | fields


def ended(reason: str | None, **usage: Any) -> Messages:
    delta = {"stop_reason": reason}
    answer = Messages().start().text("Hi")
    answer.event({"type": "message_delta", "delta": delta, "usage": usage})
    return answer.event({"type": "message_stop"})


@pytest.mark.case("I1")
@pytest.mark.clause("C91")
def test_signed_reasoning_text_and_calls_are_kept_in_their_order() -> None:
    answer = Messages().start().thinking("Let me ", "add.", signature="c2lnbmVk").text("Adding.")
    answer.call("toolu_1", "add", '{"a":', "1}").text("And then.").call("toolu_2", "now").end("calls")
    read = answer.read()
    assert (read.thinking, read.text) == ("Let me add.", "Adding.And then.")
    assert read.calls == [("add", {"a": 1}), ("now", {})]
    message = read.beside
    assert (message.content, message.thinking) == ("Adding.And then.", "Let me add.")
    assert message.wire_format == "anthropic_messages"
    assert message.blocks == [
        {"type": "thinking", "thinking": "Let me add.", "signature": "c2lnbmVk"},
        {"type": "text", "text": "Adding."},
        {"type": "tool_call", "index": 0},
        {"type": "text", "text": "And then."},
        {"type": "tool_call", "index": 1},
    ]
    assert {call.response_id for call in read.batch.tool_calls} == {message.response_id}


def test_the_model_that_answered_is_named() -> None:
    assert Messages().start().text("Hi").end().read().message.model == "claude"
    assert Messages.read_whole(whole({"type": "text", "text": "Hi"})).message.model == "claude"
    assert Messages.read_whole(whole(model=None)).message.model == "m"


@pytest.mark.parametrize(
    "begun",
    [Messages().start(), Messages().text(""), Messages().event({"type": "message_delta", "delta": {}})],
)
def test_an_answer_that_has_started_may_end_without_a_reason(begun: Messages) -> None:
    message = begun.event({"type": "message_stop"}).read().message
    assert (message.content, message.finish_reason) == ("", None)


def test_blocks_of_an_unknown_type_are_kept_as_they_came() -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"title": "x"}]}
    answer = Messages().start().open(search).delta(type="input_json_delta", partial_json='{"query":')
    answer.delta(type="input_json_delta", partial_json='"x"}').close().open(found).close()
    answer.open({"type": "redacted_thinking", "data": "b3BhcXVl"}).close()
    answer.open({"type": "text", "text": "", "citations": None}).delta(type="text_delta", text="It is x.")
    answer.delta(type="citations_delta", citation={"cited_text": "x"}).delta(type="of_tomorrow", x=1).close()
    assert answer.end().read().message.blocks == [
        {**search, "input": {"query": "x"}},
        found,
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "text", "text": "It is x.", "citations": [{"cited_text": "x"}]},
    ]


@pytest.mark.parametrize("calls", [0, 2])
def test_an_answer_that_text_and_calls_tell_in_full_has_no_blocks(calls: int) -> None:
    answer = Messages().start().text("Hi")
    for number in range(calls):
        answer.call(f"toolu_{number}", "now")
    read = answer.end("calls" if calls else "stop").read()
    message = read.beside if calls else read.message
    assert (message.content, message.wire_format, message.blocks) == ("Hi", None, None)


def test_fields_of_a_call_that_go_back_are_kept_at_its_place() -> None:
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    block = {"type": "tool_use", "id": "toolu_1", "name": "now", "input": {}, "caller": caller}
    read = Messages().start().open(block).close().end("calls").read()
    assert read.beside.blocks == [{"type": "tool_call", "index": 0, "caller": caller}]


def test_what_belongs_to_no_block_and_an_empty_signature_change_nothing() -> None:
    answer = Messages().start()
    for delta in ({"type": "signature_delta", "signature": "a"}, {"type": "citations_delta", "citation": {}}):
        answer.event({"type": "content_block_delta", "index": 5, "delta": delta})
    answer.open({"type": "thinking", "thinking": "", "signature": "a"}).delta(
        type="thinking_delta", thinking="hm"
    )
    message = answer.delta(type="signature_delta", signature="").close().end().read().message
    assert message.blocks == [{"type": "thinking", "thinking": "hm", "signature": "a"}]


def test_a_second_block_of_reasoning_stands_apart() -> None:
    read = Messages().start().thinking("One.", signature="a").thinking("Two.", signature="b").end().read()
    assert read.thinking == read.message.thinking == "One.\n\nTwo."


@pytest.mark.case("F5")
def test_arguments_may_come_complete_with_the_start_of_the_block() -> None:
    block = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}}
    assert Messages().start().open(block).close().end("calls").read().calls == [("add", {"a": 1})]


@pytest.mark.case("E5")
def test_what_servers_leave_out_is_not_missed() -> None:
    answer = Messages().open({"type": "text"}).delta(type="text_delta", text="Hi")
    answer.event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
    message = answer.event({"type": "message_stop"}).read().message
    assert (message.content, message.model, message.usage) == ("Hi", "m", None)
    answer = Messages().start()
    block = {"type": "tool_use", "id": "x", "name": "add"}
    answer.event({"type": "content_block_start", "index": [], "content_block": block})
    for piece in ('{"a":', "1}"):
        delta = {"type": "input_json_delta", "partial_json": piece}
        answer.event({"type": "content_block_delta", "delta": delta})
    answer.event({"type": "content_block_stop"})
    assert answer.end("calls").read().calls == [("add", {"a": 1})]


@pytest.mark.case("F1")
@pytest.mark.parametrize("labels", [(1, 0), (7, 3), (0, 1)])
def test_an_index_is_a_label_and_blocks_stand_in_order_of_appearance(labels: tuple[int, int]) -> None:
    answer = Messages().start()
    for label, name in zip(labels, "xy", strict=True):
        block = {"type": "tool_use", "id": name, "name": name, "input": {}}
        answer.event({"type": "content_block_start", "index": label, "content_block": block})
    for piece in ('{"n":', "5}"):
        for label in labels:
            delta = {"type": "input_json_delta", "partial_json": piece}
            answer.event({"type": "content_block_delta", "index": label, "delta": delta})
    assert answer.end("calls").read().calls == [("x", {"n": 5}), ("y", {"n": 5})]


def test_a_delta_without_a_block_of_its_kind_opens_one() -> None:
    answer = Messages().start()
    for delta in (
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "text_delta", "text": "Hi"},
        {"type": "text_delta", "text": "!"},
    ):
        answer.event({"type": "content_block_delta", "index": 0, "delta": delta})
    message = answer.end().read().message
    assert (message.content, message.thinking) == ("Hi!", "hm")
    lone = Messages().event({
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": "{}"},
    })
    assert lone.end("calls").read().calls == [("unnamed_tool", {})]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {
                "input_tokens": 1,
                "cache_read_input_tokens": 269,
                "cache_creation_input_tokens": 10,
                "output_tokens": 5,
                "output_tokens_details": {"thinking_tokens": 2},
            },
            LLMUsage(
                prompt_tokens=280,
                completion_tokens=5,
                total_tokens=285,
                cached_tokens=269,
                reasoning_tokens=2,
            ),
        ),
        (
            {"input_tokens": None, "cache_read_input_tokens": None, "output_tokens": 5},
            LLMUsage(prompt_tokens=7, completion_tokens=5, total_tokens=12),
        ),
        ({"output_tokens": "many"}, LLMUsage(prompt_tokens=7, total_tokens=7)),
    ],
)
def test_usage_counts_cached_tokens_and_takes_the_last_word(
    usage: dict[str, Any], expected: LLMUsage
) -> None:
    assert ended("end_turn", **usage).read().message.usage == expected


def test_usage_of_an_unstreamed_answer_is_unknown_if_nothing_was_counted() -> None:
    assert Messages.read_whole(whole({"type": "text", "text": "x"})).message.usage is None
    assert Messages.read_whole(whole({"type": "text", "text": "x"}, usage=None)).message.usage is None
    counted = whole({"type": "text", "text": "x"}, usage={"input_tokens": 7, "output_tokens": 2})
    assert Messages.read_whole(counted).message.usage == LLMUsage(
        prompt_tokens=7, completion_tokens=2, total_tokens=9
    )


@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        ("end_turn", "end_turn"),
        ("stop_sequence", "stop_sequence"),
        ("pause_turn", "pause_turn"),
        ("refusal", "refusal"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        (None, None),
    ],
)
def test_the_reason_of_the_end_is_kept(reason: str | None, kept: str | None) -> None:
    assert ended(reason).read().message.finish_reason == kept
    content = {"type": "text", "text": "Hi"}
    assert Messages.read_whole(whole(content, reason=reason)).message.finish_reason == kept


def test_a_refusal_that_says_nothing_is_an_empty_message() -> None:
    message = Messages().start().end("refusal").read().message
    assert (message.content, message.finish_reason) == ("", "refusal")


def test_a_call_that_a_refusal_cut_does_not_run() -> None:
    [call] = Messages().start().call("toolu_1", "pay", '{"sum":1}').end("refusal").read().batch.tool_calls
    assert call.truncated


def test_an_answer_that_a_filter_withheld_is_an_error() -> None:
    error = ended("content_filter").read().error
    assert isinstance(error, ContentFilterError)
    assert error.filter_reason == "content_filter"


@pytest.mark.clause("C95")
def test_an_end_that_speaks_of_calls_which_never_came_is_an_error() -> None:
    error = Messages().start().end("calls").read().error
    assert "before tool calls completed" in str(error)
    nothing = Messages().event({"type": "message_stop"}).read().error
    assert "ended without a response" in str(nothing)


def test_an_unstreamed_answer_is_read_like_a_streamed_one() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    tool_use = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}}
    read = Messages.read_whole(whole(thinking, {"type": "text", "text": "Sum."}, tool_use, reason="tool_use"))
    assert read.calls == [("add", {"a": 1})]
    assert (read.text, read.thinking) == ("Sum.", "hm")
    assert read.beside.blocks == [
        thinking,
        {"type": "text", "text": "Sum."},
        {"type": "tool_call", "index": 0},
    ]


@pytest.mark.case("J1")
def test_an_unstreamed_answer_may_be_an_error() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    assert str(Messages.read_whole(error).error) == "busy"


@pytest.mark.parametrize(
    "event",
    [
        {"type": "message_start", "message": 5},
        {"type": "message_start", "message": {"usage": 5}},
        {"type": "content_block_start", "index": 0, "content_block": None},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": 5}},
        {"type": "content_block_delta", "index": 0, "delta": 5},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 5}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": {}},
        },
        {"type": "message_delta", "delta": {}, "usage": [1]},
    ],
)
def test_an_event_of_another_shape_is_a_clear_error(event: dict[str, Any]) -> None:
    error = Messages().start().event(event).end().read().error
    assert isinstance(error, ProviderProtocolError)
    assert "malformed stream event (" in str(error)


@pytest.mark.case("E4")
def test_blocks_with_half_surrogate_pairs_can_be_stored() -> None:
    answer = Messages().start().thinking("a\ud83d", "\ude00", signature="c2ln").text("b\ude00").end()
    message = answer.read().message
    message.model_dump_json()
    assert message.blocks is not None
    assert [block.get("thinking") or block.get("text") for block in message.blocks] == ["a😀", "b\ufffd"]


@pytest.mark.case("F4")
def test_a_block_that_is_opened_again_before_its_end_is_one() -> None:
    opened = {"type": "tool_use", "id": "c1", "name": "add", "input": {}}
    again = {"type": "content_block_start", "index": 0, "content_block": opened}
    stream = Messages().start().open(opened).delta(type="input_json_delta", partial_json='{"a":')
    read = stream.event(again).delta(type="input_json_delta", partial_json="1}").close().end("calls").read()
    assert read.calls == [("add", {"a": 1})]
    assert len(read.events) == 1


@pytest.mark.case("B5", "F2")
def test_blocks_of_one_index_and_one_id_are_two_where_the_first_has_ended() -> None:
    stream = Messages().start()
    for number in (1, 2):
        opened = {"type": "tool_use", "id": "k0", "name": "add", "input": {}}
        stream.event({"type": "content_block_start", "index": 0, "content_block": opened})
        delta = {"type": "input_json_delta", "partial_json": f'{{"a":{number}}}'}
        stream.event({"type": "content_block_delta", "index": 0, "delta": delta})
        stream.event({"type": "content_block_stop", "index": 0})
    read = stream.end("calls").read()
    assert read.calls == [("add", {"a": 1}), ("add", {"a": 2})]
    assert len({call.id for call in read.batch.tool_calls}) == 2
