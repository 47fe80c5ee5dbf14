"""Prepares the arguments of a call: checks what the model sent, then adds the trusted values."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from pydantic import ValidationError

from seqoria_runtime._base.tools import HiddenParameter
from seqoria_runtime.models import ToolErrorKind

from .trusted_values import TrustedValues, invalid_text, invalid_value, merge_required, pending_parameters

_logger: Final = logging.getLogger(__name__)

Check: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any]]
CheckWithin: TypeAlias = Callable[[Mapping[str, Any], TrustedValues], dict[str, Any]]

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class HiddenValuesError(Exception):
    """Trusted values are missing (`missing` names them) or not valid; the text contains no value."""

    def __init__(
        self, text: str = "", *, missing: Sequence[str] = (), kind: ToolErrorKind = "missing_parameter"
    ) -> None:
        super().__init__(text)
        self.missing = tuple(missing)
        self.kind = kind


class ToolArguments(Protocol):
    """Prepares the arguments of one tool."""

    @property
    def hidden(self) -> tuple[HiddenParameter, ...]: ...

    def check(self, arguments: Mapping[str, Any], override: bool) -> Any:
        """Check what the model sent; raise `ValidationError`."""

    def missing(self, prepared: Any) -> tuple[HiddenParameter, ...]: ...

    def complete(self, prepared: Any, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of the function; raise `HiddenValuesError`."""


class PublicArguments:
    """Arguments that all come from the model: once checked, they are complete."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self.hidden: tuple[HiddenParameter, ...] = ()

    def check(self, arguments: Mapping[str, Any], override: bool) -> dict[str, Any]:
        return self._check(arguments)

    def missing(self, prepared: dict[str, Any]) -> tuple[HiddenParameter, ...]:
        return ()

    def complete(self, prepared: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        return prepared


class PreparedArguments(NamedTuple):
    """Checked arguments that need trusted values.

    `given` is what the model sent for public parameters; `public` are their values, or `None` while hidden
    fields inside them have none. `overrides` are the model's values for hidden parameters, if it may
    override them. `pending` are the hidden parameters without a value, and whether each needs one.
    """

    given: Mapping[str, Any]
    public: Mapping[str, Any] | None
    overrides: Mapping[str, Any]
    pending: Mapping[str, bool]
    override: bool


class NestedFields(NamedTuple):
    """Hidden fields inside public parameters: `required` has their names, `validate` fills them."""

    tool: str
    required: Mapping[str, bool]
    validate: CheckWithin

    def check(
        self, given: Mapping[str, Any], override: bool
    ) -> tuple[dict[str, Any] | None, Mapping[str, bool]]:
        """Return the values if no hidden one is needed, or else the pending parameters."""
        checking = TrustedValues(checking=True, override=override)
        try:
            return self.validate(given, checking), _NOTHING
        except ValidationError as error:
            pending = pending_parameters(error)
            if pending is None:
                raise
            return None, pending
        except Exception:  # noqa: BLE001 - a validator of the application
            # A validator like `info.data["user_id"]` fails because the value is pending. `fill` runs it
            # again with the trusted values, and its failure counts then.
            return None, self.required
        finally:
            log_dropped(checking.dropped, self.tool)

    def fill(self, given: Mapping[str, Any], values: Mapping[str, Any], override: bool) -> dict[str, Any]:
        """Return the values; raise `HiddenValuesError`."""
        try:
            return self.validate(given, TrustedValues(values, override=override))
        except ValidationError as error:
            failure = _failure(error)
        except Exception as error:  # noqa: BLE001 - a validator of the application
            text = f"a validator of its arguments raised {type(error).__name__}"
            failure = HiddenValuesError(text, kind="invalid_arguments")
        # Raised outside of the `except` blocks: as `__context__`, pydantic's error would carry the value into
        # logged tracebacks.
        raise failure


class HiddenArguments(NamedTuple):
    """Arguments some of which come from trusted sources.

    `top` are the hidden parameters of the function itself, with whether each is required; `top_keys` maps
    each key under which a model might send one to its name.
    """

    tool: str
    hidden: tuple[HiddenParameter, ...]
    top: Mapping[str, bool]
    top_keys: Mapping[str, str]
    public: Check
    trusted: Check
    nested: NestedFields | None

    def check(self, arguments: Mapping[str, Any], override: bool) -> PreparedArguments:
        given, overrides, pending = arguments, _NOTHING, self.top
        if not self.top_keys.keys().isdisjoint(arguments):
            given = {key: value for key, value in arguments.items() if key not in self.top_keys}
            overrides = self._overrides(arguments, override)
            pending = {name: required for name, required in self.top.items() if name not in overrides}
        if self.nested is None:
            return PreparedArguments(given, self.public(given), overrides, pending, override)
        public, inside = self.nested.check(given, override)
        return PreparedArguments(given, public, overrides, merge_required([pending, inside]), override)

    def missing(self, prepared: PreparedArguments) -> tuple[HiddenParameter, ...]:
        if prepared.pending is self.top:
            return self.hidden
        return hidden_parameters(prepared.pending)

    def complete(self, prepared: PreparedArguments, values: Mapping[str, Any]) -> dict[str, Any]:
        given, public, overrides, pending, override = prepared
        missing = [name for name, required in pending.items() if required and name not in values]
        if missing:
            raise HiddenValuesError(missing=missing)
        trusted = self._trusted({name: values[name] for name in self.top if name in values})
        if public is None:
            assert self.nested is not None
            public = self.nested.fill(given, values, override)
        return {**public, **trusted, **overrides}

    def _overrides(self, arguments: Mapping[str, Any], override: bool) -> Mapping[str, Any]:
        sent = {self.top_keys[key]: value for key, value in arguments.items() if key in self.top_keys}
        if not override:
            log_dropped(sent, self.tool)
            return _NOTHING
        validated = self.trusted(sent)
        return {name: validated[name] for name in sent}

    def _trusted(self, values: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self.trusted(values)
        except ValidationError as error:
            detail = error.errors(include_url=False, include_context=False, include_input=False)[0]
            failure = HiddenValuesError(invalid_text(str(detail["loc"][0]), detail["type"]))
        except Exception as error:  # noqa: BLE001 - a validator of the application
            failure = HiddenValuesError(
                f"a validator of its server-populated parameters raised {type(error).__name__}"
            )
        # Outside of the `except` blocks, as in `NestedFields.fill`.
        raise failure


def hidden_parameters(parameters: Mapping[str, bool]) -> tuple[HiddenParameter, ...]:
    return tuple(HiddenParameter(name, required) for name, required in parameters.items())


def log_dropped(names: Iterable[str], tool: str) -> None:
    for name in sorted(names):
        _logger.warning("Dropped the model's value for the hidden parameter %r of tool %r", name, tool)


def _failure(error: ValidationError) -> HiddenValuesError:
    if pending := pending_parameters(error):
        return HiddenValuesError(missing=tuple(pending))
    if problem := invalid_value(error):
        return HiddenValuesError(problem)
    # A validator that saw trusted values may repeat them in its message; the kind of its error does not.
    details = error.errors(include_url=False, include_context=False, include_input=False)
    places = ", ".join(f"{'.'.join(map(str, detail['loc']))} ({detail['type']})" for detail in details)
    text = f"its arguments are not valid together with its server-populated parameters: {places}"
    return HiddenValuesError(text, kind="invalid_arguments")
