"""Owns the walk through a pydantic-core schema, which is a tree of dictionaries with a `type` each.

Knows nothing of tools; never changes a schema, since pydantic shares them between models.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

Node: TypeAlias = dict[str, Any]
Definitions: TypeAlias = Mapping[str, Node]

_HOLDS_NODES = frozenset({
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

# What such a node gives is new or cannot be changed; any other node may hand on what it was given.
_MAKES_NEW = frozenset({
    "bool", "bytes", "chain", "complex", "dataclass", "dataclass-args", "dataclass-field", "date", "datetime",
    "decimal", "default", "definition-ref", "definitions", "dict", "enum", "float", "frozenset", "int",
    "json-or-python", "lax-or-strict", "list", "literal", "model", "model-field", "model-fields",
    "multi-host-url", "none", "nullable", "set", "str", "tagged-union", "time", "timedelta", "tuple",
    "typed-dict", "typed-dict-field", "union", "url", "uuid",
})  # fmt: skip


def map_children(node: Node, change: Callable[[Node], Node]) -> Node:
    """Make a node like this one whose children are changed."""
    return {key: _map(value, change) if key in _HOLDS_NODES else value for key, value in node.items()}


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
    """Yield `root` and all nodes below it, those behind references included, each definition once."""
    waiting, followed = [root], set[str]()
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(children(node))
        reference = node.get("schema_ref", "")
        if reference in definitions and reference not in followed:
            followed.add(reference)
            waiting.append(definitions[reference])


def hands_on_its_input(root: Node, definitions: Definitions) -> bool:
    """Tell whether a validated value may hold a list or dictionary that was in the input."""
    return any(
        node["type"] not in _MAKES_NEW
        or "allow" in {node.get("extra_behavior"), (node.get("config") or {}).get("extra_fields_behavior")}
        for node in reachable(root, definitions)
    )


def is_strict(root: Node, definitions: Definitions) -> bool:
    """Tell whether some part refuses what stands for its values in JSON, as text does for a date."""
    return any(
        node.get("strict") or (node.get("config") or {}).get("strict")
        for node in reachable(root, definitions)
    )


def copied(value: Any) -> Any:
    """Copy the lists and dictionaries of a JSON value."""
    if type(value) is dict:
        return {key: copied(item) for key, item in value.items()}
    if type(value) is list:
        return [copied(item) for item in value]
    return value
