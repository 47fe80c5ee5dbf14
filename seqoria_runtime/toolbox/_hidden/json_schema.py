"""Makes the JSON schema for the model: pydantic's, without any trace of hidden parameters."""

from collections.abc import Callable, Set
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import CoreSchema

from .rewrite import is_hidden_field

_MAPS_OF_SCHEMAS: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties"})
_DATA: Final = frozenset({"const", "default", "enum", "example", "examples"})


class _PublicJsonSchema(GenerateJsonSchema):
    # A default without a JSON form is left out of the schema; the application need not be warned of that.
    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"non-serializable-default", "skipped-choice"}  # noqa: RUF012

    def field_is_present(self, field: Any) -> bool:
        return not is_hidden_field(field) and super().field_is_present(field)


def json_schema(schema: CoreSchema, hidden_keys: Set[str]) -> dict[str, Any]:
    """Return the schema of the public parameters, without the names and aliases in `hidden_keys`.

    Pydantic leaves hidden fields out of what it describes itself. What the application wrote by hand (a
    schema, an example, a default) is searched for them as well.
    """
    described = _PublicJsonSchema().generate(schema)
    return _without(described, hidden_keys) if hidden_keys else described


def _without(schema: dict[str, Any], hidden: Set[str]) -> dict[str, Any]:
    result = {key: _cleaned(key, value, hidden) for key, value in schema.items()}
    if not result.get("required", True):
        del result["required"]
    return result


def _cleaned(key: str, value: Any, hidden: Set[str]) -> Any:
    if key == "required" and isinstance(value, list):
        return [name for name in value if name not in hidden]
    if key == "properties":
        value = _without_keys(value, hidden)
    if key == "properties" or key in _MAPS_OF_SCHEMAS:
        return {name: _apply(item, hidden, _without) for name, item in value.items()}
    return _apply(value, hidden, _without_in_data if key in _DATA else _without)


def _without_in_data(data: dict[str, Any], hidden: Set[str]) -> dict[str, Any]:
    kept = _without_keys(data, hidden)
    return {key: _apply(item, hidden, _without_in_data) for key, item in kept.items()}


def _without_keys(items: dict[str, Any], hidden: Set[str]) -> dict[str, Any]:
    return {key: item for key, item in items.items() if key not in hidden}


def _apply(value: Any, hidden: Set[str], change: Callable[[dict[str, Any], Set[str]], dict[str, Any]]) -> Any:
    if isinstance(value, dict):
        return change(value, hidden)
    if isinstance(value, list):
        return [_apply(item, hidden, change) for item in value]
    return value
