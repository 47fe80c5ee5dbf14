"""Makes of a tool's JSON schema one that a provider accepts; the given schema is never changed.

The rules: what goes out is an object schema without a union at its top, and its references resolve
inside itself; one that does not becomes "anything". Where a provider knows no references, they are
replaced by what they name, and a recursion is cut where it would begin again.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import unquote

Schema: TypeAlias = dict[str, Any]

_OF_ONE = frozenset({
    *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not"),
    *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
})
_OF_SEVERAL = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_OF_NAMED = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
_DEFINITIONS = ("$defs", "definitions")
_UNIONS = ("allOf", "anyOf", "oneOf")
_MAX_INLINED = 1000


def wire_schema(parameters: Mapping[str, Any]) -> Schema:
    """Give the schema for a provider that knows references."""
    top = _object_schema(parameters)
    return with_each(top, partial(_without_dangling, top))


def inlined_schema(parameters: Mapping[str, Any]) -> Schema:
    """Give the schema for a provider that knows no references."""
    top = wire_schema(parameters)
    inlining = _Inlining(top)
    return with_each(without(top, *_DEFINITIONS), lambda one: inlining.visit(one, ()))


def fits_strict(schema: Mapping[str, Any]) -> bool:
    """Whether the rules of strict mode hold, so that a server can promise arguments that fit.

    Each object names all of its properties as required and allows no others, there is at least one,
    and neither a default nor anything beside a reference stands anywhere.
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
    """Write unions of plain types as a list of types, for a provider that reads no `anyOf`."""
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
    """Give the schema with its own subschemas changed; names of properties are no keywords."""
    mapped: Schema = {}
    for key, value in schema.items():
        if key in _OF_NAMED and isinstance(value, Mapping):
            mapped[key] = {name: change(named) for name, named in value.items()}
        elif key in _OF_SEVERAL and isinstance(value, list):
            mapped[key] = [change(one) for one in value]
        else:
            mapped[key] = change(value) if key in _OF_ONE else value
    return mapped


def named_by(top: Mapping[str, Any], reference: str) -> Any:
    """Give what a reference names inside the schema; `None` where it names nothing there."""
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
    # Some servers refuse a schema without these two, also for a tool without parameters.
    return {**without(top, "enum", "not"), "type": "object", "properties": top.get("properties") or {}}


def unwrapped(schema: Any, top: Mapping[str, Any]) -> Schema:
    """Give the schema with the reference that it itself is replaced by what that names."""
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
    """Give one object schema that takes whatever one with unions at its top takes."""
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

    Of one that would recur, and of those after a thousand, only the type of what it names is kept.
    """

    def __init__(self, top: Mapping[str, Any]) -> None:
        self._top = top
        self._inlined = 0

    def visit(self, schema: Any, path: tuple[str, ...]) -> Any:
        if not isinstance(schema, Mapping):
            return schema
        reference = reference_of(schema)
        beside = with_each(without(schema, "$ref", *_DEFINITIONS), lambda one: self.visit(one, path))
        if reference is None:
            return beside
        target = named_by(self._top, reference)
        if not isinstance(target, Mapping):
            return beside
        self._inlined += 1
        if reference in path or self._inlined > _MAX_INLINED:
            kind = target.get("type")
            return ({"type": kind} if kind else {}) | beside
        return self.visit(target, (*path, reference)) | beside
