"""Drops the model's values for hidden fields and fills in the trusted ones, while pydantic validates.

The functions here are validators in rewritten schemas. Their context is the `TrustedValues` of one
validation.
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


# A default that no input can equal. pydantic's smart mode prefers the choice of a union with more fields set;
# defaults do not count, so only what the model sent decides.
NO_VALUE: Final = _NoValue()


class TrustedValues(dict[str, Any]):
    """The context of one validation: an empty dictionary to the application's validators, which may read it.

    While `checking`, hidden fields have no values yet: each fails as pending, so that validators that need
    it do not run, and everything else is checked.
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

    def take_out(self, data: dict[str, Any], trusted: TrustedValues) -> None:
        """Remove what the model sent for the field, unless it may override it."""
        for sent in [data.pop(key) for key in self.keys if key in data]:
            if sent is NO_VALUE:
                continue  # `show` has put it in
            if trusted.override:
                data[self.name] = sent
            else:
                trusted.dropped.add(self.name)

    def show(self, data: dict[str, Any], trusted: TrustedValues) -> None:
        """Add what the application's before-validators may see."""
        if self.name in trusted.values_by_name:
            data.setdefault(self.name, trusted.values_by_name[self.name])
        elif trusted.checking or self.required:
            data.setdefault(self.name, NO_VALUE)


class FilterStruct(NamedTuple):
    """Filters the input of a struct with hidden fields; `shows` the trusted values instead of the model's."""

    fields: tuple[HiddenField, ...]
    shows: bool

    def __call__(self, value: Any, info: ValidationInfo[TrustedValues]) -> Any:
        if not isinstance(value, Mapping):
            return value
        data = dict(value)
        for field in self.fields:
            field.take_out(data, info.context)
            if self.shows:
                field.show(data, info.context)
        return data


class FillField(NamedTuple):
    """Validates the value of a hidden field, from the context unless the model may override it.

    Its error has the name and the kind of error, never the value.
    """

    name: str
    required: bool
    has_default: bool

    def __call__(
        self, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo[TrustedValues]
    ) -> Any:
        if value is NO_VALUE:
            value = self._trusted_value(info.context)
        try:
            return handler(value)
        except ValidationError as error:
            reason = error.errors(include_url=False, include_context=False, include_input=False)[0]["type"]
        raise PydanticCustomError(_INVALID, "{text}", {"text": invalid_text(self.name, reason)})

    def _trusted_value(self, trusted: TrustedValues) -> Any:
        if self.name in trusted.values_by_name:
            return trusted.values_by_name[self.name]
        if trusted.checking or self.required:
            raise _pending_error({self.name: self.required})
        if not self.has_default:
            raise PydanticOmit
        return PydanticUndefined  # pydantic-core then uses the field's own default


class MarkFieldsSet(NamedTuple):
    """Adds the filled fields of a model to `model_fields_set`."""

    names: frozenset[str]

    def __call__(self, value: Any, info: ValidationInfo[TrustedValues]) -> Any:
        _, _, fields_set = value
        fields_set.update(self.names & info.context.values_by_name.keys())
        return value


def validate_choice(
    value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo[TrustedValues]
) -> Any:
    """While checking, record a choice of a union that fails only because hidden fields are pending."""
    try:
        return handler(value)
    except ValidationError as error:
        if info.context.checking and (pending := pending_parameters(error)):
            info.context.plausible.append(pending)
        raise


def validate_union(
    value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo[TrustedValues]
) -> Any:
    """While checking, keep a union pending if a choice is; no value is required if another choice fits.

    Otherwise a union of two accounts, one with a hidden field, would settle for the other one because the
    first had no value yet, and the trusted value would never be used.
    """
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
    waiting = merge_required(plausible[known:])
    del plausible[known:]
    raise _pending_error(dict.fromkeys(waiting, False) if fits else waiting)


def pending_parameters(error: ValidationError) -> dict[str, bool] | None:
    """Return the pending parameters, with whether each is required, if nothing else is wrong."""
    details = error.errors(include_url=False, include_input=False)
    if not all(map(is_pending, details)):
        return None
    return merge_required([detail["ctx"]["parameters"] for detail in details])


def invalid_text(parameter: str, reason: str) -> str:
    return f"Server-populated parameter {parameter!r} is not valid ({reason})"


def invalid_value(error: ValidationError) -> str | None:
    """Return what is wrong with a trusted value, if one was refused."""
    details = error.errors(include_url=False, include_input=False)
    return next((detail["msg"] for detail in details if detail["type"] == _INVALID), None)


def is_pending(detail: ErrorDetails) -> bool:
    return detail["type"] == _PENDING


def _pending_error(parameters: Mapping[str, bool]) -> PydanticCustomError:
    return PydanticCustomError(_PENDING, "Waits for server-populated parameters", {"parameters": parameters})


def merge_required(several: Iterable[Mapping[str, bool]]) -> dict[str, bool]:
    """Merge parameters with whether each is required; one is required if it is required anywhere."""
    result: dict[str, bool] = {}
    for parameters in several:
        for name, required in parameters.items():
            result[name] = result.get(name, False) or required
    return result
