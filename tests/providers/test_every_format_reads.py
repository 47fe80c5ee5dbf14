"""What all wire formats read alike."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime.models import UNNAMED_TOOL, ChatChunk, ToolCallRequest, ToolCallStarted
from seqoria_runtime.models.errors import OverloadedError, ProviderProtocolError, RateLimitError, ServerError
from seqoria_runtime.providers import ModelRequest, ToolDefinition
from tests.support.wire_formats import FORMATS, Messages, Ollama, Responses
from tests.support.wires import ADD, Stream, read_with

formats = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
event_formats = pytest.mark.parametrize("form", [Messages, Responses], ids=lambda form: form.name)


def requests(
    form: type[Stream], *calls: tuple[str | None, str | None, str], why: str = "calls"
) -> list[ToolCallRequest]:
    answer = form().start()
    for call in calls:
        answer.call(*call)
    return answer.end(why).read().batch.tool_calls


@formats
def test_text_comes_in_chunks_and_then_as_a_message(form: type[Stream]) -> None:
    answer = form().start().text("Hel", "lo").end().read()
    assert answer.events == [ChatChunk(content="Hel"), ChatChunk(content="lo")]
    assert answer.message.content == "Hello"
    assert answer.message.response_id == "new1"


@pytest.mark.case("J3")
@formats
def test_the_start_of_a_call_is_passed_on_at_once_and_empty_events_are_not_output(form: type[Stream]) -> None:
    answer = form().start().call("c1", "add", '{"a":', "1}").end("calls").read()
    assert answer.events == [ToolCallStarted("add")]
    assert answer.calls == [("add", {"a": 1})]


@pytest.mark.clause("C95")
@formats
@pytest.mark.parametrize("said", ["nothing", "text", "call"])
def test_an_answer_without_its_end_mark_is_an_error(form: type[Stream], said: str) -> None:
    answer = form().start()
    if said == "text":
        answer.text("Hel")
    if said == "call":
        answer.call("c1", "add", '{"a":1}')
    error = answer.read().error
    assert isinstance(error, ProviderProtocolError)
    assert "without a completion event" in str(error)


@pytest.mark.clause("C95")
@formats
def test_no_bytes_at_all_are_an_error(form: type[Stream]) -> None:
    assert isinstance(form().read().error, ProviderProtocolError)


@formats
def test_an_answer_may_be_empty(form: type[Stream]) -> None:
    answer = form().start().end().read()
    assert (answer.events, answer.message.content) == ([], "")


@pytest.mark.case("E1")
@formats
@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "é", "漢", "😄"])
def test_a_character_is_kept_whatever_the_header_says(form: type[Stream], character: str) -> None:
    data = form().start().text("aXXb").call("c1", "say", '{"text":"XX"}').end("calls").data
    written = data.replace(b"XX", character.encode())
    answer = read_with(form.exchange(), [written], f"{form.content_type}; charset=iso-8859-1")
    assert answer.text == f"a{character}b"
    assert answer.calls == [("say", {"text": character})]


@pytest.mark.case("E1")
@formats
@pytest.mark.parametrize("character", ["\x0b", "\x0c", "\x1c", "\x00"])
def test_a_raw_control_character_is_a_clear_error(form: type[Stream], character: str) -> None:
    data = form().start().text("fine", "aXb").end().data.replace(b"aXb", f"a{character}b".encode())
    answer = form.read_pieces([data])
    assert isinstance(answer.error, ProviderProtocolError)
    assert "malformed stream event (" in str(answer.error)
    assert answer.text == "fine"


@pytest.mark.case("E4")
@formats
@pytest.mark.parametrize("cut", [b"\xe6\xbc", b"\xff", b"\xed\xa0\xbd"])
def test_bytes_that_are_not_utf_8_are_an_error_and_not_replaced(form: type[Stream], cut: bytes) -> None:
    answer = form.read_pieces([form().start().text("aXb").end().data.replace(b"aXb", b"a" + cut)])
    assert isinstance(answer.error, ProviderProtocolError)
    assert "malformed stream event" in str(answer.error)


@pytest.mark.case("E4")
@formats
def test_half_a_surrogate_pair_waits_for_the_other_half(form: type[Stream]) -> None:
    answer = form().start().text("a\ud83d", "\ude00b", "c").end().read()
    assert answer.events == [ChatChunk(content="a"), ChatChunk(content="😀b"), ChatChunk(content="c")]
    assert answer.message.content == "a😀bc"
    answer.message.model_dump_json()


@pytest.mark.case("E4")
@formats
def test_half_a_surrogate_pair_that_stands_alone_becomes_a_replacement_mark(form: type[Stream]) -> None:
    answer = form().start().text("a\ude00", "b").call("c1", "say", '{"text":"\ud83d"}').end("calls").read()
    assert answer.text == "a\ufffdb"
    assert answer.calls == [("say", {"text": "\ufffd"})]
    answer.batch.model_dump_json()


@pytest.mark.case("E4")
@formats
@given(data=st.data())
def test_any_split_of_the_bytes_makes_the_same_answer(form: type[Stream], data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.text(max_size=5), max_size=4))
    said = data.draw(st.dictionaries(st.text(max_size=3), st.text(max_size=5), max_size=2))
    stream = form().start().text(*texts).call("c1", "say", json.dumps(said)).end("calls").data
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    answer = form.read_pieces(pieces)
    assert answer.outcome() == form.read_pieces([stream]).outcome()
    assert answer.text == "".join(texts)
    assert answer.calls == [("say", said)]


@pytest.mark.case("E2")
@event_formats
def test_keep_alives_and_unknown_events_are_not_output(form: type[Stream]) -> None:
    stream = form().start()
    for idle in (": hold", "retry: 500", "id: 9", "event: ping", "data:", ":", "event: note\ndata: no JSON"):
        stream.raw(f"{idle}\n\n".encode())
    stream.event({"type": "ping"}).event({"type": "of.another.kind", "delta": 5}).event({"no": "type"})
    answer = stream.call("c1", "add", '{"a"').event({"type": "ping"}).raw(b":\n\n")
    assert answer.end("calls").read().events == [ToolCallStarted("add")]


@pytest.mark.case("E2")
@event_formats
def test_data_needs_no_space_and_no_name_of_its_event(form: type[Stream]) -> None:
    data = form().start().text("x").end().data.replace(b"data: ", b"data:")
    named = [line for line in data.splitlines(keepends=True) if not line.startswith(b"event:")]
    assert form.read_pieces([b"".join(named)]).message.content == "x"


@pytest.mark.case("E2")
@pytest.mark.parametrize("form", [Messages, Responses, Ollama], ids=lambda form: form.name)
def test_nothing_is_read_after_the_end_mark(form: type[Stream]) -> None:
    decoder = form.exchange().decoder(form.content_type)
    assert decoder.feed(form().start().text("x").end().raw(b"no JSON\n\n").text("more").data) == [
        ChatChunk(content="x")
    ]
    assert decoder.complete
    assert decoder.ended
    assert not decoder.feed(form().text("more").data)
    assert not decoder.close()
    decoder.finish()


@pytest.mark.clause("C95")
@formats
def test_a_malformed_event_is_an_error_behind_what_came_before_it(form: type[Stream]) -> None:
    broken = form().text("more").data.replace(b"}", b"", 1)
    answer = form.read_pieces([form().start().text("Hel").data + broken])
    assert answer.text == "Hel"
    assert isinstance(answer.error, ProviderProtocolError)
    assert "malformed stream event" in str(answer.error)


@formats
def test_an_answer_of_a_wrong_shape_is_an_error(form: type[Stream]) -> None:
    values: tuple[object, ...] = ([], {}, {"choices": 5}, {"content": 5}, {"output": 5}, {"message": 5}, 3)
    for value in values:
        answer = form.read_whole(value)
        assert isinstance(answer.error, ProviderProtocolError)
        assert "malformed response" in str(answer.error)


@pytest.mark.case("F1")
@pytest.mark.case("F2")
@formats
def test_two_calls_of_one_tool_stay_two(form: type[Stream]) -> None:
    first, second = requests(form, ("p1", "rd", '{"f":"a"}'), ("p2", "rd", '{"f":"b"}'))
    assert (first.id, first.arguments) == ("p1", {"f": "a"})
    assert (second.id, second.arguments) == ("p2", {"f": "b"})
    assert first.response_id == second.response_id


@pytest.mark.case("B5")
@formats
@pytest.mark.parametrize("call_id", ["k0", "", None])
def test_calls_without_an_id_of_their_own_get_one(form: type[Stream], call_id: str | None) -> None:
    calls = requests(form, (call_id, "add", '{"a":5}'), (call_id, "add", '{"a":7}'))
    assert [call.arguments for call in calls] == [{"a": 5}, {"a": 7}]
    assert len({call.id for call in calls}) == 2
    assert (calls[0].id == "k0") is (call_id == "k0")


@pytest.mark.case("F5")
@formats
@pytest.mark.parametrize("arguments", ["", "  ", "{}"])
def test_a_call_without_arguments_has_an_empty_object(form: type[Stream], arguments: str) -> None:
    [call] = requests(form, ("n1", "now", arguments))
    assert (call.name, call.arguments, call.invalid_arguments) == ("now", {}, None)


@pytest.mark.case("G4")
@pytest.mark.clause("C82")
@formats
def test_one_bad_call_leaves_its_siblings_as_they_are(form: type[Stream]) -> None:
    texts = [json.dumps('{"a":1}'), "null", "[1]", '{"a":', '{"a": 5}']
    calls = requests(form, *((f"c{place}", "f", text) for place, text in enumerate(texts)))
    assert [call.arguments for call in calls] == [{"a": 1}, {}, {}, {}, {"a": 5}]
    assert [call.invalid_arguments for call in calls] == [None, "null", "[1]", '{"a":', None]


@pytest.mark.case("G1")
@formats
@pytest.mark.parametrize("name", ["", None, "ad", "add<|x|>commentary"])
def test_a_name_that_the_model_made_up_is_kept_and_none_becomes_the_placeholder(
    form: type[Stream], name: str | None
) -> None:
    first, second = requests(form, ("c1", name, "{}"), ("c2", "add", '{"a":1}'))
    assert first.name == (name or UNNAMED_TOOL)
    assert (second.name, second.arguments) == ("add", {"a": 1})


@formats
def test_a_call_of_a_tool_whose_name_was_changed_for_the_wire_has_its_own_name(form: type[Stream]) -> None:
    request = ModelRequest([], tools=[ToolDefinition("files.read", "", {}), ADD])
    [(sent, _), _] = form.offered(json.loads(form.exchange(request).body))
    answer = form().start().call("c1", sent, "{}").end("calls").read(request=request)
    assert sent != "files.read"
    assert answer.calls == [("files.read", {})]
    assert answer.events == [ToolCallStarted("files.read")]


@pytest.mark.case("G2")
@pytest.mark.clause("C95")
@formats
@pytest.mark.parametrize("written", ['{"title":"x","body":"aaa', '{"title":"x"}'])
def test_a_call_that_the_output_limit_cut_is_marked_and_a_complete_one_before_it_is_not(
    form: type[Stream], written: str
) -> None:
    first, second = requests(form, ("c1", "f", '{"a":1}'), ("c2", "f", written), why="length")
    assert (first.truncated, first.arguments) == (False, {"a": 1})
    assert second.truncated


@pytest.mark.case("G2")
@pytest.mark.parametrize("form", [Messages, Responses, Ollama], ids=lambda form: form.name)
def test_a_call_before_the_text_that_the_limit_cut_is_complete(form: type[Stream]) -> None:
    [call] = form().start().call("c1", "f", '{"a":1}').text("and so").end("length").read().batch.tool_calls
    assert not call.truncated


@formats
def test_text_that_the_output_limit_cut_is_given_with_its_reason(form: type[Stream]) -> None:
    message = form().start().text("Once upon").end("length").read().message
    assert (message.content, message.finish_reason) == ("Once upon", "length")


@pytest.mark.clause("C94")
@pytest.mark.case("J1")
@formats
@pytest.mark.parametrize("after", ["nothing", "start", "text", "call"])
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("overloaded_error", OverloadedError),
        ("rate_limit_error", RateLimitError),
        ("server_error", ServerError),
        ("of_tomorrow", ServerError),
    ],
)
def test_an_error_inside_a_success_is_raised_behind_the_output_so_far(
    form: type[Stream], after: str, kind: str, expected: type[Exception]
) -> None:
    stream = form() if after == "nothing" else form().start()
    if after == "text":
        stream.text("Hel")
    if after == "call":
        stream.call("c1", "add", '{"a":')
    answer = stream.error(kind, "busy").text("more").end().read()
    assert type(answer.error) is expected
    assert str(answer.error) == "busy"
    assert answer.text == ("Hel" if after == "text" else "")


@pytest.mark.case("J1")
@formats
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("busy", ServerError),
        ({"message": "busy", "type": "server_error", "code": 503}, OverloadedError),
        ({"message": "busy", "code": 429}, RateLimitError),
        ({"message": "busy", "type": "overloaded_error"}, OverloadedError),
    ],
)
def test_an_error_may_come_in_the_form_of_another_format(
    form: type[Stream], error: object, expected: type[Exception]
) -> None:
    stream = form().start().text("Hel").event({"error": error})
    answer = stream.read()
    assert type(answer.error) is expected
    assert (str(answer.error), answer.text) == ("busy", "Hel")


@event_formats
def test_an_error_event_may_hold_no_json(form: type[Stream]) -> None:
    error = form().start().raw(b"event: error\ndata: upstream is gone\n\n").read().error
    assert isinstance(error, ServerError)
    assert str(error) == "upstream is gone"
