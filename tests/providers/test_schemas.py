"""Tools' schemas are converted to those that providers accept."""

import copy
import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime.providers._requests.output_schemas import closed_schema, strict_schema
from seqoria_runtime.providers._requests.schemas import (
    fits_strict,
    inlined_schema,
    wire_schema,
    with_type_lists,
)

STRING, NUMBER = {"type": "string"}, {"type": "integer"}
NAMES = st.sampled_from(["a", "b", "$ref", "$defs", "properties", "anyOf"])
REFERENCES = st.sampled_from([
    "#",
    "#/$defs/a",
    "#/$defs/b",
    "#/properties/a",
    "#/nowhere",
    "urn:x",
    "#/$defs/a~1b",
])


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.fixed_dictionaries(
            {"properties": st.dictionaries(NAMES, inner, max_size=3)}, optional={"type": st.just("object")}
        ),
        st.fixed_dictionaries({"$ref": REFERENCES}, optional={"description": st.just("d"), "items": inner}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"items": inner, "additionalProperties": inner}),
    )


SCHEMAS = st.recursive(
    st.sampled_from([{}, True, STRING, {"enum": [{"$ref": "#/data"}]}]), schemas, max_leaves=8
)
TOPS = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(NAMES, SCHEMAS, max_size=3)},
    optional={"$defs": st.dictionaries(st.sampled_from(["a", "b", "a/b"]), SCHEMAS, max_size=3)},
)


def references(schema: Any, *, of_properties: bool = False) -> list[str]:
    """Every reference in a schema; what is called "$ref" among the properties is none."""
    found = []
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "$ref" and not of_properties:
                found.append(value)
            elif key != "enum" or of_properties:
                named = key in {"properties", "$defs"} and not of_properties
                found += references(value, of_properties=named)
    elif isinstance(schema, list):
        found = [one for item in schema for one in references(item)]
    return found


def named_by(schema: Any, reference: str) -> Any:
    for step in reference.split("/")[1:]:
        schema = schema[step.replace("~1", "/")]
    return schema


@pytest.mark.case("H3")
@given(TOPS)
def test_every_reference_that_goes_out_resolves_and_the_given_schema_stays_as_it_is(schema: Any) -> None:
    before = copy.deepcopy(schema)
    sent = wire_schema(schema)
    for reference in references(sent):
        named_by(sent, reference)
    assert references(inlined_schema(schema)) == []
    json.dumps([sent, inlined_schema(schema)])
    assert schema == before


@given(TOPS)
def test_a_schema_without_references_goes_out_as_it_is(schema: Any) -> None:
    if not references(schema):
        assert wire_schema(schema) == schema


def test_a_schema_that_is_a_reference_itself_is_followed() -> None:
    point = {"type": "object", "properties": {"x": NUMBER}, "required": ["x"]}
    sent = wire_schema({"$ref": "#/$defs/P", "$defs": {"P": point}, "title": "T"})
    assert sent == {**point, "$defs": {"P": point}, "title": "T"}
    assert inlined_schema({"$ref": "#/$defs/P", "$defs": {"P": point}}) == point


def test_a_reference_to_itself_alone_is_anything() -> None:
    assert wire_schema({"$ref": "#"}) == {"type": "object", "properties": {}}
    loop = {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}}
    assert wire_schema(loop)["properties"] == {}
    assert inlined_schema(loop) == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("union", "required"), [("anyOf", ["kind"]), ("oneOf", ["kind"]), ("allOf", ["kind", "x", "y"])]
)
def test_a_union_at_the_top_becomes_one_object(union: str, required: list[str]) -> None:
    schema = {
        "properties": {"id": NUMBER},
        union: [
            {"properties": {"kind": {"const": "a"}, "x": STRING}, "required": ["kind", "x"]},
            {"$ref": "#/$defs/B"},
        ],
        "$defs": {"B": {"properties": {"kind": {"const": "b"}, "y": STRING}, "required": ["kind", "y"]}},
        "not": {"required": ["z"]},
    }
    sent = wire_schema(schema)
    assert sent["type"] == "object"
    assert not {union, "not"} & sent.keys()
    assert sent["properties"] == {
        "id": NUMBER,
        "kind": {"anyOf": [{"const": "a"}, {"const": "b"}]},
        "x": STRING,
        "y": STRING,
    }
    assert sent["required"] == required


def test_a_schema_that_grows_without_end_is_cut() -> None:
    names = [f"d{number}" for number in range(16)]
    definitions: dict[str, Any] = {
        name: {"type": "object", "properties": {side: {"$ref": f"#/$defs/{after}"} for side in "lr"}}
        for name, after in pairwise(names)
    }
    definitions[names[-1]] = STRING
    top = {"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}
    assert len(json.dumps(inlined_schema(top))) < 200_000


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"anyOf": [STRING, {"type": "null"}]}, {"type": ["string", "null"]}),
        ({"anyOf": [STRING, NUMBER]}, {"type": ["string", "integer"]}),
        (
            {"anyOf": [{"type": "array", "items": STRING}, {"type": "null"}], "description": "d"},
            {"type": ["array", "null"], "items": STRING, "description": "d"},
        ),
        (
            {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        ({"items": {"anyOf": [STRING, NUMBER]}}, {"items": {"type": ["string", "integer"]}}),
        ({"anyOf": [{"type": "string", "enum": ["a"]}, NUMBER]}, None),
        ({"anyOf": [{"type": "string", "const": "a"}, {"type": "null"}]}, None),
        ({"anyOf": [{"type": "string", "format": "a"}, {"type": "integer", "format": "b"}]}, None),
        ({"anyOf": [{"enum": ["a"]}, NUMBER]}, None),
        ({"anyOf": [True, NUMBER]}, None),
        ({"type": "string", "anyOf": [STRING, NUMBER]}, None),
        ({"const": {"anyOf": [STRING, NUMBER]}}, None),
    ],
)
def test_a_plain_union_becomes_a_list_of_types_and_another_stays(schema: Any, sent: Any) -> None:
    assert with_type_lists(schema) == (schema if sent is None else sent)


CLOSED = {"type": "object", "properties": {"x": NUMBER}, "required": ["x"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "fits"),
    [
        (CLOSED, True),
        ({**CLOSED, "properties": {"x": CLOSED}}, True),
        ({**CLOSED, "properties": {"x": {"$ref": "#"}}}, True),
        ({**CLOSED, "properties": {}, "required": []}, False),
        ({**CLOSED, "required": []}, False),
        ({**CLOSED, "additionalProperties": True}, False),
        ({**CLOSED, "properties": {"x": {"type": "object"}}}, False),
        ({**CLOSED, "properties": {"x": {**NUMBER, "default": 1}}}, False),
        ({**CLOSED, "properties": {"x": {"$ref": "#", "description": "d"}}}, False),
        ({**CLOSED, "properties": {"default": NUMBER}, "required": ["default"]}, True),
    ],
)
def test_a_schema_is_strict_where_it_leaves_nothing_open(schema: Any, fits: bool) -> None:
    assert fits_strict(schema) is fits


def made(make: Callable[[Any], Any], schema: Any, *reasons: str) -> Any:
    """What is made of a schema that has to stay as it is; `None` where it is refused for such a reason."""
    before = copy.deepcopy(schema)
    try:
        return make(schema)
    except ValueError as error:
        if not any(reason in str(error) for reason in reasons):
            raise
        return None
    finally:
        assert schema == before


@given(TOPS)
def test_a_strict_schema_of_an_answer_fits_strict_mode_or_is_refused(schema: Any) -> None:
    sent = wire_schema(schema)
    strict = made(strict_schema, sent, "any properties")
    if strict is not None:
        assert fits_strict(strict) or not strict["properties"]
        assert sorted(references(strict)) == sorted(references(sent))
        assert strict_schema(strict) == strict


@given(TOPS)
def test_a_closed_schema_of_an_answer_has_no_open_object_and_no_recursion(schema: Any) -> None:
    closed = made(closed_schema, wire_schema(schema), "any properties", "refers to itself")
    if closed is not None:
        assert closed_schema(closed) == closed
        assert '"additionalProperties": true' not in json.dumps(closed)
        inlined_schema(closed)


def test_an_object_that_may_be_null_is_closed_as_well() -> None:
    inner = {"type": ["object", "null"], "properties": {"a": STRING}}
    schema = {"type": "object", "properties": {"x": inner}}
    for make in (strict_schema, closed_schema):
        assert make(schema)["properties"]["x"]["additionalProperties"] is False
    open_ones: list[dict[str, Any]] = [
        {"type": ["object", "null"], "additionalProperties": True},
        {"patternProperties": {"^a": {}}},
    ]
    for refused in open_ones:
        with pytest.raises(ValueError, match="any properties"):
            closed_schema({"type": "object", "properties": {"x": refused}})
