"""A function that has become a tool, and the texts in which its failures reach a model.

The texts are bounded and redacted, and contain no values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from seqoria_runtime._base.redaction import bounded, redact
from seqoria_runtime._base.tools import ConcurrencyCap, HiddenParameter, ToolFailure

from ._hidden.arguments import HiddenValuesError, ToolArguments
from ._hidden.trusted_values import is_pending
from ._results import UnserializableError, text_of

_MAX_ERRORS: Final = 10
_MAX_CHARS: Final = 2_000
_MAX_PLACE: Final = 100
_MAX_MESSAGE: Final = 300


@final
@dataclass(frozen=True, slots=True, eq=False)
class FunctionTool:
    """A `Tool` that calls a function. `parameters` is shared and must not be changed."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    arguments: ToolArguments
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
            reason = _invalid_arguments(error)
        except Exception as error:  # noqa: BLE001 - a validator of the application
            reason = f"its arguments could not be checked: {type(error).__name__}"
        raise ToolFailure("invalid_arguments", failed(self.name, reason))

    def missing(self, prepared: Any) -> tuple[HiddenParameter, ...]:
        return self.arguments.missing(prepared)

    def complete(self, prepared: Any, hidden: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self.arguments.complete(prepared, hidden)
        except HiddenValuesError as error:
            kind, reason = error.kind, str(error) or _missing_values(self.name, error.missing)
        raise ToolFailure(kind, failed(self.name, reason))

    def call(self, prepared: dict[str, Any]) -> Any:
        return self.function(**prepared)

    def render(self, value: Any) -> str:
        try:
            return text_of(value, max_chars=self.max_result_chars)
        except UnserializableError as error:
            raise ToolFailure("failed", failed(self.name, str(error))) from error


def failed(tool: str, reason: str) -> str:
    text = redact(f"Tool {tool!r} failed: {reason}").encode(errors="replace").decode()
    return bounded(text, _MAX_CHARS)


def _missing_values(tool: str, names: Sequence[str]) -> str:
    return f"Missing server-populated parameters for tool {tool!r}: {', '.join(sorted(names))}"


def _invalid_arguments(error: ValidationError) -> str:
    """Return pydantic's messages, as it lists them, without the input."""
    details = error.errors(include_url=False, include_context=False, include_input=False)
    # The model cannot do anything about a value that a trusted source still has to fill in.
    shown = [detail for detail in details if not is_pending(detail)]
    lines = [f"{len(shown)} validation error{'s' if len(shown) != 1 else ''} for {error.title}"]
    lines += [_detail_text(detail) for detail in shown[:_MAX_ERRORS]]
    if len(shown) > _MAX_ERRORS:
        lines.append(f"and {len(shown) - _MAX_ERRORS} more")
    return "\n".join(lines)


def _detail_text(detail: ErrorDetails) -> str:
    place = ".".join(map(str, detail["loc"])) or "arguments"
    message = bounded(detail["msg"], _MAX_MESSAGE)
    return f"{bounded(place, _MAX_PLACE)}\n  {message} [type={detail['type']}]"
