"""Makes of the schema of an answer one that an API with constrained decoding accepts.

The given schema is never changed. What these APIs cannot hold to is left out where the answer is
checked anyway, and refused where it would change what the answer may be.
"""

from collections.abc import Mapping
from typing import Any

from .schemas import Schema, named_by, reference_of, with_each, without

# Messages refuses them; whoever reads the answer holds it against them.
_UNKNOWN_TO_MESSAGES = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
    *("pattern", "maxItems", "uniqueItems", "minContains", "maxContains", "minProperties", "maxProperties"),
)
_FORMATS = (*("date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"),)


def strict_schema(schema: Mapping[str, Any]) -> Schema:
    """Give the schema as OpenAI's strict mode takes it: each property required, and none beyond them.

    Raises `ValueError` for an object that takes any properties.
    """
    made: Schema = _strict(schema)
    return made


def closed_schema(schema: Mapping[str, Any]) -> Schema:
    """Give the schema as Messages takes it: no property beyond those that it names, no ranges.

    Raises `ValueError` for an object that takes any properties, and for a schema that names itself.
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
    # Nothing may stand beside a reference, but beside a union of one.
    return made if reference is None else made | {"anyOf": [{"$ref": reference}]} if made else schema


def _closed(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    left_out = [*_UNKNOWN_TO_MESSAGES]
    if schema.get("minItems") not in (0, 1):  # noqa: PLR6201  # what is no number need not be hashable
        left_out.append("minItems")
    if schema.get("format") not in _FORMATS:
        left_out.append("format")
    return with_each(_plain(schema, *left_out), _closed)


def _plain(schema: Mapping[str, Any], *left_out: str) -> Schema:
    """Give the schema itself, not those inside it, without these keywords and closed if an object's."""
    plain = without(schema, "discriminator", *left_out)
    if "oneOf" in plain:
        plain["anyOf"] = plain.pop("oneOf")
    if _is_of_objects(plain):
        if plain.get("additionalProperties", False) is not False or "patternProperties" in plain:
            named = f" ({plain['title']!r})" if plain.get("title") else ""
            raise ValueError(f"an object that takes any properties{named}, which this API does not know")
        plain["additionalProperties"] = False
    return plain


def _is_of_objects(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    told = kind == "object" or (isinstance(kind, list) and "object" in kind)
    return told or not schema.keys().isdisjoint({"properties", "patternProperties", "additionalProperties"})


def _refuse_recursion(top: Mapping[str, Any], schema: Any, path: tuple[str, ...]) -> None:
    if not isinstance(schema, Mapping):
        return
    reference = reference_of(schema)
    if reference in path:
        raise ValueError(f"a schema that names itself ({reference!r}), which this API does not know")
    inside = without(schema, "$defs", "definitions")
    with_each(inside, lambda one: _refuse_recursion(top, one, path))
    if reference is not None:
        _refuse_recursion(top, named_by(top, reference), (*path, reference))
