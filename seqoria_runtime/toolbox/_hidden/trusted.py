"""Owns what happens to hidden fields while pydantic validates: their values go out and come in here.

These functions stand in rewritten schemas, and get the `Trusted` of the one validation as its context.
Knows neither the schemas nor where values come from.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from pydantic import ValidationError, ValidationInfo, ValidatorFunctionWrapHandler
from pydantic_core import ErrorDetails, PydanticCustomError, PydanticOmit, PydanticUndefined

_INVALID: Final = "server_populated_invalid"
_PENDING: Final = "server_populated_pending"


class _NoValue:
    __slots__ = ()

    def __repr__(self) -> str:
        return "<hidden>"


# As a default it leaves pydantic's choice in a union to the fields that the model sent.
NO_VALUE: Final = _NoValue()


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


class HiddenField(NamedTuple):
    """A hidden field of one struct; `keys` are those under which an input may hold it."""

    name: str
    keys: tuple[str, ...]
    required: bool

    def take_out(self, data: dict[str, Any], trusted: Trusted) -> None:
        """Take out what was sent for the field, unless the model may override it."""
        for sent in [data.pop(key) for key in self.keys if key in data]:
            if sent is NO_VALUE:
                continue  # `show` has put it in
            if trusted.override:
                data[self.name] = sent
            else:
                trusted.dropped.add(self.name)

    def show(self, data: dict[str, Any], trusted: Trusted) -> None:
        """Put in what an application's before-validator is to see."""
        if self.name in trusted.values_by_name:
            data.setdefault(self.name, trusted.values_by_name[self.name])
        elif trusted.checking or self.required:
            data.setdefault(self.name, NO_VALUE)


class FilterStruct(NamedTuple):
    """Filters the input of a struct with hidden fields; `shows` their values in the place of the model's."""

    fields: tuple[HiddenField, ...]
    shows: bool

    def __call__(self, value: Any, info: ValidationInfo[Trusted]) -> Any:
        if not isinstance(value, Mapping):
            return value
        data = dict(value)
        for field in self.fields:
            field.take_out(data, info.context)
            if self.shows:
                field.show(data, info.context)
        return data


class FillField(NamedTuple):
    """Validates a hidden value, from the context if the input has none.

    Its failure tells the name and the kind of error, never the value.
    """

    name: str
    required: bool
    has_default: bool

    def __call__(
        self, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo[Trusted]
    ) -> Any:
        if value is NO_VALUE:
            value = self._trusted_value(info.context)
        try:
            return handler(value)
        except ValidationError as error:
            reason = error.errors(include_url=False, include_context=False, include_input=False)[0]["type"]
        raise PydanticCustomError(_INVALID, "{text}", {"text": not_valid(self.name, reason)})

    def _trusted_value(self, trusted: Trusted) -> Any:
        if self.name in trusted.values_by_name:
            return trusted.values_by_name[self.name]
        if trusted.checking or self.required:
            raise _pending_error({self.name: self.required})
        if not self.has_default:
            raise PydanticOmit
        return PydanticUndefined  # stands for the field's own default


class MarkSet(NamedTuple):
    """Counts the filled fields of a model among those that are set, for `exclude_unset` and the like."""

    names: frozenset[str]

    def __call__(self, value: Any, info: ValidationInfo[Trusted]) -> Any:
        _, _, fields_set = value
        fields_set.update(self.names & info.context.values_by_name.keys())
        return value


def try_choice(value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo[Trusted]) -> Any:
    """While checking, note a choice of a union that fails for nothing but its pending hidden fields."""
    try:
        return handler(value)
    except ValidationError as error:
        if info.context.checking and (pending := pending_in(error)):
            info.context.plausible.append(pending)
        raise


def settle_union(value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo[Trusted]) -> Any:
    """While checking, let a union wait if a choice does; nothing is required if another choice fits."""
    plausible = info.context.plausible
    known = len(plausible)
    result, fits = None, True
    try:
        result = handler(value)
    except ValidationError:
        if len(plausible) == known:
            raise
        fits = False
    if len(plausible) == known:
        return result
    waiting = merged(plausible[known:])
    del plausible[known:]
    raise _pending_error(dict.fromkeys(waiting, False) if fits else waiting)


def pending_in(error: ValidationError) -> dict[str, bool] | None:
    """The hidden parameters, with whether each is required, if nothing but their values is missing."""
    details = error.errors(include_url=False, include_input=False)
    if not all(map(is_pending, details)):
        return None
    return merged([detail["ctx"]["parameters"] for detail in details])


def not_valid(parameter: str, reason: str) -> str:
    return f"Server-populated parameter {parameter!r} is not valid ({reason})"


def invalid_in(error: ValidationError) -> str | None:
    """What is wrong with a hidden value, if one was refused."""
    details = error.errors(include_url=False, include_input=False)
    return next((detail["msg"] for detail in details if detail["type"] == _INVALID), None)


def is_pending(detail: ErrorDetails) -> bool:
    return detail["type"] == _PENDING


def _pending_error(parameters: Mapping[str, bool]) -> PydanticCustomError:
    return PydanticCustomError(_PENDING, "Waits for server-populated parameters", {"parameters": parameters})


def merged(several: Iterable[Mapping[str, bool]]) -> dict[str, bool]:
    """Join parameters with whether each is required, which it is if it is so anywhere."""
    result: dict[str, bool] = {}
    for parameters in several:
        for name, required in parameters.items():
            result[name] = result.get(name, False) or required
    return result
