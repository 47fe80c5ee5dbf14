"""How the arguments of a tool call are read, in a live answer and in a stored one."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime import AsyncAIClient
from seqoria_runtime.models import AssistantMessage, ChatMessage, ToolCallRequest
from seqoria_runtime.models._arguments import read_arguments
from seqoria_runtime.providers import AsyncBaseProvider, ModelRequest, ProviderEvent
from tests.support import chat_wire


@pytest.mark.case("F5")
@pytest.mark.parametrize("text", ["", "  \n"])
def test_blank_text_is_no_arguments(text: str) -> None:
    assert read_arguments(text) == ({}, None)


@pytest.mark.case("G4")
@pytest.mark.parametrize("text", ["null", " null ", '"null"'])
def test_null_is_not_an_object_and_is_kept(text: str) -> None:
    assert read_arguments(text) == ({}, "null")


@pytest.mark.case("G4")
def test_an_object_that_was_encoded_twice_is_unwrapped_once() -> None:
    once = json.dumps({"a": 1})
    assert read_arguments(json.dumps(once)) == ({"a": 1}, None)
    assert read_arguments(json.dumps(json.dumps(once))) == ({}, json.dumps(json.dumps(once)))


@pytest.mark.case("G4")
@pytest.mark.parametrize(
    "text",
    [
        "[1]",
        "1",
        "true",
        '"text"',
        '""',
        '{"a":',
        '{"a":1}{"b":2}',
        '{"a":NaN}',
        '{"a":1e999}',
        '{"a":"\\ud83d"}',
    ],
)
def test_what_is_not_a_json_object_is_kept_as_it_came(text: str) -> None:
    assert read_arguments(text) == ({}, text)


def test_raw_text_is_cut_with_a_mark() -> None:
    invalid = read_arguments("[" + "x" * 10_000).invalid
    assert invalid is not None
    assert len(invalid) == 2000
    assert invalid.startswith("[xxx")
    assert invalid.endswith(" [cut]")


def test_a_value_that_is_nested_too_deeply_is_invalid() -> None:
    assert read_arguments('{"a":' + "[" * 100_000).invalid is not None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), VALUES, max_size=4), st.booleans())
def test_every_object_that_can_be_written_is_read_back(values: dict[str, Any], ascii_only: bool) -> None:
    assert read_arguments(json.dumps(values, ensure_ascii=ascii_only)) == (values, None)


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    arguments = read_arguments(text)
    assert arguments.invalid is None or arguments.values == {}


class Listener(AsyncBaseProvider):
    """Keeps the messages that it is asked with."""

    messages: list[ChatMessage]

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        self.messages = list(request.messages)
        yield AssistantMessage(content="ok")


def read_live(arguments: str) -> ToolCallRequest:
    call = chat_wire.fragment(id="c1", name="add", arguments=arguments)
    answer = chat_wire.read(chat_wire.sse(call, chat_wire.delta(finish="tool_calls")))
    return answer.batch.tool_calls[0]


async def read_stored(arguments: str) -> ToolCallRequest:
    """Read the call from a dictionary in the form of Chat Completions."""
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": arguments}}
    history: list[Any] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
    ]
    listener = Listener()
    async with AsyncAIClient([listener]) as client, client.chat("and now?", history=history) as turn:
        async for _ in turn:
            pass
    [request] = [message for message in listener.messages if isinstance(message, ToolCallRequest)]
    return request


@pytest.mark.parametrize(
    ("text", "values", "invalid"),
    [
        ("", {}, False),
        (" ", {}, False),
        ("null", {}, True),
        (json.dumps('{"a": 1}'), {"a": 1}, False),
        ('{"a": 1}', {"a": 1}, False),
        ('{"a": NaN}', {}, True),
        ('{"a": 1e999}', {}, True),
        ('{"a": "\\ud83d"}', {}, True),
        ('{"a": ', {}, True),
        ("[1]", {}, True),
    ],
)
async def test_a_live_answer_and_a_stored_one_read_the_same_arguments(
    text: str, values: dict[str, Any], invalid: bool
) -> None:
    expected = (values, text if invalid else None)
    for call in (read_live(text), await read_stored(text)):
        assert (call.arguments, call.invalid_arguments) == expected
