import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime.mcp._connection.results import ANNOTATIONS_KEY, error_text, readable, result_text

pytestmark = [pytest.mark.clause("C101"), pytest.mark.case("K8")]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


PNG = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"content": [text("one"), text("two")]}, "one\ntwo"),
        ({"content": [], "structuredContent": {"a": "é"}}, '{"a": "é"}'),
        ({"structuredContent": {}}, "{}"),
        ({"content": [text('{"a": 1}')], "structuredContent": {"a": 1}}, '{"a": 1}'),
        ({"content": [text("one")], "structuredContent": {"a": 1}}, "one"),
        ({"content": []}, "Tool executed successfully."),
        ({}, "Tool executed successfully."),
        (
            {"content": [PNG, text("one")], "structuredContent": {}},
            "[image: image/png, 5 bytes, not shown]\none",
        ),
        ({"content": [{"type": "audio", "data": "aGk="}]}, "[audio: 2 bytes, not shown]"),
        (
            {"content": [{"type": "resource_link", "name": "r", "uri": "x://y", "description": "d"}]},
            "[resource link: r, x://y, d]",
        ),
        (
            {"content": [{"type": "resource", "resource": {"uri": "x://y", "text": "body"}}]},
            "[resource: x://y]\nbody",
        ),
        (
            {
                "content": [
                    {"type": "resource", "resource": {"uri": "x://y", "blob": "aGk=", "mimeType": "a/b"}}
                ]
            },
            "[resource: x://y, a/b, 2 bytes, not shown]",
        ),
        (
            {"content": [{"type": "hologram", "data": 1}]},
            "[content of the unknown type 'hologram': not shown]",
        ),
        ({"content": ["?", text("one")]}, "[content of an unknown kind]\none"),
    ],
)
def test_a_result_becomes_text(result: dict[str, Any], expected: str) -> None:
    assert result_text(readable("tools/call", result)) == expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"content": [text("db down")], "structuredContent": {"code": "E7"}}, 'db down\n{"code": "E7"}'),
        ({"content": [], "structuredContent": {"code": "E7"}}, '{"code": "E7"}'),
        ({"content": [text('{"code":"E7"}')], "structuredContent": {"code": "E7"}}, '{"code":"E7"}'),
        ({"content": [text("bad")]}, "bad"),
        ({"content": [text(" ")]}, "the tool reported an error without a message"),
        ({}, "the tool reported an error without a message"),
    ],
)
def test_an_error_says_all_that_there_is_once(result: dict[str, Any], expected: str) -> None:
    assert error_text(readable("tools/call", result)) == expected


@given(st.dictionaries(st.sampled_from(["content", "structuredContent", "_meta", "isError", "x"]), JSON))
def test_whatever_a_server_sends_becomes_some_text_and_readable(result: dict[str, Any]) -> None:
    made = readable("tools/call", result)
    assert result_text(made)
    assert error_text(made)
    assert all(block["type"] == "text" for block in made["content"])
    assert isinstance(readable("tools/list", {"tools": result.get("content")})["tools"], list)


def test_structured_content_that_is_not_an_object_is_kept_as_text() -> None:
    made = readable("tools/call", {"content": [], "structuredContent": [1, 2]})
    assert "structuredContent" not in made
    assert json.loads(result_text(made)) == [1, 2]
    made = readable("tools/call", {"content": [text("one")], "structuredContent": [1, 2]})
    assert result_text(made) == "one"


def test_a_question_for_input_is_left_as_it_is() -> None:
    question = {"resultType": "input_required", "inputRequests": {"a": {}}}
    assert readable("tools/call", question) == question


def test_content_next_to_a_question_for_input_becomes_text_too() -> None:
    made = readable("tools/call", {"resultType": "input_required", "content": [PNG]})
    assert result_text(made) == "[image: image/png, 5 bytes, not shown]"


def test_annotations_are_kept_whole_and_tools_that_cannot_be_used_are_left_out() -> None:
    tools = [
        {"name": "a", "inputSchema": {}, "annotations": {"depends_on": ["b"]}, "_meta": {"k": 1}},
        {"name": "b", "inputSchema": {"type": "object"}, "annotations": "?"},
        {"name": "d", "inputSchema": {"type": "array"}},
        {"name": "", "inputSchema": {}},
        {"name": "c"},
        5,
    ]
    made = readable("tools/list", {"tools": tools})["tools"]
    assert made == [
        {
            "name": "a",
            "inputSchema": {"type": "object"},
            "annotations": {"depends_on": ["b"]},
            "_meta": {"k": 1, ANNOTATIONS_KEY: {"depends_on": ["b"]}},
        },
        {"name": "b", "inputSchema": {"type": "object"}},
    ]


def test_other_results_are_not_touched() -> None:
    result = {"contents": [{"blob": "x"}]}
    assert readable("resources/read", result) is result
