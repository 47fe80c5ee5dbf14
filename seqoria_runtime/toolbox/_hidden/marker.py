"""`HIDDEN`, the marker in annotations, and how to find it in the core schemas that pydantic makes."""

from typing import Any, Final

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from seqoria_runtime.toolbox._reading.fields import Definitions, Node

from .core_schema import children

_KEY: Final = "seqoria_runtime_hidden"

# A marker below these still hides the whole field: `Optional[Annotated[str, HIDDEN]]`.
_TRANSPARENT = frozenset({
    "chain", "default", "function-after", "function-before", "function-wrap", "nullable", "union",
})  # fmt: skip


class HiddenMarker:
    """The type of `HIDDEN`."""

    __slots__ = ()

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # Metadata on the type's schema, which pydantic shares, would hide every other field of that type. A
        # chain of one step validates, serializes and describes exactly like the step.
        return core_schema.chain_schema([handler(source)], metadata={_KEY: True})

    def __repr__(self) -> str:
        return "HIDDEN"


HIDDEN: Final = HiddenMarker()
"""Hides a parameter, or a field of a model, from the model: `user_id: Annotated[str, HIDDEN]`."""


def is_marked(node: Node) -> bool:
    return bool((node.get("metadata") or {}).get(_KEY))


def hides_whole_value(node: Node, definitions: Definitions) -> bool:
    """Return whether the whole value that this node validates is hidden."""
    if is_marked(node):
        return True
    reference = node.get("schema_ref", "")
    if reference in definitions:
        # Without the definition itself: `type Tree = list[Tree] | None` refers to itself forever.
        others = {name: schema for name, schema in definitions.items() if name != reference}
        return hides_whole_value(definitions[reference], others)
    return node["type"] in _TRANSPARENT and any(
        hides_whole_value(child, definitions) for child in children(node)
    )
