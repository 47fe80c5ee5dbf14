"""Owns the rewriting of a tool's schema, so that hidden fields of its structs are filled from `Trusted`.

A struct is a model, a dataclass or a typed dictionary. Which choice of a union fits, what a list
holds and what the application's validators say stays pydantic's business. Knows no values.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pydantic_core import core_schema

from ._core_schema import Definitions, Node, map_children, reachable
from ._marker import is_marker, marks_all_of
from ._trusted import FillStruct, GuardField, HiddenField, settle_union, try_choice

_HIDDEN_FIELD: Final = "seqoria_runtime_hidden_field"
_FILL: Final = "seqoria_runtime_fill"
_STRUCTS = frozenset({"dataclass-args", "model-fields", "typed-dict"})


class StrayMarkerError(Exception):
    """`HIDDEN` stands at a part of a type, as in `list[Annotated[str, HIDDEN]]`."""


def fields_below(root: Node, definitions: Definitions) -> Iterator[tuple[str, Node]]:
    """Yield each field, with its name, of each struct that can be reached."""
    for node in reachable(root, definitions):
        if node["type"] in _STRUCTS:
            yield from _fields(node)


def marked(fields: Iterable[tuple[str, Node]]) -> frozenset[str]:
    return frozenset(name for name, field in fields if marks_all_of(field["schema"]))


def is_hidden_field(field: Node) -> bool:
    return bool((field.get("metadata") or {}).get(_HIDDEN_FIELD))


def keys_of(field: Node, name: str) -> frozenset[str]:
    """The keys under which an input may hold the field: its name and its plain aliases."""
    alias = field.get("validation_alias", ())
    if isinstance(alias, str):
        return frozenset({name, alias})
    return frozenset({name, *(str(path[0]) for path in alias if len(path) == 1)})


def is_required(field: Node) -> bool:
    return field["schema"]["type"] != "default" and bool(field.get("required", True))


def hidden_field(field: Node, name: str) -> Node:
    """Make the field one that takes its value from us: by its name alone, guarded, in no JSON schema."""
    guard = GuardField(name, is_required(field))
    schema = field["schema"]
    if schema["type"] == "default":
        # pydantic-core finds a default only at the outermost place.
        schema = {**schema, "schema": _guarded(schema["schema"], guard)}
    else:
        schema = _guarded(schema, guard)
    rest = {key: value for key, value in field.items() if key != "validation_alias"}
    return {**rest, "schema": schema, "metadata": {**(field.get("metadata") or {}), _HIDDEN_FIELD: True}}


class Rewriter:
    """Rewrites schemas for one set of hidden names."""

    def __init__(self, hidden: frozenset[str], definitions: Definitions) -> None:
        self._hidden = hidden
        self._definitions = definitions

    def rewrite(self, node: Node) -> Node:
        """Make the schema that fills hidden fields; raises `StrayMarkerError`."""
        if is_marker(node):
            raise StrayMarkerError
        if node["type"] in _STRUCTS:
            return self._struct(node)
        if node["type"] == "union":
            return self._union(node)
        new = map_children(node, self.rewrite)
        fill = new["schema"].get("metadata", {}).get(_FILL) if node["type"] == "function-before" else None
        # So an application's before-validator sees trusted values, and cannot bring in others.
        return _filled(new, fill) if fill else new

    def _struct(self, node: Node) -> Node:
        hidden = tuple(
            HiddenField(name, keys_of(field, name), is_required(field))
            for name, field in _fields(node)
            if name in self._hidden
        )
        changed = [(name, self._field(field, name)) for name, field in _fields(node)]
        as_written = node["fields"]
        fields = dict(changed) if isinstance(as_written, dict) else [field for _, field in changed]
        rest = {key: value for key, value in node.items() if key != "fields"}
        new = {**map_children(rest, self.rewrite), "fields": fields}
        return _filled(new, FillStruct(hidden)) if hidden else new

    def _field(self, field: Node, name: str) -> Node:
        return hidden_field(field, name) if name in self._hidden else map_children(field, self.rewrite)

    def _union(self, node: Node) -> Node:
        return _wrapped(
            {**node, "choices": [self._choice(choice) for choice in node["choices"]]}, settle_union
        )

    def _choice(self, choice: Any) -> Any:
        if isinstance(choice, (list, tuple)):
            return (self._choice(choice[0]), *choice[1:])
        new = self.rewrite(choice)
        holds_hidden = any(name in self._hidden for name, _ in fields_below(choice, self._definitions))
        return _wrapped(new, try_choice) if holds_hidden else new


def _fields(struct: Node) -> Iterator[tuple[str, Node]]:
    fields = struct["fields"]
    if isinstance(fields, dict):
        yield from fields.items()
    else:
        yield from ((field["name"], field) for field in fields)


def _filled(node: Node, fill: FillStruct) -> Node:
    return _around(node, core_schema.with_info_before_validator_function, fill, {_FILL: fill})


def _wrapped(node: Node, function: Any) -> Node:
    return _around(node, core_schema.with_info_wrap_validator_function, function, None)


def _guarded(node: Node, guard: GuardField) -> Node:
    return _around(node, core_schema.no_info_wrap_validator_function, guard, None)


def _around(node: Node, make: Any, function: Any, metadata: dict[str, Any] | None) -> Node:
    """Put a function around a node; references to the node lead to the whole from then on."""
    inner = {key: value for key, value in node.items() if key != "ref"}
    outer: Node = make(function, inner, ref=node.get("ref"), metadata=metadata)
    return outer
