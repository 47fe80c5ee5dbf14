"""Owns a function that has become a tool: the object that the catalogue lists and the executor runs.

Knows nothing of the toolbox it is in, of slots or of where trusted values come from.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

from pydantic import ValidationError

from seqoria_runtime._base.tools import ConcurrencyCap, HiddenParameter, ToolFailure

from ._hidden.arguments import Arguments, HiddenValuesError
from ._results import UnserializableError, text_of
from ._texts import failed, invalid_arguments, missing_values


@final
@dataclass(frozen=True, slots=True, eq=False)
class FunctionTool:
    """A `Tool` over a function. `parameters` is shared, and not to be changed."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    arguments: Arguments
    function: Callable[..., Any]
    blocking: bool
    hidden: tuple[HiddenParameter, ...] = ()
    depends_on: frozenset[str] = frozenset()
    timeout: float | None = None
    cap: ConcurrencyCap | None = None
    max_result_chars: int | None = None

    def validate(self, arguments: Mapping[str, Any], *, allow_override: bool = False) -> Any:
        try:
            return self.arguments.check(arguments, allow_override)
        except ValidationError as error:
            reason = invalid_arguments(error)
        except Exception as error:  # noqa: BLE001 - a validator of the application
            reason = f"its arguments could not be checked: {type(error).__name__}"
        raise ToolFailure("invalid_arguments", failed(self.name, reason))

    def missing(self, prepared: Any) -> tuple[HiddenParameter, ...]:
        return self.arguments.missing(prepared)

    def complete(self, prepared: Any, hidden: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self.arguments.complete(prepared, hidden)
        except HiddenValuesError as error:
            kind, reason = error.kind, str(error) or missing_values(self.name, error.missing)
        raise ToolFailure(kind, failed(self.name, reason))

    def call(self, prepared: dict[str, Any]) -> Any:
        return self.function(**prepared)

    def render(self, value: Any) -> str:
        try:
            return text_of(value, max_chars=self.max_result_chars)
        except UnserializableError as error:
            raise ToolFailure("failed", failed(self.name, str(error))) from error
