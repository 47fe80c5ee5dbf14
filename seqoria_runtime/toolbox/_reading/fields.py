"""Owns the step from a function's parameters to pydantic's core schema of a typed dictionary.

A typed dictionary takes every name that a parameter can have, and validates into exactly what the
function is called with. Knows nothing of hidden parameters.
"""

import inspect
import warnings
from collections.abc import Iterable
from functools import reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Final, NotRequired, Union, cast, get_args, get_origin

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter, with_config
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.fields import FieldInfo
from pydantic.warnings import ArbitraryTypeWarning
from pydantic_core import CoreSchema, core_schema
from typing_extensions import TypedDict

from seqoria_runtime.toolbox._hidden.core_schema import Definitions, Node

from .signature import Parameter, Signature


def core_schema_of(signature: Signature, tool: str, title: str) -> tuple[Node, Definitions]:
    """Give the schema of all parameters, and the definitions that it refers to.

    Raises `TypeError`, which names the parameter, where pydantic knows no schema for a type.
    """
    try:
        whole = _adapter(title, signature.parameters).core_schema
    except Exception as error:
        raise _blame(signature.parameters, tool, title, error) from error
    node = cast(Node, whole)
    if node["type"] != "definitions":
        return _closed(node), {}
    return _closed(node["schema"]), {definition["ref"]: definition for definition in node["definitions"]}


def with_definitions(root: Node, definitions: Definitions) -> CoreSchema:
    whole = root
    if definitions:
        whole = {"type": "definitions", "schema": root, "definitions": [*definitions.values()]}
    return cast(CoreSchema, whole)


def _closed(root: Node) -> Node:
    """Refuse extra arguments here, and not in the types below, which would inherit a configuration."""
    return {key: value for key, value in root.items() if key != "ref"} | {"extra_behavior": "forbid"}


def _adapter(title: str, parameters: Iterable[Parameter]) -> TypeAdapter[Any]:
    fields = {parameter.name: _annotation(parameter) for parameter in parameters}
    arguments = TypedDict(title, fields)  # type: ignore[misc]
    with warnings.catch_warnings():
        # Pydantic only warns of an annotation that is no type at all.
        warnings.simplefilter("error", ArbitraryTypeWarning)
        return TypeAdapter(with_config(arbitrary_types_allowed=True)(arguments))


def _blame(parameters: Iterable[Parameter], tool: str, title: str, error: Exception) -> TypeError:
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
    annotation, default = _checkable(parameter.annotation), parameter.default
    fields = [item for item in _metadata(annotation) if isinstance(item, FieldInfo)]
    added: list[FieldInfo] = []
    if isinstance(default, FieldInfo):
        added.append(default)
    elif default is not inspect.Parameter.empty:
        added.append(Field(default=default))
    description = _spoken(annotation) or parameter.description
    if description and not any(item.description for item in [*fields, *added]):
        added.append(Field(description=description))
    for item in added:
        annotation = Annotated[annotation, item]
    required = all(item.is_required() for item in [*fields, *added])
    return annotation if required else NotRequired[annotation]


def _metadata(annotation: Any) -> tuple[Any, ...]:
    return annotation.__metadata__ if get_origin(annotation) is Annotated else ()


def _spoken(annotation: Any) -> str | None:
    """Find a description in `Annotated[str, "The city"]` or `Annotated[str, Doc("The city")]`."""
    for item in _metadata(annotation):
        text = item if isinstance(item, str) else getattr(item, "documentation", None)
        if isinstance(text, str):
            return text
    return None


class _AnyObject:
    """Stands at a protocol whose instances cannot be told; it serves hidden parameters only."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.any_schema()

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Any:
        raise PydanticInvalidForJsonSchema("a protocol has no JSON schema")


_ANY_OBJECT: Final = _AnyObject()


def _checkable(annotation: Any) -> Any:
    origin = get_origin(annotation)
    if origin is Annotated:
        return Annotated[_checkable(get_args(annotation)[0]), *annotation.__metadata__]
    if origin in {Union, UnionType}:
        return reduce(or_, map(_checkable, get_args(annotation)))
    is_protocol = getattr(annotation, "_is_protocol", False)
    if is_protocol and not getattr(annotation, "_is_runtime_protocol", False):
        return Annotated[annotation, _ANY_OBJECT]
    return annotation
