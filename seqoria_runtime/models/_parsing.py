"""Parses the text of a structured answer, or says why it cannot be parsed."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from seqoria_runtime._base.redaction import bounded, redact

from .errors import StructuredOutputError

_T = TypeVar("_T")
_MAX_SHOWN = 500
_MAX_KEPT = 10_000
_MAX_REASONS = 3
_ENDS = {
    "length": "it was cut by the output limit",
    "refusal": "the model refused",
    "interrupted": "it was not received in full",
    "turn_limit": "the turn ended at its limit",
}


def parse_answer(text: str, kind: type[_T], *, finish_reason: str | None) -> _T:
    """Parse the text as JSON of a type that pydantic validates. Raises `StructuredOutputError`."""
    try:
        return TypeAdapter(kind).validate_json(text)
    except ValidationError as error:
        reasons = _reasons(error)
    early = _ENDS.get(finish_reason or "")
    why = f"{early}; {reasons}" if early else reasons
    shown = repr(redact(bounded(text, _MAX_SHOWN))) if text.strip() else "no text"
    raise StructuredOutputError(
        f"the answer is not a valid {getattr(kind, '__name__', kind)} ({why}): the model sent {shown}",
        text=bounded(text, _MAX_KEPT),
        finish_reason=finish_reason,
    )


def _reasons(error: ValidationError) -> str:
    details = error.errors(include_url=False, include_context=False, include_input=False)
    shown = [_reason(detail) for detail in details[:_MAX_REASONS]]
    if len(details) > _MAX_REASONS:
        shown.append(f"and {len(details) - _MAX_REASONS} more")
    return redact(bounded("; ".join(shown), _MAX_SHOWN))


def _reason(detail: Mapping[str, Any]) -> str:
    place = ".".join(str(step) for step in detail["loc"])
    return f"{place}: {detail['msg']}" if place else str(detail["msg"])
