"""How Chat Completions answers are read, streamed or not, well-formed or not."""

from typing import Any

import pytest

from seqoria_runtime.models import AssistantMessage, ChatChunk, LLMUsage
from seqoria_runtime.models.errors import (
    ContentFilterError,
    InvalidRequestError,
    LLMError,
    OverloadedError,
    ProviderProtocolError,
    RateLimitError,
    ServerError,
)
from tests.support.chat_wire import delta, exchange, fragment, read, read_whole, sse

STOP = delta(finish="stop")


def usage(**fields: Any) -> dict[str, Any]:
    return {"choices": [], "usage": fields}


def whole(message: Any, finish: str | None = "stop", **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], **fields}


def test_text_comes_in_chunks_and_then_as_a_message() -> None:
    answer = read(sse(delta(role="assistant", content=""), delta(content="Hel"), delta(content="lo"), STOP))
    assert answer.events == [ChatChunk(content="Hel"), ChatChunk(content="lo")]
    assert answer.message == AssistantMessage(
        content="Hello", model="m", finish_reason="stop", response_id="new1"
    )


@pytest.mark.case("E5")
def test_optional_parts_may_be_empty_or_null_or_missing() -> None:
    answer = read(
        sse(
            {"choices": [], "prompt_filter_results": []},
            delta(content="Hi"),
            {"choices": None},
            {"choices": [None]},
            {"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]},
            {"choices": [{"index": 0, "delta": {}}]},
            {"choices": [], "usage": None},
            usage(prompt_tokens=3, completion_tokens=2, total_tokens=5),
        )
    )
    assert (answer.text, answer.message.content, answer.message.finish_reason) == ("Hi", "Hi", "stop")
    assert answer.message.usage == LLMUsage(prompt_tokens=3, completion_tokens=2, total_tokens=5)


@pytest.mark.case("E5")
def test_usage_that_is_repeated_counts_once() -> None:
    counts = [{"prompt_tokens": 3, "completion_tokens": n, "total_tokens": 3 + n} for n in (1, 2)]
    events = [delta(content=str(count)) | {"usage": count} for count in counts]
    assert read(sse(*events, STOP)).message.usage == LLMUsage(
        prompt_tokens=3, completion_tokens=2, total_tokens=5
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"prompt_tokens": 3, "completion_tokens": 2},
            LLMUsage(prompt_tokens=3, completion_tokens=2, total_tokens=5),
        ),
        ({"prompt_tokens": None, "completion_tokens": None, "total_tokens": None}, None),
        ({"queue_time": 0.1}, None),
        (
            {
                "prompt_tokens": 30,
                "completion_tokens": 20,
                "total_tokens": 50,
                "prompt_tokens_details": {"cached_tokens": 10},
                "completion_tokens_details": {"reasoning_tokens": 7},
            },
            LLMUsage(
                prompt_tokens=30, completion_tokens=20, total_tokens=50, cached_tokens=10, reasoning_tokens=7
            ),
        ),
        (
            {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5, "prompt_cache_hit_tokens": 1},
            LLMUsage(prompt_tokens=3, completion_tokens=2, total_tokens=5, cached_tokens=1),
        ),
        (
            {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5, "prompt_tokens_details": None},
            LLMUsage(prompt_tokens=3, completion_tokens=2, total_tokens=5),
        ),
        ({"prompt_tokens": 3.0, "completion_tokens": "many"}, LLMUsage(prompt_tokens=3, total_tokens=3)),
        ({"prompt_tokens": -1, "completion_tokens": True}, None),
    ],
)
def test_usage_is_what_the_server_counted_and_unknown_where_it_counted_nothing(
    fields: dict[str, Any], expected: LLMUsage | None
) -> None:
    assert read(sse(STOP, usage(**fields))).message.usage == expected
    assert read_whole(whole({"content": "x"}, usage=fields)).message.usage == expected


def test_without_usage_there_is_none() -> None:
    assert read(sse(STOP)).message.usage is None


@pytest.mark.case("E2")
def test_keep_alives_are_not_output_and_nothing_after_the_end_mark_is_read() -> None:
    idle = (
        ": hold",
        "retry: 500",
        "id: 9",
        "event: ping",
        'event: ping\ndata: {"type":"ping"}',
        "data:",
        ":",
    )
    decoder = exchange().decoder("text/event-stream")
    assert not decoder.feed(sse(*idle, "event: note\ndata: not JSON at all", done=False))
    assert decoder.feed(
        b'data:{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n'
    ) == (ChatChunk(content="x"),)
    assert not decoder.ended, "the usage may follow"
    assert not decoder.feed(b"data: [DONE]\n\ndata: not JSON\n\n" + sse(delta(content="more")))
    assert not decoder.feed(sse(delta(content="more")))
    assert not decoder.close()
    assert isinstance(response := decoder.finish(), AssistantMessage)
    assert response.content == "x"


def test_nothing_of_use_follows_the_last_mark() -> None:
    decoder = exchange().decoder("text/event-stream")
    decoder.feed(sse(STOP))
    assert decoder.ended


@pytest.mark.case("E1")
@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "é", "漢", "😄"])
def test_a_character_is_kept_whatever_the_header_says(character: str) -> None:
    written = f'data: {{"choices":[{{"index":0,"delta":{{"content":"a{character}b"}}}}]}}\n\n'
    arguments = f'data: {{"choices":[{{"index":0,"delta":{{"content":"{character}"}}}}]}}\n\n'
    answer = read(
        (written + arguments).encode() + sse(STOP), content_type="text/event-stream; charset=iso-8859-1"
    )
    assert answer.message.content == f"a{character}b{character}"


@pytest.mark.case("E1")
@pytest.mark.parametrize("character", ["\x0b", "\x0c", "\x1c", "\x00"])
@pytest.mark.parametrize("before", [0, 3])
def test_a_raw_control_character_is_a_clear_error(character: str, before: int) -> None:
    plain = 'data: {"choices":[{"index":0,"delta":{"content":"ab"}}]}\n\n'
    odd = plain.replace("ab", f"a{character}b")
    error = read((plain * before + odd).encode() + sse(STOP)).error
    assert isinstance(error, ProviderProtocolError)
    assert "malformed stream event (" in str(error)
    assert "ontrol character" in str(error)


@pytest.mark.case("E4")
@pytest.mark.parametrize("cut", [b"\xe6\xbc", b"\xff", b"\xc3", b"\xed\xa0\xbd"])
@pytest.mark.parametrize("before", [0, 3])
def test_bytes_that_are_not_utf_8_are_an_error_and_not_replaced(cut: bytes, before: int) -> None:
    plain = b'data: {"choices":[{"index":0,"delta":{"content":"ab"}}]}\n\n'
    answer = read(plain * before + plain.replace(b"ab", b"a" + cut))
    assert isinstance(answer.error, ProviderProtocolError)
    assert "malformed stream event" in str(answer.error)
    assert answer.text == "ab" * before


@pytest.mark.case("E4")
def test_half_a_surrogate_pair_waits_for_the_other_half() -> None:
    events = [
        rf'data: {{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}'
        for text in ("a\\ud83d", "\\ude00b", "c")
    ]
    answer = read(sse(*events, STOP))
    assert answer.events == [ChatChunk(content="a"), ChatChunk(content="😀b"), ChatChunk(content="c")]
    assert answer.message.content == "a😀bc"


@pytest.mark.case("E4")
def test_half_a_surrogate_pair_that_stands_alone_becomes_a_replacement_mark() -> None:
    plain = delta(content="x")
    events = [
        rf'data: {{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}'
        for text in ("\\ude00", "\\ud83d")
    ]
    answer = read(sse(plain, *events, plain, STOP))
    assert answer.text == answer.message.content == "x\ufffd\ufffdx"
    answer.message.model_dump_json()


@pytest.mark.clause("C95")
@pytest.mark.parametrize(
    "events", [[delta(content="Hel")], [delta(content="")], [fragment(id="a", name="x")], []]
)
def test_an_answer_without_its_end_mark_is_an_error(events: list[dict[str, Any]]) -> None:
    answer = read(sse(*events, done=False))
    assert isinstance(answer.error, ProviderProtocolError)
    assert "without a completion event" in str(answer.error)


@pytest.mark.clause("C95")
def test_a_finish_reason_or_the_last_mark_ends_an_answer() -> None:
    assert read(sse(delta(content="x"), STOP, done=False)).message.finish_reason == "stop"
    assert read(sse(delta(content="x"))).message.finish_reason is None


def test_an_end_mark_with_nothing_before_it_is_an_error() -> None:
    assert "ended without a response" in str(read(sse()).error)
    assert "ended without a response" in str(read(sse(usage(prompt_tokens=1, completion_tokens=0))).error)


def test_an_empty_answer_that_ends_well_is_an_empty_message() -> None:
    assert not read(sse(STOP)).message.content


@pytest.mark.clause("C95")
@pytest.mark.parametrize("reason", ["tool_calls", "function_call"])
def test_calls_that_were_announced_and_never_came_are_an_error(reason: str) -> None:
    assert "before tool calls completed" in str(read(sse(delta(content=""), delta(finish=reason))).error)


def test_text_cut_by_the_output_limit_is_kept_and_says_so() -> None:
    message = read(sse(delta(content="Once upon"), delta(finish="max_tokens"))).message
    assert (message.content, message.finish_reason) == ("Once upon", "length")


@pytest.mark.clause("C95")
@pytest.mark.parametrize("event", [delta(content="text"), fragment(id="a", name="x", arguments="{}")])
@pytest.mark.parametrize("reason", ["content_filter", "SAFETY"])
def test_an_answer_that_a_filter_withheld_is_an_error_and_runs_no_call(
    event: dict[str, Any], reason: str
) -> None:
    error = read(sse(event, delta(finish=reason))).error
    assert isinstance(error, ContentFilterError)
    assert error.filter_reason == reason.lower()


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("error", ServerError),
        ("insufficient_system_resource", OverloadedError),
        ("abort", ProviderProtocolError),
    ],
)
def test_a_finish_reason_that_tells_of_a_failure_is_one(reason: str, kind: type[LLMError]) -> None:
    assert type(read(sse(delta(content="x"), delta(finish=reason))).error) is kind


def test_a_refusal_is_the_models_answer_and_says_so() -> None:
    answer = read(sse(delta(content=None, refusal="I "), delta(refusal="can't."), STOP))
    assert answer.text == answer.message.content == "I can't."
    assert answer.message.finish_reason == "refusal"
    message = read_whole(whole({"content": None, "refusal": "No."})).message
    assert (message.content, message.finish_reason) == ("No.", "refusal")


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
@pytest.mark.case("I3")
def test_reasoning_is_apart_from_the_text(field: str) -> None:
    answer = read(
        sse(delta(**{field: "r1"}), delta(**{field: "r2"}), delta(**{field: None}, content="Yes"), STOP)
    )
    assert (answer.thinking, answer.text) == ("r1r2", "Yes")
    assert (answer.message.thinking, answer.message.content) == ("r1r2", "Yes")


def test_reasoning_that_a_server_sends_in_two_fields_is_read_once() -> None:
    details = [{"type": "reasoning.text", "text": "because", "index": 0}]
    answer = read(
        sse(delta(reasoning_content="because", reasoning="because", reasoning_details=details), STOP)
    )
    assert answer.message.thinking == "because"


def test_reasoning_details_are_preferred_and_may_hold_no_words() -> None:
    summary = delta(
        reasoning="x", reasoning_details=[{"type": "reasoning.summary", "summary": "short"}, None]
    )
    encrypted = delta(reasoning="y", reasoning_details=[{"type": "reasoning.encrypted", "data": "c2Vj"}])
    assert read(sse(summary, encrypted, STOP)).message.thinking == "shorty"


def test_content_that_comes_in_parts_is_split_into_text_and_reasoning() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "thinking", "thinking": "m"},
        {"type": "text", "text": "Yes"},
        {"type": "reference", "reference_ids": [1]},
    ]
    answer = read(sse(delta(content=parts), STOP))
    assert (answer.thinking, answer.text) == ("hmm", "Yes")
    assert read_whole(whole({"content": parts})).message.thinking == "hmm"


def test_the_model_that_answered_is_named() -> None:
    assert read(sse(delta(content="x") | {"model": "m-2026"}, STOP)).message.model == "m-2026"
    assert read(sse(delta(content="x") | {"model": ""}, STOP)).message.model == "m"


def test_of_several_choices_the_first_is_read() -> None:
    def choice(index: int, text: str, finish: str | None = None) -> dict[str, Any]:
        return {"index": index, "delta": {"content": text}, "finish_reason": finish}

    both = {"choices": [choice(0, "a"), choice(1, "x")]}
    answer = read(sse(both, {"choices": [choice(1, "y", "stop")]}, {"choices": [choice(0, "b", "length")]}))
    assert (answer.message.content, answer.message.finish_reason) == ("ab", "length")


@pytest.mark.case("J1")
@pytest.mark.clause("C94")
@pytest.mark.parametrize("before", [[], [delta(role="assistant", content="")], [delta(content="Hel")]])
@pytest.mark.parametrize(
    ("event", "kind", "status"),
    [
        ({"error": {"message": "busy", "type": "server_error", "code": 503}}, OverloadedError, 503),
        ({"error": {"message": "busy", "type": "overloaded_error"}}, OverloadedError, None),
        ({"error": {"message": "busy", "code": 529}}, OverloadedError, 529),
        ({"error": {"message": "busy", "code": "429"}}, RateLimitError, 429),
        ({"error": {"message": "busy", "type": "server_error", "code": 500}}, ServerError, 500),
        ({"error": {"message": "busy", "code": 7}}, ServerError, None),
        ({"error": {"message": "busy", "type": "invalid_request_error"}}, InvalidRequestError, None),
        ({"error": "busy"}, ServerError, None),
        ({"object": "error", "message": "busy", "code": 400}, InvalidRequestError, 400),
        ('event: error\ndata: {"message":"busy"}', ServerError, None),
        ("event: error\ndata: busy", ServerError, None),
    ],
)
def test_an_error_inside_a_stream_is_raised_after_the_output_before_it(
    before: list[dict[str, Any]], event: Any, kind: type[LLMError], status: int | None
) -> None:
    answer = read(sse(*before, event, delta(content="lost"), STOP))
    assert type(answer.error) is kind
    assert "busy" in str(answer.error)
    assert answer.error.status_code == status
    assert answer.text == "".join(one["choices"][0]["delta"]["content"] for one in before)


@pytest.mark.case("J1")
def test_an_error_inside_a_call_runs_no_call() -> None:
    answer = read(
        sse(fragment(id="a", name="x", arguments='{"a":1}'), {"error": {"message": "busy", "code": 503}})
    )
    assert isinstance(answer.error, OverloadedError)


@pytest.mark.case("J1")
def test_an_error_after_the_text_of_one_read_does_not_swallow_the_text() -> None:
    decoder = exchange().decoder("text/event-stream")
    assert list(decoder.feed(sse(delta(content="Hel"), {"error": "busy"}))) == [ChatChunk(content="Hel")]
    assert decoder.ended
    with pytest.raises(ServerError):
        decoder.finish()


@pytest.mark.clause("C94")
@pytest.mark.parametrize(
    "event",
    [
        "data: nope",
        "data: [1]",
        'data: "text"',
        "data: 1",
        "data: null",
        {"choices": {"0": {}}},
        {"choices": ["x"]},
        {"choices": [{"index": 0, "delta": "x"}]},
        delta(content=5),
        delta(tool_calls={"0": {}}),
        delta(tool_calls=["x"]),
        {"choices": [], "usage": [1]},
        delta(content="x") | {"model": 5},
    ],
)
def test_an_event_of_another_shape_is_a_malformed_one(event: Any) -> None:
    error = read(sse(event, STOP)).error
    assert isinstance(error, ProviderProtocolError)
    assert "malformed stream event" in str(error)


def test_a_malformed_event_is_shown_short_and_without_secrets() -> None:
    error = read(sse('data: {"api_key": "s3cret-value", ' + "x" * 1000)).error
    assert "s3cret-value" not in str(error)
    assert len(str(error)) < 400


@pytest.mark.clause("C94")
@pytest.mark.parametrize(
    "value",
    [
        [],
        "text",
        None,
        {},
        {"choices": []},
        {"choices": None},
        {"choices": "x"},
        {"choices": [{"message": "x"}]},
        {"choices": [{"index": 0}]},
    ],
)
def test_an_unstreamed_answer_of_another_shape_is_a_malformed_response(value: Any) -> None:
    error = read_whole(value).error
    assert isinstance(error, ProviderProtocolError)
    assert "malformed response" in str(error)


def test_an_unstreamed_answer_that_is_not_json_is_a_malformed_response() -> None:
    error = read(b"{malformed json: <<<chaos>>>", content_type="application/json").error
    assert "malformed response (" in str(error)
    assert isinstance(error, ProviderProtocolError)


def test_an_unstreamed_answer_has_the_same_events_as_a_streamed_one() -> None:
    answer = read_whole(whole({"content": "Hi", "reasoning": "hm"}), profile="compatible")
    assert answer.events == [ChatChunk(content="Hi", thinking="hm")]
    assert answer.message.content == "Hi"


def test_an_unstreamed_answer_needs_no_finish_reason() -> None:
    assert read_whole(whole({"content": "Hi"}, finish=None)).message.content == "Hi"


def test_an_unstreamed_answer_may_hold_an_error() -> None:
    assert isinstance(read_whole({"error": {"message": "busy", "code": 503}}).error, OverloadedError)


def test_an_unstreamed_answer_may_be_cut_inside_a_surrogate_pair() -> None:
    body = rb'{"choices":[{"message":{"content":"a\ud83d"},"finish_reason":"length"}]}'
    assert read(body, content_type="application/json").message.content == "a"


@pytest.mark.clause("C15")
@pytest.mark.clause("C91")
def test_what_a_server_wants_back_is_kept_in_the_message() -> None:
    details = [
        {"type": "reasoning.text", "text": "a", "index": 0, "format": "f"},
        {"type": "reasoning.text", "text": "b", "index": 0, "signature": None},
        {"type": "reasoning.text", "index": 0, "signature": "sig"},
        {"type": "reasoning.encrypted", "data": "x", "index": 1},
        {"type": "reasoning.encrypted", "data": "y", "index": 1},
        {"type": "reasoning.summary", "summary": "c"},
    ]
    events = [delta(reasoning_details=[detail]) for detail in details]
    message = read(sse(*events, STOP), profile="openrouter").message
    assert message.wire_format == "chat_completions"
    assert message.blocks == [
        {
            "type": "reasoning_details",
            "details": [
                {"type": "reasoning.text", "text": "ab", "index": 0, "format": "f", "signature": "sig"},
                {"type": "reasoning.encrypted", "data": "x", "index": 1},
                {"type": "reasoning.encrypted", "data": "y", "index": 1},
                {"type": "reasoning.summary", "summary": "c"},
            ],
        }
    ]
    assert AssistantMessage.model_validate(message.model_dump(mode="json")) == message


def test_a_field_of_a_call_that_the_server_wants_back_is_kept_at_its_place() -> None:
    signed = {"google": {"thought_signature": "c2ln"}}
    answer = read(
        sse(
            fragment(0, id="a", name="x", arguments="{}"),
            fragment(1, id="b", name="y", arguments="{}", extra_content=signed),
            delta(finish="tool_calls"),
        ),
        profile="gemini",
    )
    assert answer.batch.message is not None
    assert answer.batch.message.blocks == [{"type": "tool_call", "index": 1, "extra_content": signed}]


def test_what_no_server_of_this_kind_wants_back_is_not_kept() -> None:
    event = delta(content="x", reasoning_details=[{"type": "reasoning.text", "text": "a"}])
    assert read(sse(event, STOP)).message.blocks is None
