"""Owns the way of a call's arguments: what the model sent is checked, then trusted values come in.

Knows nothing of the function, of its signature or of the texts that a model reads.
"""

import logging
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from pydantic import ValidationError
from pydantic_core import SchemaValidator

from seqoria_runtime._tools import HiddenParameter
from seqoria_runtime.models import ToolErrorKind

from ._trusted import Trusted, invalid_in, merged, pending_in

_logger: Final = logging.getLogger(__name__)

Check: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any]]
CheckWithin: TypeAlias = Callable[[Mapping[str, Any], Trusted], dict[str, Any]]


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


@dataclass(frozen=True, slots=True)
class Prepared:
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


@dataclass(frozen=True, slots=True)
class HiddenArguments:
    """Arguments of which some come from trusted sources.

    `top` are the hidden parameters of the function itself, `nested` those that are fields inside of
    its public parameters, both with whether they are required. `top_keys` leads from each key under
    which a model might send one of the former to its name.
    """

    tool: str
    top: Mapping[str, bool]
    nested: Mapping[str, bool]
    top_keys: Mapping[str, str]
    public: CheckWithin
    trusted: SchemaValidator

    @property
    def hidden(self) -> tuple[HiddenParameter, ...]:
        return _listed(merged([self.top, self.nested]))

    def check(self, arguments: Mapping[str, Any], override: bool) -> Prepared:
        given = {key: value for key, value in arguments.items() if key not in self.top_keys}
        sent = {self.top_keys[key]: value for key, value in arguments.items() if key in self.top_keys}
        own: Mapping[str, Any] = {}
        if override and sent:
            validated = self.trusted.validate_python(sent)
            own = {name: validated[name] for name in sent}
        checking = Trusted(checking=True, override=override)
        public, nested = self._checked(given, checking)
        self._log_dropped(checking.dropped if override else checking.dropped | sent.keys())
        pending = {name: required for name, required in self.top.items() if name not in own}
        return Prepared(given, public, own, merged([pending, nested]), override)

    def missing(self, prepared: Prepared) -> tuple[HiddenParameter, ...]:
        return _listed(prepared.pending)

    def complete(self, prepared: Prepared, values: Mapping[str, Any]) -> dict[str, Any]:
        missing = [name for name, required in prepared.pending.items() if required and name not in values]
        if missing:
            raise HiddenValuesError(missing=missing)
        try:
            return self._completed(prepared, values)
        except ValidationError as error:
            failure = _failure(error)
        except Exception as error:  # noqa: BLE001 - a validator of the application
            failure = HiddenValuesError(
                f"a validator of its arguments raised {type(error).__name__}", kind="invalid_arguments"
            )
        # Out here no traceback leads on to an error that holds a hidden value.
        raise failure

    def _checked(
        self, given: Mapping[str, Any], checking: Trusted
    ) -> tuple[dict[str, Any] | None, Mapping[str, bool]]:
        try:
            return self.public(given, checking), {}
        except ValidationError as error:
            pending = pending_in(error)
            if pending is None:
                raise
        except Exception:
            if not self.nested:
                raise
            # It may have missed a hidden value, and is asked again when there is one.
            pending = dict(self.nested)
        return None, pending

    def _completed(self, prepared: Prepared, values: Mapping[str, Any]) -> dict[str, Any]:
        public = prepared.public
        if public is None:
            public = self.public(prepared.given, Trusted(values, override=prepared.override))
        trusted = {name: values[name] for name in self.top if name in values and name not in prepared.own}
        return {**public, **self.trusted.validate_python(trusted), **prepared.own}

    def _log_dropped(self, names: Set[str]) -> None:
        for name in sorted(names):
            _logger.warning(
                "Dropped the model's value for the hidden parameter %r of tool %r", name, self.tool
            )


def _listed(parameters: Mapping[str, bool]) -> tuple[HiddenParameter, ...]:
    return tuple(HiddenParameter(name, required) for name, required in parameters.items())


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
