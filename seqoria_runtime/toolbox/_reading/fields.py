"""Turns a function's parameters into pydantic's core schema of a typed dictionary.

A typed dictionary, and not a model: it accepts every name that a parameter can have, and validates into
exactly the keyword arguments of the call.
"""

import inspect
import warnings
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Final, NotRequired, TypeAlias, Union, cast, get_args, get_origin

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter, with_config
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.fields import FieldInfo
from pydantic.warnings import ArbitraryTypeWarning
from pydantic_core import CoreSchema, core_schema
from typing_extensions import TypedDict

from .signature import Parameter, Signature

Node: TypeAlias = dict[str, Any]
"""A node of a core schema, which is a tree of dictionaries with a `type` each."""

Definitions: TypeAlias = Mapping[str, Node]
"""What the nodes of type `definition-ref` refer to."""


def core_schema_of(signature: Signature, tool: str, title: str) -> tuple[Node, Definitions]:
    """Return the schema of all parameters, and the definitions that it refers to.

    Raises `TypeError`, which names the parameter, if pydantic has no schema for its type.
    """
    try:
        node = cast(Node, _adapter(title, signature.parameters).core_schema)
    except Exception as error:
        raise _unusable_parameter(signature.parameters, tool, title, error) from error
    if node["type"] != "definitions":
        return _without_extra(node), {}
    return _without_extra(node["schema"]), {
        definition["ref"]: definition for definition in node["definitions"]
    }


def with_definitions(root: Node, definitions: Definitions) -> CoreSchema:
    if definitions:
        root = {"type": "definitions", "schema": root, "definitions": [*definitions.values()]}
    return cast(CoreSchema, root)


def _without_extra(root: Node) -> Node:
    # Not by `ConfigDict(extra="forbid")`: typed dictionaries and dataclasses below would inherit it, and
    # refuse what the application allows.
    return {key: value for key, value in root.items() if key != "ref"} | {"extra_behavior": "forbid"}


def _adapter(title: str, parameters: Iterable[Parameter]) -> TypeAdapter[Any]:
    fields = {parameter.name: _annotation(parameter) for parameter in parameters}
    arguments = TypedDict(title, fields)  # type: ignore[misc]
    with warnings.catch_warnings():
        # `def tool(x: 5)` is only a warning to pydantic, and would accept everything.
        warnings.simplefilter("error", ArbitraryTypeWarning)
        return TypeAdapter(with_config(arbitrary_types_allowed=True)(arguments))


def _unusable_parameter(
    parameters: Iterable[Parameter], tool: str, title: str, error: Exception
) -> TypeError:
    for parameter in parameters:
        try:
            _adapter(title, [parameter])
        except Exception as own:  # noqa: BLE001 - whatever pydantic or a type's own hook raises
            return unusable(tool, parameter.name, own)
    return TypeError(f"Tool {tool!r} has parameters that do not go together: {error}")


def unusable(tool: str, parameter: str, error: Exception) -> TypeError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return TypeError(f"Tool {tool!r}: the type of parameter {parameter!r} cannot be used: {reason}")


def _annotation(parameter: Parameter) -> Any:
    annotation, default = _without_protocols(parameter.annotation), parameter.default
    fields = [item for item in _metadata(annotation) if isinstance(item, FieldInfo)]
    added: list[FieldInfo] = []
    if isinstance(default, FieldInfo):
        added.append(default)
    elif default is not inspect.Parameter.empty:
        added.append(Field(default=default))
    description = _annotated_description(annotation) or parameter.description
    if description and not any(item.description for item in [*fields, *added]):
        added.append(Field(description=description))
    for item in added:
        annotation = Annotated[annotation, item]
    required = all(item.is_required() for item in [*fields, *added])
    return annotation if required else NotRequired[annotation]


def _metadata(annotation: Any) -> tuple[Any, ...]:
    return annotation.__metadata__ if get_origin(annotation) is Annotated else ()


def _annotated_description(annotation: Any) -> str | None:
    """Return the description in `Annotated[str, "The city"]` or `Annotated[str, Doc("The city")]`."""
    for item in _metadata(annotation):
        text = item if isinstance(item, str) else getattr(item, "documentation", None)
        if isinstance(text, str):
            return text
    return None


class _AnyObject:
    """Replaces a protocol that `isinstance` cannot check; works for hidden parameters only."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.any_schema()

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Any:
        raise PydanticInvalidForJsonSchema("a protocol has no JSON schema")


_ANY_OBJECT: Final = _AnyObject()


def _without_protocols(annotation: Any) -> Any:
    origin = get_origin(annotation)
    if origin is Annotated:
        return Annotated[_without_protocols(get_args(annotation)[0]), *annotation.__metadata__]
    if origin in {Union, UnionType}:
        return reduce(or_, map(_without_protocols, get_args(annotation)))
    is_protocol = getattr(annotation, "_is_protocol", False)
    if is_protocol and not getattr(annotation, "_is_runtime_protocol", False):
        return Annotated[annotation, _ANY_OBJECT]
    return annotation
