"""Owns the way of a call's arguments: what the model sent is checked, then trusted values come in.

Knows nothing of the function, of its signature or of the texts that a model reads.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from pydantic import ValidationError

from seqoria_runtime._base.tools import HiddenParameter
from seqoria_runtime.models import ToolErrorKind

from .trusted import Trusted, invalid_in, merged, not_valid, pending_in

_logger: Final = logging.getLogger(__name__)

Check: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any]]
CheckWithin: TypeAlias = Callable[[Mapping[str, Any], Trusted], dict[str, Any]]

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class HiddenValuesError(Exception):
    """Trusted values are missing (`missing` names them) or do not fit; the text repeats no value."""

    def __init__(
        self, text: str = "", *, missing: Sequence[str] = (), kind: ToolErrorKind = "missing_parameter"
    ) -> None:
        super().__init__(text)
        self.missing = tuple(missing)
        self.kind = kind


class Arguments(Protocol):
    """How the arguments of one tool are prepared."""

    @property
    def hidden(self) -> tuple[HiddenParameter, ...]: ...

    def check(self, arguments: Mapping[str, Any], override: bool) -> Any:
        """Check what the model sent; raises `ValidationError`."""

    def missing(self, prepared: Any) -> tuple[HiddenParameter, ...]: ...

    def complete(self, prepared: Any, values: Mapping[str, Any]) -> dict[str, Any]:
        """Give the arguments of the function; raises `HiddenValuesError`."""


class PublicArguments:
    """Arguments that all come from the model: checked, they are complete."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self.hidden: tuple[HiddenParameter, ...] = ()

    def check(self, arguments: Mapping[str, Any], override: bool) -> dict[str, Any]:
        return self._check(arguments)

    def missing(self, prepared: dict[str, Any]) -> tuple[HiddenParameter, ...]:
        return ()

    def complete(self, prepared: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        return prepared


class Prepared(NamedTuple):
    """Checked arguments that wait for trusted values.

    `given` is what the model sent for public parameters; `public` are their values, or `None`
    while hidden fields inside of them have none. `own` are the model's values for hidden
    parameters, where it may override them. `pending` tells which hidden parameters have no value,
    and whether they need one.
    """

    given: Mapping[str, Any]
    public: Mapping[str, Any] | None
    own: Mapping[str, Any]
    pending: Mapping[str, bool]
    override: bool


class NestedFields(NamedTuple):
    """Hidden fields inside of public parameters: `required` has their names, `validate` fills them."""

    tool: str
    required: Mapping[str, bool]
    validate: CheckWithin

    def check(
        self, given: Mapping[str, Any], override: bool
    ) -> tuple[dict[str, Any] | None, Mapping[str, bool]]:
        """Give the values if no hidden one is needed, else the names of those that are."""
        checking = Trusted(checking=True, override=override)
        try:
            return self.validate(given, checking), _NOTHING
        except ValidationError as error:
            pending = pending_in(error)
            if pending is None:
                raise
            return None, pending
        except Exception:  # noqa: BLE001 - a validator of the application
            # It may have missed a hidden value, and is asked again when there is one.
            return None, self.required
        finally:
            log_dropped(checking.dropped, self.tool)

    def fill(self, given: Mapping[str, Any], values: Mapping[str, Any], override: bool) -> dict[str, Any]:
        """Give the values; raises `HiddenValuesError`."""
        try:
            return self.validate(given, Trusted(values, override=override))
        except ValidationError as error:
            failure = _failure(error)
        except Exception as error:  # noqa: BLE001 - a validator of the application
            text = f"a validator of its arguments raised {type(error).__name__}"
            failure = HiddenValuesError(text, kind="invalid_arguments")
        # Out here no traceback leads on to an error that holds a hidden value.
        raise failure


class HiddenArguments(NamedTuple):
    """Arguments of which some come from trusted sources.

    `top` are the hidden parameters of the function itself, with whether they are required;
    `top_keys` leads to their names from each key under which a model might send them.
    """

    tool: str
    hidden: tuple[HiddenParameter, ...]
    top: Mapping[str, bool]
    top_keys: Mapping[str, str]
    public: Check
    trusted: Check
    nested: NestedFields | None

    def check(self, arguments: Mapping[str, Any], override: bool) -> Prepared:
        given, own, pending = arguments, _NOTHING, self.top
        if not self.top_keys.keys().isdisjoint(arguments):
            given = {key: value for key, value in arguments.items() if key not in self.top_keys}
            own = self._own(arguments, override)
            pending = {name: required for name, required in self.top.items() if name not in own}
        if self.nested is None:
            return Prepared(given, self.public(given), own, pending, override)
        public, inside = self.nested.check(given, override)
        return Prepared(given, public, own, merged([pending, inside]), override)

    def missing(self, prepared: Prepared) -> tuple[HiddenParameter, ...]:
        if prepared.pending is self.top:
            return self.hidden
        return listed(prepared.pending)

    def complete(self, prepared: Prepared, values: Mapping[str, Any]) -> dict[str, Any]:
        given, public, own, pending, override = prepared
        missing = [name for name, required in pending.items() if required and name not in values]
        if missing:
            raise HiddenValuesError(missing=missing)
        trusted = self._trusted({name: values[name] for name in self.top if name in values})
        if public is None:
            assert self.nested is not None
            public = self.nested.fill(given, values, override)
        return {**public, **trusted, **own}

    def _own(self, arguments: Mapping[str, Any], override: bool) -> Mapping[str, Any]:
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
            failure = HiddenValuesError(not_valid(str(detail["loc"][0]), detail["type"]))
        except Exception as error:  # noqa: BLE001 - a validator of the application
            failure = HiddenValuesError(
                f"a validator of its server-populated parameters raised {type(error).__name__}"
            )
        # Out here no traceback leads on to an error that holds a hidden value.
        raise failure


def listed(parameters: Mapping[str, bool]) -> tuple[HiddenParameter, ...]:
    return tuple(HiddenParameter(name, required) for name, required in parameters.items())


def log_dropped(names: Iterable[str], tool: str) -> None:
    for name in sorted(names):
        _logger.warning("Dropped the model's value for the hidden parameter %r of tool %r", name, tool)


def _failure(error: ValidationError) -> HiddenValuesError:
    if pending := pending_in(error):
        return HiddenValuesError(missing=tuple(pending))
    if problem := invalid_in(error):
        return HiddenValuesError(problem)
    # The message of a validator that saw hidden values may repeat them; the kind of the error does not.
    details = error.errors(include_url=False, include_context=False, include_input=False)
    places = ", ".join(f"{'.'.join(map(str, detail['loc']))} ({detail['type']})" for detail in details)
    text = f"its arguments are not valid together with its server-populated parameters: {places}"
    return HiddenValuesError(text, kind="invalid_arguments")
