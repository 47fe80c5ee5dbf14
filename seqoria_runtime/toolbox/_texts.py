"""Owns the words in which a tool's failures are told to a model: bounded, redacted, without values."""

from collections.abc import Sequence
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from seqoria_runtime._base.redaction import bounded, redact

from ._hidden.trusted import is_pending

_MAX_ERRORS: Final = 10
_MAX_CHARS: Final = 2_000
_MAX_PLACE: Final = 100
_MAX_MESSAGE: Final = 300


def failed(tool: str, reason: str) -> str:
    text = redact(f"Tool {tool!r} failed: {reason}").encode(errors="replace").decode()
    return bounded(text, _MAX_CHARS)


def missing_values(tool: str, names: Sequence[str]) -> str:
    return f"Missing server-populated parameters for tool {tool!r}: {', '.join(sorted(names))}"


def invalid_arguments(error: ValidationError) -> str:
    """Give pydantic's messages, as it lists them, without the input that they speak of."""
    details = error.errors(include_url=False, include_context=False, include_input=False)
    told = [detail for detail in details if not is_pending(detail)]
    lines = [f"{len(told)} validation error{'s' if len(told) != 1 else ''} for {error.title}"]
    lines += [_told(detail) for detail in told[:_MAX_ERRORS]]
    if len(told) > _MAX_ERRORS:
        lines.append(f"and {len(told) - _MAX_ERRORS} more")
    return "\n".join(lines)


def _told(detail: ErrorDetails) -> str:
    place = ".".join(map(str, detail["loc"])) or "arguments"
    message = bounded(detail["msg"], _MAX_MESSAGE)
    return f"{bounded(place, _MAX_PLACE)}\n  {message} [type={detail['type']}]"
