"""Answers of real servers are read the same however the network cuts them."""

from collections.abc import Iterable
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime.models import LLMUsage
from seqoria_runtime.models.errors import ServerError
from tests.support.chat_wire import STREAMS, read, recorded
from tests.support.wires import Read

PROFILES = {"openrouter-reasoning.sse": "openrouter"}


def read_recorded(name: str, pieces: Iterable[bytes] | None = None) -> Read:
    return read(recorded(name) if pieces is None else pieces, profile=PROFILES.get(name, "compatible"))


@cache
def whole(name: str) -> str:
    return outcome(read_recorded(name))


def outcome(answer: Read) -> str:
    """Everything that an answer came to, in a form that two answers can be compared by."""
    return repr((answer.events, answer.response, type(answer.failure), str(answer.failure)))


@pytest.mark.clause("C95")
@pytest.mark.case("E4")
@pytest.mark.parametrize("name", STREAMS)
def test_every_split_in_two_gives_the_same_answer(name: str) -> None:
    data = recorded(name)
    for at in range(len(data)):
        assert outcome(read_recorded(name, (data[:at], data[at:]))) == whole(name), at


@pytest.mark.case("E4")
@pytest.mark.parametrize("name", STREAMS)
def test_byte_by_byte_gives_the_same_answer(name: str) -> None:
    data = recorded(name)
    assert outcome(read_recorded(name, (data[at : at + 1] for at in range(len(data))))) == whole(name)


@pytest.mark.case("E4")
@pytest.mark.parametrize("name", STREAMS)
@given(data=st.data())
def test_any_split_gives_the_same_answer(name: str, data: st.DataObject) -> None:
    stream = recorded(name)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=20).map(sorted))
    pieces = (stream[start:end] for start, end in pairwise([0, *cuts, len(stream)]))
    assert outcome(read_recorded(name, pieces)) == whole(name)


@pytest.mark.clause("C95")
@pytest.mark.parametrize("name", [name for name in STREAMS if name != "llamacpp-error.sse"])
def test_a_recorded_answer_that_is_cut_anywhere_before_its_end_mark_is_an_error(name: str) -> None:
    stream = recorded(name)
    finish = min(
        stream.find(b'"finish_reason":"' + reason)
        for reason in (b"stop", b"length", b"tool")
        if reason in stream
    )
    for cut in range(0, finish, 7):
        assert read_recorded(name, (stream[:cut],)).response is None


def test_a_text_of_llama_cpp() -> None:
    answer = read_recorded("llamacpp-text.sse")
    assert answer.text == answer.message.content
    assert answer.text.startswith("Hello! I'm here")
    assert (answer.message.finish_reason, answer.message.model) == ("stop", "smol")
    assert answer.message.usage == LLMUsage(
        completion_tokens=24, prompt_tokens=33, total_tokens=57, cached_tokens=32
    )


def test_a_call_of_llama_cpp() -> None:
    answer = read_recorded("llamacpp-tool.sse")
    assert answer.calls == [("get_weather", {"city": "Paris"})]
    assert answer.batch.tool_calls[0].id == "0k2PmRRwfB918Q4ZjDaAlLsngeuCgpsF"


def test_an_answer_of_llama_cpp_that_was_cut() -> None:
    message = read_recorded("llamacpp-length.sse").message
    assert (message.content, message.finish_reason, message.usage) == ("Once upon a", "length", None)


def test_an_answer_of_llama_cpp_without_its_first_event() -> None:
    assert read_recorded("llamacpp-emoji-first.sse").message.content == "😄 hi"


@pytest.mark.case("J1")
def test_an_error_of_llama_cpp_inside_a_success() -> None:
    error = read_recorded("llamacpp-error.sse").error
    assert isinstance(error, ServerError)
    assert error.status_code == 500
    assert "does not match the expected peg-native format" in str(error)


def test_answers_of_llama_cpp_that_were_not_streamed() -> None:
    text = read(recorded("llamacpp-text.json"), content_type="application/json; charset=utf-8")
    assert text.message.content == "The number one is 12, and the number two is 2."
    call = read(recorded("llamacpp-tool.json"), content_type="application/json; charset=utf-8")
    assert call.calls == [("get_weather", {"city": "Paris"})]


def test_two_calls_of_ollama() -> None:
    answer = read_recorded("ollama-calls.sse")
    assert answer.calls == [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"})]
    assert answer.text == ""


def test_two_interleaved_calls_of_openai() -> None:
    answer = read_recorded("openai-parallel.sse")
    assert answer.calls == [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"})]
    assert answer.batch.message is not None
    assert answer.batch.message.content == "Checking both."
    assert answer.batch.usage == LLMUsage(
        prompt_tokens=82, completion_tokens=40, total_tokens=122, cached_tokens=64, reasoning_tokens=12
    )


def test_reasoning_of_openrouter_with_a_call() -> None:
    answer = read_recorded("openrouter-reasoning.sse")
    assert answer.calls == [("add", {"a": 1, "b": 2})]
    message = answer.batch.message
    assert message is not None
    assert (message.thinking, message.content) == ("Let me think.", "")
    assert message.blocks == [
        {
            "type": "reasoning_details",
            "details": [
                {
                    "type": "reasoning.text",
                    "text": "Let me think.",
                    "format": "vendor-v1",
                    "index": 0,
                    "signature": "c2lnbmVk",
                }
            ],
        }
    ]


def test_characters_that_are_cut_everywhere() -> None:
    answer = read_recorded("split-characters.sse")
    assert answer.text == "é 漢 👩‍👩‍👧 \u2028\x85😀!"
    assert answer.calls == [("say", {"text": "😀 漢\u2029 😀"})]
