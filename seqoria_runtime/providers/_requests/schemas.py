"""Converts a tool's JSON schema to one that a provider accepts; the original never changes.

What is sent is an object schema without a union at its top. Its references resolve inside it; one
that does not becomes "anything". For a provider without references, each is replaced by what it
names, and a recursion is cut where it would start again.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import unquote

Schema: TypeAlias = dict[str, Any]

# The keywords that hold one schema, a list of schemas, and schemas by name.
_ONE_SCHEMA = frozenset({
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
_SCHEMA_LISTS = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_NAMED_SCHEMAS = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
_DEFINITIONS = ("$defs", "definitions")
_UNIONS = ("allOf", "anyOf", "oneOf")
_MAX_INLINED = 1000


def wire_schema(parameters: Mapping[str, Any]) -> Schema:
    """Return the schema for a provider that supports references."""
    top = _object_schema(parameters)
    return with_each(top, partial(_without_dangling, top))


def inlined_schema(parameters: Mapping[str, Any]) -> Schema:
    """Return the schema for a provider without references."""
    top = wire_schema(parameters)
    inlining = _Inlining(top)
    return with_each(without(top, *_DEFINITIONS), lambda one: inlining.visit(one, ()))


def fits_strict(schema: Mapping[str, Any]) -> bool:
    """Whether the schema follows the rules of strict mode, under which a server enforces it.

    Each object requires all its properties and allows no others, the top one has at least one, and
    no schema has a default, or any keyword next to a reference.
    """
    return bool(schema.get("properties")) and _is_strict(schema)


def _is_strict(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return True
    if "default" in schema or ("$ref" in schema and len(schema) > 1):
        return False
    properties = schema.get("properties")
    if isinstance(properties, Mapping) or schema.get("type") == "object":
        required = set(schema.get("required") or ())
        if schema.get("additionalProperties") is not False or required != set(properties or ()):
            return False
    found: list[bool] = []
    with_each(schema, lambda one: found.append(_is_strict(one)))
    return all(found)


def with_type_lists(schema: Any) -> Any:
    """Write unions of plain types as a list of types, for a provider without `anyOf`."""
    if not isinstance(schema, Mapping):
        return schema
    mapped = with_each(schema, with_type_lists)
    branches = mapped.get("anyOf")
    if "type" in mapped or not isinstance(branches, list):
        return mapped
    merged = _merged_types(branches)
    if merged is None:
        return mapped
    del mapped["anyOf"]
    return merged | mapped


def _merged_types(branches: list[Any]) -> Schema | None:
    merged: Schema = {"type": []}
    for branch in branches:
        kind = branch.get("type") if isinstance(branch, Mapping) else None
        rest = {key: value for key, value in branch.items() if key not in {"type", "title"}} if kind else {}
        alone = len(branches) == 2 and {"type": "null"} in branches  # noqa: PLR2004  # "X or null"
        if (
            not isinstance(kind, str)
            or rest.keys() & merged.keys()
            or (not alone and rest.keys() & {"enum", "const"})
        ):
            return None
        merged |= rest
        merged["type"].append(kind)
    if "const" in merged:
        return None
    if "enum" in merged:
        merged["enum"] = [*merged["enum"], None]
    return merged


def with_each(schema: Mapping[str, Any], change: Callable[[Any], Any]) -> Schema:
    """Return the schema with its direct subschemas changed."""
    mapped: Schema = {}
    for key, value in schema.items():
        if key in _NAMED_SCHEMAS and isinstance(value, Mapping):
            mapped[key] = {name: change(named) for name, named in value.items()}
        elif key in _SCHEMA_LISTS and isinstance(value, list):
            mapped[key] = [change(one) for one in value]
        else:
            mapped[key] = change(value) if key in _ONE_SCHEMA else value
    return mapped


def named_by(top: Mapping[str, Any], reference: str) -> Any:
    """Return what a reference names inside the schema; `None` if it names nothing there."""
    if reference != "#" and not reference.startswith("#/"):
        return None
    found: Any = top
    for step in reference.split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        elif isinstance(found, Mapping) and name in found:
            found = found[name]
        else:
            return None
    return found if isinstance(found, (Mapping, bool)) else None


def reference_of(schema: Mapping[str, Any]) -> str | None:
    reference = schema.get("$ref")
    return reference if isinstance(reference, str) else None


def without(schema: Mapping[str, Any], *keys: str) -> Schema:
    return {key: value for key, value in schema.items() if key not in keys}


def _without_dangling(top: Mapping[str, Any], schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    reference = reference_of(schema)
    if reference is not None and named_by(top, reference) is None:
        schema = without(schema, "$ref")
    return with_each(schema, partial(_without_dangling, top))


def _object_schema(parameters: Mapping[str, Any]) -> Schema:
    top = unwrapped(parameters, parameters)
    if any(isinstance(top.get(union), list) for union in _UNIONS):
        top = _joined(top, parameters)
    # Some servers refuse a schema without these two, even for a tool without parameters.
    return {**without(top, "enum", "not"), "type": "object", "properties": top.get("properties") or {}}


def unwrapped(schema: Any, top: Mapping[str, Any]) -> Schema:
    """Return the schema; if it is itself a reference, what that names."""
    seen: set[str] = set()
    followed: Schema = dict(schema) if isinstance(schema, Mapping) else {}
    while (reference := reference_of(followed)) is not None:
        target = named_by(top, reference)
        followed = without(followed, "$ref")
        if reference in seen or not isinstance(target, Mapping):
            break
        seen.add(reference)
        followed = {**target, **followed}
    return followed


def _joined(schema: Schema, top: Mapping[str, Any]) -> Schema:
    """Return one object schema that accepts whatever a schema with unions at its top accepts."""
    joined = without(schema, *_UNIONS)
    properties: dict[str, list[Any]] = {name: [one] for name, one in (joined.get("properties") or {}).items()}
    required = set(joined.get("required") or ())
    for union in _UNIONS:
        branches = [unwrapped(branch, top) for branch in schema.get(union) or ()]
        for branch in branches:
            for name, one in (branch.get("properties") or {}).items():
                properties.setdefault(name, []).append(one)
        needed = [set(branch.get("required") or ()) for branch in branches]
        if needed:
            required |= set.union(*needed) if union == "allOf" else set.intersection(*needed)
    joined["properties"] = {name: _one_of(choices) for name, choices in properties.items()}
    joined["required"] = sorted(required)
    return joined


def _one_of(choices: Iterable[Any]) -> Any:
    distinct: list[Any] = []
    for choice in choices:
        if choice not in distinct:
            distinct.append(choice)
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


class _Inlining:
    """Replaces references.

    Of a recursive reference, and of those after the first thousand, only the type of the target is
    kept.
    """

    def __init__(self, top: Mapping[str, Any]) -> None:
        self._top = top
        self._inlined = 0

    def visit(self, schema: Any, path: tuple[str, ...]) -> Any:
        if not isinstance(schema, Mapping):
            return schema
        reference = reference_of(schema)
        siblings = with_each(without(schema, "$ref", *_DEFINITIONS), lambda one: self.visit(one, path))
        if reference is None:
            return siblings
        target = named_by(self._top, reference)
        if not isinstance(target, Mapping):
            return siblings
        self._inlined += 1
        if reference in path or self._inlined > _MAX_INLINED:
            kind = target.get("type")
            return ({"type": kind} if kind else {}) | siblings
        return self.visit(target, (*path, reference)) | siblings
