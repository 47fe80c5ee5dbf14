import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime.mcp._transport.surrogates import SurrogateFixer

TEXT = st.text(st.characters() | st.sampled_from('\\"\nud8\ud83d\ude00\U0001f600'))


def fed(data: bytes, cuts: list[int]) -> bytes:
    """Return the output of a fixer for the data, split at these places."""
    fixer = SurrogateFixer()
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    pieces = [fixer.feed(data[start:end]) for start, end in pairwise(places)]
    return b"".join([*pieces, fixer.finish()])


@given(text=TEXT, cuts=st.lists(st.integers(0, 10_000), max_size=6))
def test_halves_are_replaced_and_all_else_is_kept_wherever_the_stream_is_cut(
    text: str, cuts: list[int]
) -> None:
    # Two surrogates that make a pair become one character when they are written and read.
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert json.loads(fed(json.dumps(text).encode(), cuts)) == whole


@given(data=st.binary(), cuts=st.lists(st.integers(0, 10_000), max_size=6))
def test_what_has_no_half_is_not_touched(data: bytes, cuts: list[int]) -> None:
    kept = data.replace(b"\\u", b"\\n")
    assert fed(kept, cuts) == kept


def test_nothing_is_held_back_at_the_end_of_an_event() -> None:
    event = rb'data: {"a": "\n\\\ud83d"}' + b"\n\n"
    fixer = SurrogateFixer()
    assert fixer.feed(event) == rb'data: {"a": "\n\\\ufffd"}' + b"\n\n"
    assert fixer.finish() == b""
