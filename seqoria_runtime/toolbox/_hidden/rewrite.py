"""Rewrites a tool's core schema, so that the hidden fields of its structs are filled from `TrustedValues`.

A struct is a model, a dataclass or a typed dictionary. Everything else stays with pydantic: which choice of
a union fits, what a list contains, and what the application's validators do.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pydantic_core import core_schema

from seqoria_runtime.toolbox._reading.fields import Definitions, Node

from .core_schema import map_children, reachable
from .marker import hides_whole_value, is_marked
from .trusted_values import (
    NO_VALUE,
    FillField,
    FilterStruct,
    HiddenField,
    MarkFieldsSet,
    validate_choice,
    validate_union,
)

_HIDDEN_FIELD: Final = "seqoria_runtime_hidden_field"
_STRUCTS: Final = frozenset({"dataclass-args", "model-fields", "typed-dict"})
# Validators of the application that see the input before the struct, and may read hidden fields in it.
_READS_INPUT: Final = frozenset({"function-before", "function-wrap"})


class StrayMarkerError(Exception):
    """`HIDDEN` marks only a part of a type, as in `list[Annotated[str, HIDDEN]]`."""


def struct_fields(root: Node, definitions: Definitions) -> Iterator[tuple[str, Node]]:
    """Yield the name and the field, for each field of each struct that can be reached."""
    for node in reachable(root, definitions):
        if node["type"] in _STRUCTS:
            yield from _fields(node)


def names_marked(fields: Iterable[tuple[str, Node]], definitions: Definitions) -> frozenset[str]:
    return frozenset(name for name, field in fields if hides_whole_value(field["schema"], definitions))


def is_hidden_field(field: Node) -> bool:
    return bool((field.get("metadata") or {}).get(_HIDDEN_FIELD))


def keys_of(field: Node, name: str) -> tuple[str, ...]:
    """Return the keys under which an input may contain the field: its name and its plain aliases."""
    alias = field.get("validation_alias", ())
    aliases = [alias] if isinstance(alias, str) else [str(path[0]) for path in alias if len(path) == 1]
    return tuple(dict.fromkeys([name, *aliases]))


def is_required(field: Node) -> bool:
    return field["schema"]["type"] != "default" and bool(field.get("required", True))


def standalone(field: Node) -> Node:
    """Return the field without aliases, and optional."""
    return {**_renamed(field), "required": False}


def _filled(field: Node, name: str) -> Node:
    """Return a field that takes its value from the context, and is in no JSON schema."""
    fill = FillField(name, is_required(field), has_default=field["schema"]["type"] == "default")
    schema = _wrapped(field["schema"], fill)
    metadata = {**(field.get("metadata") or {}), _HIDDEN_FIELD: True}
    with_default = core_schema.with_default_schema(schema, default=NO_VALUE, validate_default=True)
    # Only the fields of a typed dictionary have `required`, and pydantic-core refuses one with a default.
    optional = {"required": False} if "required" in field else {}
    return _renamed({**field, **optional, "schema": with_default, "metadata": metadata})


def _renamed(field: Node) -> Node:
    return {key: value for key, value in field.items() if key != "validation_alias"}


class Rewriter:
    """Rewrites a schema for one set of hidden names; it refers to the rewritten `definitions`."""

    def __init__(self, hidden: frozenset[str], definitions: Definitions) -> None:
        self._hidden = hidden
        self._definitions = definitions
        self.definitions: dict[str, Node] = {}

    def rewrite(self, node: Node) -> Node:
        """Return the schema that fills hidden fields; raise `StrayMarkerError`."""
        if is_marked(node):
            raise StrayMarkerError
        if node["type"] in _STRUCTS:
            return self._struct(node)
        if node["type"] == "union":
            return self._union(node)
        if node["type"] == "definition-ref":
            self._rewrite_definition(node["schema_ref"])
            return node
        new = map_children(node, self.rewrite)
        if node["type"] in _READS_INPUT and (fields := _filtered_fields(new["schema"])):
            # `@model_validator(mode="before")` runs before the struct's filter: without a filter here it
            # would read the value that the model sent for a hidden field.
            return _filtered(new, FilterStruct(fields, shows=True))
        return new

    def _rewrite_definition(self, reference: str) -> None:
        if reference not in self.definitions:
            self.definitions[reference] = {}  # a definition may refer to itself
            self.definitions[reference] = self.rewrite(self._definitions[reference])

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
        if not hidden:
            return new
        if node["type"] == "model-fields":
            # To pydantic a filled field was not in the input, and `model_dump(exclude_unset=True)` in the
            # tool would leave it out.
            mark = MarkFieldsSet(frozenset(field.name for field in hidden))
            new = _around(new, core_schema.with_info_after_validator_function, mark)
        return _filtered(new, FilterStruct(hidden, shows=False))

    def _field(self, field: Node, name: str) -> Node:
        return _filled(field, name) if name in self._hidden else map_children(field, self.rewrite)

    def _union(self, node: Node) -> Node:
        choices = [self._choice(choice) for choice in node["choices"]]
        return _wrapped({**node, "choices": choices}, validate_union)

    def _choice(self, choice: Any) -> Any:
        schema, label = choice if isinstance(choice, (list, tuple)) else (choice, self._label(choice))
        if not any(name in self._hidden for name, _ in struct_fields(schema, self._definitions)):
            return self.rewrite(schema) if schema is choice else (self.rewrite(schema), label)
        # The wrapper would change the choice's name in error messages, so the label is set.
        return (_wrapped(self.rewrite(schema), validate_choice), label)

    def _label(self, choice: Node) -> str:
        """Return the name that pydantic uses for a choice in errors: that of its class."""
        named = self._definitions.get(choice.get("schema_ref", ""), choice)
        while "cls" not in named and "schema" in named:
            named = named["schema"]
        return str(named["cls"].__name__ if "cls" in named else named["type"])


def _fields(struct: Node) -> Iterator[tuple[str, Node]]:
    fields = struct["fields"]
    if isinstance(fields, dict):
        yield from fields.items()
    else:
        yield from ((field["name"], field) for field in fields)


def _filtered(node: Node, filter_: FilterStruct) -> Node:
    return _around(node, core_schema.with_info_before_validator_function, filter_)


def _filtered_fields(node: Node) -> tuple[HiddenField, ...]:
    """Return the hidden fields of the struct that gets this node's input unchanged."""
    if node["type"] in {"dataclass", "function-after", "model"}:
        return _filtered_fields(node["schema"])
    function = node["function"]["function"] if node["type"] == "function-before" else None
    return function.fields if isinstance(function, FilterStruct) else ()


def _wrapped(node: Node, function: Any) -> Node:
    return _around(node, core_schema.with_info_wrap_validator_function, function)


def _around(node: Node, make: Any, function: Any) -> Node:
    """Put a function around a node; references to the node now lead to the function."""
    inner = {key: value for key, value in node.items() if key != "ref"}
    outer: Node = make(function, inner, ref=node.get("ref"))
    return outer
