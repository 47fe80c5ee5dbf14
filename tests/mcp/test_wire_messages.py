"""Lines that are almost a message, or nothing like one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import JSONRPCError, JSONRPCResponse

from seqoria_runtime.mcp._transport.messages import messages_in

pytestmark = pytest.mark.case("K1")


@pytest.mark.parametrize(
    ("line", "result"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":"\\ud83d!"}}', {"a": "?!"}),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":"\\ud83d\\ude00"}}', {"a": "\U0001f600"}),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":"\xff!"}}', {"a": "\ufffd!"}),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"result":{}}', {}),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":' + b"[" * 300 + b"]" * 300 + b"}}", None),
    ],
)
def test_an_answer_that_strict_json_refuses_is_read_all_the_same(
    line: bytes, result: dict[str, object] | None
) -> None:
    [message] = messages_in(line)
    assert isinstance(message, JSONRPCResponse)
    assert result is None or message.result == result


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"result": None}, "neither a result nor an error"),
        ({"result": "ok"}, "neither a result nor an error"),
        ({}, "neither a result nor an error"),
        ({"error": "out of paper"}, "out of paper"),
        ({"error": {"code": "E1", "message": "out of paper"}}, "out of paper"),
        ({"error": {"message": 5}}, "neither a result nor an error"),
    ],
)
def test_an_answer_that_breaks_the_protocol_is_an_error_answer(answer: dict[str, object], said: str) -> None:
    [message] = messages_in(json.dumps({"jsonrpc": "2.0", "id": 7, **answer}))
    assert isinstance(message, JSONRPCError)
    assert message.id == 7
    assert said in message.error.message


def test_a_batch_is_read_message_by_message() -> None:
    answers: list[object] = [{"jsonrpc": "2.0", "id": number, "result": {}} for number in (1, 2)]
    assert [getattr(message, "id", None) for message in messages_in(json.dumps([*answers, 5]))] == [1, 2]


@pytest.mark.parametrize(
    "line",
    [
        b"npm notice hi",
        b"[1, 2]",
        b'{"level": "info", "id": 1, "error": "in a log line"}',
        b'{"jsonrpc": "2.0", "id": 1, "resu',
        b'{"jsonrpc": "2.0", "id": null, "result": 5}',
        b'{"jsonrpc": "2.0", "method": "x", "params": []}',
        b"[" * 100_000,
        b'{"a": ' + b"9" * 10_000 + b"}",
    ],
)
def test_anything_but_a_message_is_skipped(line: bytes) -> None:
    assert messages_in(line) == []


@given(st.binary() | st.text().map(str.encode))
def test_nothing_that_is_written_is_an_exception(line: bytes) -> None:
    messages_in(line)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.lists(inner)))
def test_every_answer_to_a_request_answers_it(value: object) -> None:
    [message] = messages_in(json.dumps({"jsonrpc": "2.0", "id": "x", "result": value}))
    assert getattr(message, "id", None) == "x"
