"""Converts the schema of an answer to one that an API with constrained decoding accepts.

The original schema never changes. What these APIs cannot enforce is left out if the answer is
checked anyway, and refused if it would change what the answer may be.
"""

from collections.abc import Mapping
from typing import Any

from .schemas import Schema, named_by, reference_of, with_each, without

# Messages refuses these keywords; `AssistantMessage.parsed` checks them.
_UNKNOWN_TO_MESSAGES = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
    "pattern", "maxItems", "uniqueItems", "minContains", "maxContains", "minProperties", "maxProperties",
)  # fmt: skip
_FORMATS = (
    "date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid",
)  # fmt: skip


def strict_schema(schema: Mapping[str, Any]) -> Schema:
    """Return the schema for OpenAI's strict mode: every property required, and no others allowed.

    Raises `ValueError` for an object that takes any properties.
    """
    made: Schema = _strict(schema)
    return made


def closed_schema(schema: Mapping[str, Any]) -> Schema:
    """Return the schema for Messages: no properties but those that it names, and no ranges.

    Raises `ValueError` for an object that takes any properties, and for a recursive schema.
    """
    _refuse_recursion(schema, schema, ())
    made: Schema = _closed(schema)
    return made


def _strict(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    made = with_each(_plain(schema, "default"), _strict)
    properties = made.get("properties")
    if isinstance(properties, Mapping):
        made["required"] = list(properties)
    reference = made.pop("$ref", None)
    # Strict mode refuses keywords next to a reference, but allows them next to a union of one.
    return made if reference is None else made | {"anyOf": [{"$ref": reference}]} if made else schema


def _closed(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    left_out = [*_UNKNOWN_TO_MESSAGES]
    if schema.get("minItems") not in (0, 1):  # noqa: PLR6201  # a wrong value may not be hashable
        left_out.append("minItems")
    if schema.get("format") not in _FORMATS:
        left_out.append("format")
    return with_each(_plain(schema, *left_out), _closed)


def _plain(schema: Mapping[str, Any], *left_out: str) -> Schema:
    """Return the schema without these keywords, closed if it is an object's; inner ones stay."""
    plain = without(schema, "discriminator", *left_out)
    if "oneOf" in plain:
        plain["anyOf"] = plain.pop("oneOf")
    if _is_of_objects(plain):
        if plain.get("additionalProperties", False) is not False or "patternProperties" in plain:
            named = f" ({plain['title']!r})" if plain.get("title") else ""
            raise ValueError(f"an object that takes any properties{named}, which this API does not support")
        plain["additionalProperties"] = False
    return plain


def _is_of_objects(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    typed = kind == "object" or (isinstance(kind, list) and "object" in kind)
    return typed or not schema.keys().isdisjoint({"properties", "patternProperties", "additionalProperties"})


def _refuse_recursion(top: Mapping[str, Any], schema: Any, path: tuple[str, ...]) -> None:
    if not isinstance(schema, Mapping):
        return
    reference = reference_of(schema)
    if reference in path:
        raise ValueError(f"a schema that refers to itself ({reference!r}), which this API does not support")
    inside = without(schema, "$defs", "definitions")
    with_each(inside, lambda one: _refuse_recursion(top, one, path))
    if reference is not None:
        _refuse_recursion(top, named_by(top, reference), (*path, reference))
