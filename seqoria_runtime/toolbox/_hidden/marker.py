"""Owns `HIDDEN`, the marker in annotations, and finds it again in the schemas that pydantic makes of them."""

from typing import Any, Final

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from .core_schema import Definitions, Node, children

_KEY: Final = "seqoria_runtime_hidden"

# The marker may stand under these and still speak of the whole field: `Optional[Annotated[str, HIDDEN]]`.
_TRANSPARENT = frozenset({
    "chain", "default", "function-after", "function-before", "function-wrap", "nullable", "union",
})  # fmt: skip


class HiddenMarker:
    """The type of `HIDDEN`."""

    __slots__ = ()

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # A chain of one step validates, serializes and describes as the step alone does.
        return core_schema.chain_schema([handler(source)], metadata={_KEY: True})

    def __repr__(self) -> str:
        return "HIDDEN"


HIDDEN: Final = HiddenMarker()
"""Hides a parameter, or a field of a model, from the model: `user_id: Annotated[str, HIDDEN]`."""


def is_marker(node: Node) -> bool:
    return bool((node.get("metadata") or {}).get(_KEY))


def marks_all_of(node: Node, definitions: Definitions) -> bool:
    """Tell whether the value that this node validates is hidden as a whole."""
    if is_marker(node):
        return True
    reference = node.get("schema_ref", "")
    if reference in definitions:
        # Without itself, lest a definition lead back to itself for ever.
        others = {name: schema for name, schema in definitions.items() if name != reference}
        return marks_all_of(definitions[reference], others)
    return node["type"] in _TRANSPARENT and any(marks_all_of(child, definitions) for child in children(node))
