"""How tool calls are assembled from the fragments of a stream, or read at once."""

import json
from typing import Any

import pytest

from seqoria_runtime.models import UNNAMED_TOOL, ToolCallStarted, UserMessage
from seqoria_runtime.providers import ModelRequest, ToolDefinition
from tests.support.chat_wire import ADD, delta, exchange, fragment, read, read_whole, sse

FINISH = delta(finish="tool_calls")


@pytest.mark.case("F1")
def test_two_entries_of_one_index_in_one_event_are_one_call() -> None:
    both = delta(
        tool_calls=[
            {"index": 0, "id": "u1", "type": "function", "function": {"name": "ls"}},
            {"index": 0, "function": {"arguments": '{"d"'}},
        ]
    )
    answer = read(sse(both, fragment(arguments=':"."}'), FINISH))
    assert answer.calls == [("ls", {"d": "."})]


@pytest.mark.case("F1")
@pytest.mark.parametrize("labels", [(1, 0), (7, 3), (0, 1)])
def test_an_index_is_a_label_and_calls_stand_in_order_of_appearance(labels: tuple[int, int]) -> None:
    first, second = labels
    answer = read(
        sse(
            fragment(first, id="a", name="x", arguments='{"n"'),
            fragment(second, id="b", name="y", arguments='{"n"'),
            fragment(first, arguments=":1}"),
            fragment(second, arguments=":2}"),
            FINISH,
        )
    )
    assert answer.calls == [("x", {"n": 1}), ("y", {"n": 2})]


@pytest.mark.case("F1")
def test_a_call_may_have_any_only_index() -> None:
    assert read(sse(fragment(7, id="a", name="x", arguments="{}"), FINISH)).calls == [("x", {})]


@pytest.mark.case("F2")
def test_a_new_id_opens_a_new_call_under_the_same_index() -> None:
    answer = read(
        sse(
            fragment(id="p1", name="rd", arguments='{"f":"a"}'),
            fragment(id="p2", name="rd", arguments='{"f":'),
            fragment(arguments='"b"}'),
            FINISH,
        )
    )
    assert answer.calls == [("rd", {"f": "a"}), ("rd", {"f": "b"})]
    assert [call.id for call in answer.batch.tool_calls] == ["p1", "p2"]


@pytest.mark.case("F2")
def test_two_objects_glued_together_are_invalid_arguments() -> None:
    answer = read(
        sse(
            fragment(id="p1", name="rd", arguments='{"f":"a"}'),
            fragment(name="rd", arguments='{"f":"b"}'),
            FINISH,
        )
    )
    [call] = answer.batch.tool_calls
    assert (call.arguments, call.invalid_arguments) == ({}, '{"f":"a"}{"f":"b"}')


@pytest.mark.case("F4")
def test_a_name_and_an_id_that_are_repeated_are_not_added_up() -> None:
    pieces = ['{"a"', ":1", "}", ""]
    events = [fragment(id="q1", name="search", arguments=piece) for piece in pieces]
    answer = read(sse(*events, FINISH))
    assert answer.calls == [("search", {"a": 1})]
    assert answer.batch.tool_calls[0].id == "q1"


@pytest.mark.case("F4")
def test_null_and_empty_fields_neither_erase_nor_extend_what_is_known() -> None:
    answer = read(
        sse(
            fragment(id="q1", type=None, name=None, arguments=None),
            fragment(id="", name="", arguments='{"a":'),
            fragment(id=None, name="search", arguments=None),
            fragment(id="", name="", arguments="1}"),
            fragment(id=None, name=None, arguments=""),
            FINISH,
        )
    )
    assert answer.calls == [("search", {"a": 1})]
    assert answer.batch.tool_calls[0].id == "q1"


@pytest.mark.case("F5")
@pytest.mark.parametrize("arguments", [None, "", "  "])
def test_a_call_without_arguments_has_an_empty_object(arguments: str | None) -> None:
    answer = read(sse(fragment(id="n1", name="now", arguments=arguments), FINISH))
    assert answer.calls == [("now", {})]
    assert answer.batch.tool_calls[0].invalid_arguments is None


@pytest.mark.case("F5")
def test_an_entry_that_says_nothing_opens_no_call() -> None:
    assert (
        read(sse(fragment(0), delta(content="x", tool_calls=[]), delta(finish="stop"))).message.content == "x"
    )


def test_arguments_that_come_as_an_object_are_read_as_one() -> None:
    answer = read(sse(fragment(id="a", name="add", arguments={"a": 1, "b": 2}), FINISH))
    assert answer.calls == [("add", {"a": 1, "b": 2})]


@pytest.mark.case("G4")
@pytest.mark.clause("C82")
def test_one_bad_call_leaves_its_siblings_as_they_are() -> None:
    texts = [json.dumps('{"a":1}'), "null", "[1]", '{"a":', '{"a": 5}']
    events = [fragment(place, id=f"c{place}", name="f", arguments=text) for place, text in enumerate(texts)]
    calls = read(sse(*events, FINISH)).batch.tool_calls
    assert [call.arguments for call in calls] == [{"a": 1}, {}, {}, {}, {"a": 5}]
    assert [call.invalid_arguments for call in calls] == [None, "null", "[1]", '{"a":', None]


@pytest.mark.case("G1")
@pytest.mark.clause("C82")
@pytest.mark.parametrize("name", ["", None])
def test_a_call_without_a_name_gets_the_placeholder(name: str | None) -> None:
    answer = read(sse(fragment(id="a", name=name, arguments="{}"), FINISH))
    assert answer.calls == [(UNNAMED_TOOL, {})]


@pytest.mark.case("G1")
def test_a_made_up_name_is_kept_as_the_model_wrote_it() -> None:
    assert read(sse(fragment(id="a", name="add<|x|>commentary"), FINISH)).calls == [
        ("add<|x|>commentary", {})
    ]


def test_a_name_without_end_is_cut() -> None:
    [(name, _)] = read(sse(fragment(id="a", name="x" * 10_000), FINISH)).calls
    assert len(name) == 256


@pytest.mark.case("G2")
@pytest.mark.clause("C95")
@pytest.mark.parametrize("arguments", ['{"title":"x","body":"aaa', '{"title":"x"}', ""])
@pytest.mark.parametrize("reason", ["length", "LENGTH", "max_tokens", "model_length"])
def test_a_call_cut_by_the_output_limit_is_marked_even_where_it_parses(arguments: str, reason: str) -> None:
    answer = read(sse(fragment(id="a", name="write", arguments=arguments), delta(finish=reason)))
    [call] = answer.batch.tool_calls
    assert call.truncated


@pytest.mark.case("G2")
@pytest.mark.clause("C95")
def test_the_complete_calls_before_a_cut_one_are_not_marked() -> None:
    answer = read(
        sse(
            fragment(0, id="a", name="write", arguments='{"n":1}'),
            fragment(1, id="b", name="write", arguments='{"n":2}'),
            fragment(2, id="c", name="write", arguments='{"n":'),
            delta(finish="length"),
        )
    )
    assert [call.truncated for call in answer.batch.tool_calls] == [False, False, True]


@pytest.mark.case("G2")
def test_of_interleaved_calls_each_with_incomplete_arguments_was_cut() -> None:
    answer = read(
        sse(
            fragment(0, id="a", name="write", arguments='{"n":'),
            fragment(1, id="b", name="write", arguments='{"n":2}'),
            delta(finish="length"),
        )
    )
    assert [call.truncated for call in answer.batch.tool_calls] == [True, True]


@pytest.mark.case("G2")
def test_a_cut_call_whose_finish_reason_was_rewritten_has_invalid_arguments() -> None:
    answer = read(sse(fragment(id="a", name="write", arguments='{"title":"x'), FINISH))
    [call] = answer.batch.tool_calls
    assert (call.truncated, call.invalid_arguments) == (False, '{"title":"x')


@pytest.mark.case("B5")
@pytest.mark.clause("C50")
@pytest.mark.parametrize("call_id", ["k0", "", None, " "])
def test_two_calls_of_one_answer_never_share_an_id(call_id: str | None) -> None:
    events = [fragment(place, id=call_id, name="add", arguments=f'{{"a":{place}}}') for place in (0, 1)]
    calls = read(sse(*events, FINISH)).batch.tool_calls
    assert [call.arguments for call in calls] == [{"a": 0}, {"a": 1}]
    first, second = (call.id for call in calls)
    assert first != second
    assert first.strip()
    assert second.strip()


@pytest.mark.case("B5")
@pytest.mark.parametrize("call_id", ["k0", "", None])
def test_two_calls_of_an_unstreamed_answer_never_share_an_id(call_id: str | None) -> None:
    calls = [{"id": call_id, "function": {"name": "add", "arguments": f'{{"a":{n}}}'}} for n in (5, 7)]
    answer = read_whole({"choices": [{"message": {"tool_calls": calls}, "finish_reason": "tool_calls"}]})
    assert answer.calls == [("add", {"a": 5}), ("add", {"a": 7})]
    assert len({call.id for call in answer.batch.tool_calls}) == 2


def test_an_id_that_is_a_number_is_one() -> None:
    assert read(sse(fragment(id=12, name="now"), FINISH)).batch.tool_calls[0].id == "12"


@pytest.mark.parametrize(
    ("entries", "calls"),
    [
        (
            [{"id": "a", "name": "x", "arguments": "{}"}, {"id": "b", "name": "x", "arguments": "{}"}],
            ["x", "x"],
        ),
        ([{"id": "a", "name": "x", "arguments": '{"n"'}, {"arguments": ":1}"}], ["x"]),
        ([{"id": "a", "name": "x", "arguments": '{"n"'}, {"id": "a", "arguments": ":1}"}], ["x"]),
        (
            [{"id": "a", "name": "x", "arguments": "{}"}, {"id": "a", "name": "x", "arguments": "{}"}],
            ["x", "x"],
        ),
        ([{"name": "x", "arguments": "{}"}, {"name": "x", "arguments": "{}"}], ["x", "x"]),
        ([{"name": "x"}, {"name": "y"}], ["x", "y"]),
        ([{"arguments": '{"n":1}'}], [UNNAMED_TOOL]),
    ],
)
def test_fragments_without_an_index_are_joined_by_id_and_order(
    entries: list[dict[str, Any]], calls: list[str]
) -> None:
    answer = read(sse(*(fragment(None, **entry) for entry in entries), FINISH))
    assert [name for name, _ in answer.calls] == calls
    assert all(call.invalid_arguments is None for call in answer.batch.tool_calls)


def test_the_start_of_each_call_is_an_event_with_its_name_as_far_as_it_is_known() -> None:
    answer = read(
        sse(
            fragment(0, id="a", name="x", arguments=""),
            fragment(0, arguments="{}"),
            fragment(1, id="b", name=None),
            fragment(1, name="y"),
            FINISH,
        )
    )
    assert answer.events == [ToolCallStarted("x"), ToolCallStarted(None)]


def test_all_that_came_in_one_response_carries_its_one_id() -> None:
    answer = read(
        sse(delta(content="I'll look."), fragment(0, id="a", name="x"), fragment(1, id="b", name="y"), FINISH)
    )
    batch = answer.batch
    assert batch.message is not None
    assert batch.message.content == "I'll look."
    assert {batch.message.response_id, *(call.response_id for call in batch.tool_calls)} == {"new1"}


def test_each_response_has_a_fresh_id() -> None:
    read_by_one = exchange()
    ids = set()
    for _ in range(2):
        decoder = read_by_one.decoder("text/event-stream")
        decoder.feed(sse(fragment(id="a", name="x"), FINISH))
        response = decoder.finish()
        ids |= {call.response_id for call in getattr(response, "tool_calls", [])}
    assert len(ids) == 2


@pytest.mark.case("I5")
@pytest.mark.parametrize("text", ["", "\n", None])
def test_blank_text_with_calls_makes_no_message(text: str | None) -> None:
    assert read(sse(delta(content=text), fragment(id="a", name="x"), FINISH)).batch.message is None


@pytest.mark.clause("C104")
def test_a_tool_whose_name_the_wire_does_not_take_is_called_by_its_own_name() -> None:
    odd = ToolDefinition("files.read all", "", {})
    request = ModelRequest([UserMessage(content="x")], tools=[odd, ADD], tool_choice="auto")
    sent = json.loads(exchange(request).body)["tools"][0]["function"]["name"]
    answer = read(sse(fragment(id="a", name=sent, arguments="{}"), FINISH), request=request)
    assert answer.events == [ToolCallStarted("files.read all")]
    assert answer.calls == [("files.read all", {})]


def test_the_older_form_of_a_call_is_understood() -> None:
    answer = read(
        sse(
            delta(function_call={"name": "add", "arguments": ""}),
            delta(function_call={"arguments": '{"a":1}'}),
            delta(finish="function_call"),
        )
    )
    assert answer.calls == [("add", {"a": 1})]
