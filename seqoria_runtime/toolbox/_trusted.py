"""Owns what happens to hidden fields while pydantic validates: their values go out and come in here.

These functions stand in rewritten schemas, and get the `Trusted` of the one validation as its context.
Knows neither the schemas nor where values come from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError, ValidationInfo, ValidatorFunctionWrapHandler
from pydantic_core import ErrorDetails, PydanticCustomError

_INVALID: Final = "server_populated_invalid"
_PENDING: Final = "server_populated_pending"


class _NoValue:
    __slots__ = ()

    def __repr__(self) -> str:
        return "<hidden>"


_NO_VALUE: Final = _NoValue()


class Trusted(dict[str, Any]):
    """What one validation knows of hidden values; empty in the eyes of the application's validators.

    While `checking`, no hidden field gets its value yet: each fails as pending, so that validators
    that need it do not run, and everything else is checked.
    """

    def __init__(
        self, values: Mapping[str, Any] | None = None, *, checking: bool = False, override: bool = False
    ) -> None:
        super().__init__()
        self.values_by_name = values or {}
        self.checking = checking
        self.override = override
        self.dropped: set[str] = set()
        self.plausible: list[Mapping[str, bool]] = []


@dataclass(frozen=True, slots=True)
class HiddenField:
    """A hidden field of one struct; `keys` are those under which an input may hold it."""

    name: str
    keys: frozenset[str]
    required: bool

    def fill(self, data: dict[str, Any], trusted: Trusted) -> None:
        value = trusted.values_by_name.get(self.name, _NO_VALUE)
        sent = [data.pop(key) for key in self.keys if key in data]
        # A struct may be filled twice, once outside of a before-validator and once inside.
        forged = [item for item in sent if item is not _NO_VALUE and item is not value]
        if forged and trusted.override:
            data[self.name] = forged[0]
            return
        if forged:
            trusted.dropped.add(self.name)
        if value is not _NO_VALUE or trusted.checking or self.required:
            data[self.name] = value


@dataclass(frozen=True, slots=True)
class FillStruct:
    """Takes the model's values for the hidden fields of a struct out, and the trusted ones in."""

    fields: tuple[HiddenField, ...]

    def __call__(self, value: Any, info: ValidationInfo[Trusted]) -> Any:
        if not isinstance(value, Mapping):
            return value
        data = dict(value)
        for field in self.fields:
            field.fill(data, info.context)
        return data


@dataclass(frozen=True, slots=True)
class GuardField:
    """Validates a hidden value; its failure tells the name and the kind of error, never the value."""

    name: str
    required: bool

    def __call__(self, value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        if value is _NO_VALUE:
            raise _pending_error({self.name: self.required})
        try:
            return handler(value)
        except ValidationError as error:
            reason = error.errors(include_url=False, include_context=False, include_input=False)[0]["type"]
        raise PydanticCustomError(
            _INVALID,
            "Server-populated parameter '{parameter}' is not valid ({reason})",
            {"parameter": self.name, "reason": reason},
        )


def try_choice(value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo[Trusted]) -> Any:
    """Note a choice of a union that fails for nothing but its pending hidden fields."""
    plausible = info.context.plausible
    known = len(plausible)
    try:
        return handler(value)
    except ValidationError as error:
        del plausible[known:]
        if pending := pending_in(error):
            plausible.append(pending)
        raise


def settle_union(value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo[Trusted]) -> Any:
    """Let a union wait for hidden values if any of its choices does, though another one fits already."""
    plausible = info.context.plausible
    known = len(plausible)
    result, fits = None, True
    try:
        result = handler(value)
    except ValidationError:
        if len(plausible) == known:
            raise
        fits = False
    waiting = plausible[known:]
    del plausible[known:]
    if waiting and (info.context.checking or not fits):
        raise _pending_error(_merged(waiting))
    return result


def pending_in(error: ValidationError) -> dict[str, bool] | None:
    """The hidden parameters, with whether each is required, if nothing but their values is missing."""
    details = error.errors(include_url=False, include_input=False)
    if not all(map(is_pending, details)):
        return None
    return _merged([detail["ctx"]["parameters"] for detail in details])


def invalid_in(error: ValidationError) -> str | None:
    """What is wrong with a hidden value, if one was refused."""
    details = error.errors(include_url=False, include_input=False)
    return next((detail["msg"] for detail in details if detail["type"] == _INVALID), None)


def is_pending(detail: ErrorDetails) -> bool:
    return detail["type"] == _PENDING


def _pending_error(parameters: Mapping[str, bool]) -> PydanticCustomError:
    return PydanticCustomError(_PENDING, "Waits for server-populated parameters", {"parameters": parameters})


def _merged(several: Sequence[Mapping[str, bool]]) -> dict[str, bool]:
    merged: dict[str, bool] = {}
    for parameters in several:
        for name, required in parameters.items():
            merged[name] = merged.get(name, False) or required
    return merged
