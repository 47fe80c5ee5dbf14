"""The short way for events that differ in nothing but their text."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime.providers._repeats import RepeatedText
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
def test_the_short_way_gives_the_same_answer_as_the_long_one(
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
    repeated = RepeatedText("content")
    first = write({"content": "a"}, ascii_only=False, spaced=spaced)
    assert repeated.match(first) is None
    repeated.learn(first, "a")
    assert repeated.match(first) == "a"
    assert repeated.match(write({"content": "漢 b"}, ascii_only=False, spaced=spaced)) == "漢 b"


@pytest.mark.parametrize("text", ['"', "\\", "\n", "a\u2028"])
def test_a_text_that_is_written_otherwise_is_parsed(text: str) -> None:
    repeated = RepeatedText("content")
    repeated.learn(write({"content": "a"}, ascii_only=False, spaced=False), "a")
    assert repeated.match(write({"content": text}, ascii_only=False, spaced=False)) is None


def test_an_event_with_two_texts_is_not_learnt() -> None:
    repeated = RepeatedText("content")
    event = b'{"message":{"content":"a"},"delta":{"content":"a"}}'
    repeated.learn(event, "a")
    assert repeated.match(event) is None


def test_a_shorter_event_between_the_same_bytes_is_no_repetition() -> None:
    repeated = RepeatedText("content")
    repeated.learn(b'{"content":"a"}', "a")
    assert repeated.match(b'{"content":""}') is None
    assert repeated.match(b'{"content":"}') is None


def test_a_server_that_always_changes_something_is_given_up_on() -> None:
    repeated = RepeatedText("content")
    for number in range(100):
        repeated.learn(b'{"n":%d,"content":"a"}' % number, "a")
    assert repeated.match(b'{"n":99,"content":"a"}') is None
    assert repeated.match(b'{"n":16,"content":"b"}') == "b"
