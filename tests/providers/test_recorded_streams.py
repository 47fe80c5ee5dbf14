"""Answers of Messages, Responses and Ollama servers are read the same however the network cuts them."""

from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime.models import LLMUsage
from seqoria_runtime.models.errors import OverloadedError, ServerError
from tests.support.wire_formats import Messages, Ollama, Responses
from tests.support.wires import Read, Stream, read_with

DATA = Path(__file__).parent / "data"
FORMS: dict[str, type[Stream]] = {form.name: form for form in (Messages, Responses, Ollama)}
STREAMS = sorted(
    f"{name}/{path.name}" for name in FORMS for path in (DATA / name).iterdir() if path.suffix != ".json"
)
FAILED = {"messages/anthropic-overloaded.sse", "ollama/ollama-error.ndjson"}
MARKS = {"messages": b'"message_stop"', "responses": b'"response.completed"', "ollama": b'"done":true'}


@cache
def recorded(name: str) -> bytes:
    return (DATA / name).read_bytes()


def form_of(name: str) -> type[Stream]:
    return FORMS[name.partition("/")[0]]


def read(name: str, *pieces: bytes) -> Read:
    return form_of(name).read_pieces(pieces or [recorded(name)])


def read_whole(name: str) -> Read:
    exchange = form_of(name).exchange(stream=False)
    return read_with(exchange, [recorded(name)], "application/json; charset=utf-8")


@cache
def whole(name: str) -> str:
    return read(name).outcome()


@pytest.mark.clause("C95")
@pytest.mark.case("E4")
@pytest.mark.parametrize("name", STREAMS)
def test_every_split_in_two_gives_the_same_answer(name: str) -> None:
    data = recorded(name)
    for at in range(len(data)):
        assert read(name, data[:at], data[at:]).outcome() == whole(name), at


@pytest.mark.case("E4")
@pytest.mark.parametrize("name", STREAMS)
def test_byte_by_byte_gives_the_same_answer(name: str) -> None:
    data = recorded(name)
    assert read(name, *(data[at : at + 1] for at in range(len(data)))).outcome() == whole(name)


@pytest.mark.case("E4")
@pytest.mark.parametrize("name", STREAMS)
@given(data=st.data())
def test_any_split_gives_the_same_answer(name: str, data: st.DataObject) -> None:
    stream = recorded(name)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=20).map(sorted))
    pieces = (stream[start:end] for start, end in pairwise([0, *cuts, len(stream)]))
    assert read(name, *pieces).outcome() == whole(name)


@pytest.mark.case("E4")
@pytest.mark.parametrize("name", [name for name in STREAMS if b"\r" not in recorded(name)])
@pytest.mark.parametrize("ending", [b"\r\n", b"\r"])
def test_the_lines_of_events_may_end_otherwise(name: str, ending: bytes) -> None:
    if form_of(name) is not Ollama:
        assert read(name, recorded(name).replace(b"\n", ending)).outcome() == whole(name)


@pytest.mark.clause("C95")
@pytest.mark.parametrize("name", [name for name in STREAMS if name not in FAILED])
def test_an_answer_that_is_cut_anywhere_before_its_end_mark_is_an_error(name: str) -> None:
    stream = recorded(name)
    end = stream.rfind(MARKS[name.partition("/")[0]])
    for cut in range(0, end, 7):
        assert read(name, stream[:cut]).response is None


@pytest.mark.parametrize("name", ["messages/llamacpp-tool", "responses/llamacpp-tool"])
def test_a_call_of_llama_cpp(name: str) -> None:
    for answer in (read(f"{name}.sse"), read_whole(f"{name}.json")):
        assert answer.calls == [("get_weather", {"city": "Paris", "unit": "celsius"})]
        assert answer.batch.usage is not None
        assert (answer.batch.usage.prompt_tokens, answer.batch.usage.completion_tokens) == (270, 36)
        assert answer.batch.usage.cached_tokens in {248, 269}


def test_an_answer_of_llama_cpp_without_its_first_event() -> None:
    message = read("messages/llamacpp-emoji-first.sse").message
    assert (message.content, message.finish_reason, message.model) == ("😉", "length", "m")
    assert message.usage == LLMUsage(completion_tokens=4, total_tokens=4)


def test_an_answer_of_llama_cpp_that_begins_again_and_again() -> None:
    answer = read("responses/llamacpp-emoji-first.sse")
    assert (answer.text, answer.message.content) == ("😄 hi", "😄 hi")


def test_an_answer_that_was_cut_and_does_not_say_so() -> None:
    message = read("responses/llamacpp-length.sse").message
    assert (message.content, message.finish_reason) == ("Once there was", "completed")


def test_an_answer_that_was_cut_and_says_so_inside_the_last_event() -> None:
    message = read("responses/aimock-length.sse").message
    assert message.content == "This answer stops because of the token li"
    assert message.finish_reason == "length"


@pytest.mark.parametrize("name", ["responses/aimock-parallel.sse", "ollama/aimock-parallel.ndjson"])
def test_text_and_two_calls_of_aimock(name: str) -> None:
    answer = read(name)
    assert answer.calls == [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"})]
    assert answer.beside.content == "Checking both."


def test_reasoning_of_aimock() -> None:
    message = read("ollama/aimock-reasoning.ndjson").message
    assert (message.thinking, message.content) == ("Let me think about it step by step.", "Forty-two.")


@pytest.mark.case("I1", "F5")
def test_signed_reasoning_and_two_calls_of_anthropic() -> None:
    answer = read("messages/anthropic-parallel.sse")
    assert answer.calls == [("get_weather", {"city": "Paris 😀"}), ("now", {})]
    assert (answer.thinking, answer.text) == ("Both é cities.", "Checking 漢 👩‍👧.")
    assert answer.beside.blocks == [
        {"type": "thinking", "thinking": "Both é cities.", "signature": "EqQBCgIYAhIM+/=="},
        {"type": "text", "text": "Checking 漢 👩‍👧."},
        {"type": "tool_call", "index": 0},
        {"type": "tool_call", "index": 1},
    ]
    assert answer.batch.usage == LLMUsage(
        prompt_tokens=42, completion_tokens=41, total_tokens=83, cached_tokens=30
    )


@pytest.mark.case("I1")
def test_encrypted_reasoning_and_two_interleaved_calls_of_openai() -> None:
    answer = read("responses/openai-parallel.sse")
    assert answer.calls == [("get_weather", {"city": "Paris"}), ("now", {})]
    assert (answer.thinking, answer.text) == ("Both é cities.", "Checking 漢 👩‍👧.")
    assert answer.beside.blocks is not None
    reasoning, message, *places = answer.beside.blocks
    assert (reasoning["encrypted_content"], message["phase"]) == ("gAAAAABq=", "commentary")
    assert [place["id"] for place in places] == ["fc_01", "fc_02"]
    assert answer.batch.usage == LLMUsage(
        prompt_tokens=82, completion_tokens=40, total_tokens=122, cached_tokens=64, reasoning_tokens=12
    )


@pytest.mark.case("F2", "E1")
def test_reasoning_and_two_calls_of_ollama() -> None:
    answer = read("ollama/ollama-parallel.ndjson")
    assert answer.calls == [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"})]
    assert (answer.thinking, answer.text) == ("Both é cities.", "Checking 漢 👩‍👧 \u2028.")
    assert answer.batch.usage == LLMUsage(prompt_tokens=31, completion_tokens=14, total_tokens=45)


@pytest.mark.case("J1")
def test_errors_inside_a_success() -> None:
    overloaded = read("messages/anthropic-overloaded.sse")
    assert isinstance(overloaded.error, OverloadedError)
    failed = read("ollama/ollama-error.ndjson")
    assert isinstance(failed.error, ServerError)
    assert overloaded.text == failed.text == "Hel"
