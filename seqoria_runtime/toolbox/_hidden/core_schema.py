"""Walks through pydantic's core schemas. Never changes one: pydantic shares them between models."""

from collections.abc import Callable, Iterator
from typing import Any

from seqoria_runtime.toolbox._reading.fields import Definitions, Node

# The keys under which a node has child nodes: one, a list, a list of (node, label), or a dictionary. Other
# keys may hold dictionaries that look like nodes, such as a default `{"type": "point"}`.
_KEYS_OF_NODES = frozenset({
    "arguments_schema",
    "choices",
    "definitions",
    "extras_keys_schema",
    "extras_schema",
    "fields",
    "items_schema",
    "json_schema",
    "keys_schema",
    "lax_schema",
    "python_schema",
    "schema",
    "steps",
    "strict_schema",
    "values_schema",
    "var_args_schema",
    "var_kwargs_schema",
})  # fmt: skip

# The validated value of such a node is a new object or cannot be changed. Any other node (`any`, `json`, a
# function of the application, or a type of a later pydantic) may return the very list that it was given.
_RETURNS_NEW = frozenset({
    "bool", "bytes", "chain", "complex", "dataclass", "dataclass-args", "dataclass-field", "date", "datetime",
    "decimal", "default", "definition-ref", "definitions", "dict", "enum", "float", "frozenset", "int",
    "json-or-python", "lax-or-strict", "list", "literal", "model", "model-field", "model-fields",
    "multi-host-url", "none", "nullable", "set", "str", "tagged-union", "time", "timedelta", "tuple",
    "typed-dict", "typed-dict-field", "union", "url", "uuid",
})  # fmt: skip


def map_children(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return a copy of the node with changed children."""
    return {key: _map(value, change) if key in _KEYS_OF_NODES else value for key, value in node.items()}


def _map(value: Any, change: Callable[[Node], Node]) -> Any:
    if isinstance(value, dict):
        if isinstance(value.get("type"), str):
            return change(value)
        return {key: _map(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_map(item, change) for item in value)
    return value


def children(node: Node) -> list[Node]:
    found: list[Node] = []

    def note(child: Node) -> Node:
        found.append(child)
        return child

    map_children(node, note)
    return found


def reachable(root: Node, definitions: Definitions) -> Iterator[Node]:
    """Yield `root` and all nodes below it, and those behind references, each definition once."""
    waiting, followed = [root], set[str]()
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(children(node))
        reference = node.get("schema_ref", "")
        # A model with a field of its own type refers to itself: without `followed` this would never end.
        if reference in definitions and reference not in followed:
            followed.add(reference)
            waiting.append(definitions[reference])


def may_return_input(root: Node, definitions: Definitions) -> bool:
    """Return whether a validated value may contain a list or dictionary of the input."""
    return any(
        node["type"] not in _RETURNS_NEW
        or "allow" in {node.get("extra_behavior"), (node.get("config") or {}).get("extra_fields_behavior")}
        for node in reachable(root, definitions)
    )


def is_strict(root: Node, definitions: Definitions) -> bool:
    """Return whether some part is strict, and so refuses JSON's form of its values, as text for a date."""
    return any(
        node.get("strict") or (node.get("config") or {}).get("strict")
        for node in reachable(root, definitions)
    )


def copy_json(value: Any) -> Any:
    """Return a copy of the lists and dictionaries of a JSON value."""
    if type(value) is dict:
        return {key: copy_json(item) for key, item in value.items()}
    if type(value) is list:
        return [copy_json(item) for item in value]
    return value
