"""How the arguments of a tool call are read."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime.providers._answers.arguments import read_arguments


@pytest.mark.case("F5")
@pytest.mark.parametrize("text", ["", "  \n", "null", '"null"'])
def test_nothing_stands_for_no_arguments(text: str) -> None:
    assert read_arguments(text) == ({}, None)


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
def test_what_is_no_json_object_is_kept_as_it_came(text: str) -> None:
    assert read_arguments(text) == ({}, text)


def test_raw_text_is_cut_with_a_mark() -> None:
    invalid = read_arguments("[" + "x" * 10_000).invalid
    assert invalid is not None
    assert len(invalid) == 2000
    assert invalid.startswith("[xxx")
    assert invalid.endswith(" [cut]")


def test_a_value_that_is_nested_too_deeply_is_no_arguments() -> None:
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
