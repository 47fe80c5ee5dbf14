"""The framing of server-sent events."""

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seqoria_runtime.providers._answers.sse import ServerSentEvent, SSEFraming


def decode(*pieces: bytes) -> list[ServerSentEvent]:
    decoder = SSEFraming()
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.close()


@pytest.mark.case("E1")
@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_a_line_does_not_end_at_a_unicode_separator(character: str) -> None:
    written = f'{{"content":"a{character}b"}}'.encode()
    assert decode(b"data: " + written + b"\n\n") == [("", written)]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_lines_end_at_lf_cr_and_crlf(end: bytes) -> None:
    assert decode(b"data: 1" + end + b"data: 2" + end + end + b"data: 3" + end + end) == [
        ("", b"1\n2"),
        ("", b"3"),
    ]


@pytest.mark.case("E2")
def test_events_without_data_are_not_given_out() -> None:
    idle = b": hold\n\nretry: 500\n\nid: 9\n\nevent: ping\n\ndata:\n\ndata: \n\n:\n\n\n"
    assert decode(idle + b"data:{}\n\n") == [("", b"{}")]


def test_the_kind_of_an_event_ends_with_it() -> None:
    assert decode(b"event: error\ndata: 1\n\ndata: 2\n\n") == [("error", b"1"), ("", b"2")]


def test_the_kind_of_an_event_without_data_does_not_pass_to_the_next() -> None:
    assert decode(b"data: 0\n\nevent: ping\n\ndata: 1\n\n") == [("", b"0"), ("", b"1")]


def test_only_one_space_after_the_colon_is_taken_away() -> None:
    assert decode(b"data:  a\n\ndata\ndata:b\n\n") == [("", b" a"), ("", b"\nb")]


def test_a_byte_order_mark_at_the_start_is_no_part_of_the_first_field() -> None:
    assert decode(b"\xef\xbb\xbfdata: 1\n\n") == [("", b"1")]
    assert decode(b"\xef", b"\xbb\xbfda", b"ta: 1\n\n") == [("", b"1")]


def test_an_event_at_the_end_of_the_input_counts() -> None:
    assert decode(b"data: 1\n\ndata: 2") == [("", b"1"), ("", b"2")]
    assert decode(b"data: 1\n\ndata: 2\n") == [("", b"1"), ("", b"2")]


def test_an_event_without_end_is_an_error_and_not_all_of_the_memory() -> None:
    decoder = SSEFraming()
    piece = b"x" * (1 << 24)
    for _ in range(4):
        assert decoder.feed(piece) == []
    with pytest.raises(ValueError, match="an event of more than 67108864 bytes"):
        decoder.feed(piece)


def test_the_limit_is_that_of_one_event() -> None:
    decoder = SSEFraming()
    event = b"data: " + b"x" * (1 << 24) + b"\r\n\r\n"
    for _ in range(5):
        assert len(decoder.feed(event)) == 1


LINES = st.lists(
    st.sampled_from([
        b"data: a",
        b"data:",
        b"data: ",
        b"data",
        b": c",
        b"event: e",
        b"id: 1",
        b"",
        b"",
        b"data:b",
    ]),
    max_size=12,
)
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[int]]:
    whole = b"".join(line + draw(ENDS) for line in draw(LINES))
    if draw(st.booleans()):
        whole = b"\xef\xbb\xbf" + whole
    return whole, draw(st.lists(st.integers(0, len(whole)), max_size=6))


@pytest.mark.clause("C95")
@pytest.mark.case("E4")
@given(streams())
@example((b"data: a\n\ndata: b\r\n\r\n", [9, 10, 18, 19, 20, 21]))
@example((b"data: a\n\ndata: b\n\n\ndata: c\n\n", [9]))
def test_any_split_of_the_bytes_gives_the_same_events(stream: tuple[bytes, list[int]]) -> None:
    whole, cuts = stream
    borders = [0, *sorted(cuts), len(whole)]
    pieces = [whole[start:end] for start, end in itertools.pairwise(borders)]
    assert decode(*pieces) == decode(whole) == decode(*(whole[at : at + 1] for at in range(len(whole))))
