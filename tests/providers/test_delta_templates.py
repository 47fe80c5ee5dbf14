"""The fast path for events that differ only in their text."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime.providers._answers.delta_templates import DeltaTemplates
from tests.support.chat_wire import delta, exchange

TEXTS = st.text(st.sampled_from('ab "\\\n\t\x7f\x85\u2028é漢😀{}:,'), max_size=4)
EVENTS = st.fixed_dictionaries(
    {"content": TEXTS},
    optional={"role": st.just("assistant"), "reasoning": TEXTS, "refusal": st.none()},
)


def write(fields: dict[str, Any], *, ascii_only: bool, spaced: bool) -> bytes:
    separators = (", ", ": ") if spaced else (",", ":")
    return json.dumps(delta(**fields), ensure_ascii=ascii_only, separators=separators).encode()


@given(st.lists(EVENTS, max_size=30), st.booleans(), st.booleans())
def test_the_fast_path_reads_the_same_answer_as_the_parser(
    events: list[dict[str, Any]], ascii_only: bool, spaced: bool
) -> None:
    written = [write(fields, ascii_only=ascii_only, spaced=spaced) for fields in events]
    short, long = exchange().decoder("text/event-stream"), exchange().decoder("text/event-stream")
    for number, event in enumerate(written):
        framed = b"data: " + event + b"\n\n"
        # A field of its own in each event keeps the long way long.
        numbered = b"data: " + event[:-1] + b',"n":%d}\n\n' % number
        assert list(short.feed(framed)) == list(long.feed(numbered))
    end = b"data: [DONE]\n\n"
    assert list(short.feed(end)) == list(long.feed(end)) == []
    assert not events or short.finish() == long.finish()


@pytest.mark.parametrize("spaced", [False, True])
def test_an_event_that_repeats_all_but_its_text_is_recognised(spaced: bool) -> None:
    repeated = DeltaTemplates("content")
    first = write({"content": "a"}, ascii_only=False, spaced=spaced)
    assert repeated.in_event.match(first) is None
    repeated.learn(first, "a")
    assert repeated.in_event.match(first) == "a"
    assert repeated.in_event.match(write({"content": "漢 b"}, ascii_only=False, spaced=spaced)) == "漢 b"


@pytest.mark.parametrize("text", ['"', "\\", "\n", "a\u2028"])
def test_a_text_that_is_written_otherwise_is_parsed(text: str) -> None:
    repeated = DeltaTemplates("content")
    repeated.learn(write({"content": "a"}, ascii_only=False, spaced=False), "a")
    assert repeated.in_event.match(write({"content": text}, ascii_only=False, spaced=False)) is None


def test_a_read_that_is_one_framed_event_is_recognised_as_well() -> None:
    repeated = DeltaTemplates("content", (b"data: ", b"\n\n"))
    repeated.learn(b'{"content":"a"}', "a")
    assert repeated.in_read.match(b'data: {"content":"b c"}\n\n') == "b c"
    for other in (
        b'{"content":"b"}',
        b'data: {"content":"b"}',
        b'data: {"content":"b"}\n',
        b'data: {"content":""}\n\n',
        b'data: {"content":"b"}\n\ndata: {"content":"c"}\n\n',
        b'data: {"content":"b\n\n"}\n\n',
        b'data: {"content":"\xff"}\n\n',
    ):
        assert repeated.in_read.match(other) is None


@given(st.lists(TEXTS.filter(bool), min_size=2, max_size=20), st.data())
def test_reads_that_are_complete_events_and_reads_that_are_not_give_the_same_answer(
    texts: list[str], data: st.DataObject
) -> None:
    framed = [
        b"data: " + write({"content": text}, ascii_only=False, spaced=False) + b"\n\n" for text in texts
    ]
    whole, cut = exchange().decoder("text/event-stream"), exchange().decoder("text/event-stream")
    by_event = [event for one in framed for event in whole.feed(one)]
    stream = b"".join(framed)
    places = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    pieces = [stream[start:end] for start, end in zip([0, *places], [*places, len(stream)], strict=True)]
    assert [event for piece in pieces for event in cut.feed(piece)] == by_event


@pytest.mark.parametrize("before", [b"event: error\n", b"data: [\n", b"da", b"\rdata: {\r"])
def test_a_read_that_goes_on_with_an_event_is_none_of_its_own(before: bytes) -> None:
    decoder = exchange().decoder("text/event-stream")
    event = b"data: " + write({"content": "a"}, ascii_only=False, spaced=False) + b"\n\n"
    for _ in range(3):
        assert len(decoder.feed(event)) == 1
    assert list(decoder.feed(before)) == []
    assert list(decoder.feed(event)) == []


def test_an_event_with_two_texts_is_not_learnt() -> None:
    repeated = DeltaTemplates("content")
    event = b'{"message":{"content":"a"},"delta":{"content":"a"}}'
    repeated.learn(event, "a")
    assert repeated.in_event.match(event) is None


def test_a_shorter_event_between_the_same_bytes_is_parsed() -> None:
    repeated = DeltaTemplates("content")
    repeated.learn(b'{"content":"a"}', "a")
    assert repeated.in_event.match(b'{"content":""}') is None
    assert repeated.in_event.match(b'{"content":"}') is None


def test_a_server_that_always_changes_something_is_given_up_on() -> None:
    repeated = DeltaTemplates("content")
    for number in range(100):
        repeated.learn(b'{"n":%d,"content":"a"}' % number, "a")
    assert repeated.in_event.match(b'{"n":99,"content":"a"}') is None
    assert repeated.in_event.match(b'{"n":16,"content":"b"}') == "b"


def test_a_server_that_changes_something_now_and_then_is_not_given_up_on() -> None:
    repeated = DeltaTemplates("content", (b"data: ", b"\n\n"))
    for number in range(100):
        repeated.learn(b'{"n":%d,"content":"a"}' % number, "a")
        assert repeated.in_read.match(b'data: {"n":%d,"content":"b"}\n\n' % number) == "b"
