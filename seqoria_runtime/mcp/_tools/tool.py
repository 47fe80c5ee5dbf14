"""A remote tool as the runtime sees it: a `Tool` that checks the arguments and sends a request."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, final

from jsonschema.exceptions import SchemaError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import Draft202012Validator, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from seqoria_runtime._base.redaction import bounded, redact
from seqoria_runtime._base.tools import ConcurrencyCap, HiddenParameter, ToolFailure
from seqoria_runtime.mcp._connection.tool_list import RemoteToolDefinition

Send: TypeAlias = Callable[[RemoteToolDefinition, dict[str, Any]], Coroutine[Any, Any, str]]

_MAX_COMPLAINT = 600


class ArgumentsCheck:
    """Checks arguments against a JSON schema, which is compiled when it is first needed.

    An invalid schema disables the check; the server validates anyway.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = dict(schema)
        self._validator: Validator | None = None
        self._usable = True

    def complaint(self, arguments: Mapping[str, Any]) -> str | None:
        """Return what is wrong with the arguments, in words that a model can act on, or `None`."""
        validator = self._compiled()
        if validator is None:
            return None
        try:
            error = best_match(validator.iter_errors(dict(arguments)))
        except (Unresolvable, RecursionError):
            self._usable = False
            return None
        if error is None:
            return None
        place = error.json_path.removeprefix("$").lstrip(".")
        return f"{place}: {error.message}" if place else str(error.message)

    def _compiled(self) -> Validator | None:
        if self._validator is None and self._usable:
            kind = validator_for(self._schema, default=Draft202012Validator)
            try:
                kind.check_schema(self._schema)
            except (SchemaError, RecursionError):
                self._usable = False
                return None
            # With the default registry a `$ref` to a URL would be downloaded, from wherever the server says.
            self._validator = kind(self._schema, registry=Registry())
        return self._validator if self._usable else None


@final
@dataclass(frozen=True, slots=True, eq=False)
class RemoteTool:
    """A `Tool` of a server. It has no hidden parameters, whatever the server says.

    `send` sends a call and returns the text of its result.
    """

    definition: RemoteToolDefinition
    send: Send
    check: ArgumentsCheck
    timeout: float | None = None
    cap: ConcurrencyCap | None = None

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def description(self) -> str:
        return self.definition.description

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self.definition.parameters

    @property
    def depends_on(self) -> frozenset[str]:
        return self.definition.depends_on

    @property
    def hidden(self) -> tuple[HiddenParameter, ...]:
        return ()

    @property
    def blocking(self) -> bool:
        return False

    def validate(self, arguments: Mapping[str, Any], *, allow_override: bool = False) -> dict[str, Any]:
        complaint = self.check.complaint(arguments)
        if complaint is not None:
            reason = bounded(redact(complaint), _MAX_COMPLAINT)
            raise ToolFailure(
                "invalid_arguments", f"Tool {self.name!r} failed: the arguments do not fit: {reason}"
            )
        return dict(arguments)

    def missing(self, prepared: dict[str, Any]) -> tuple[HiddenParameter, ...]:
        return ()

    def complete(self, prepared: dict[str, Any], hidden: Mapping[str, Any]) -> dict[str, Any]:
        return prepared

    def call(self, prepared: dict[str, Any]) -> Coroutine[Any, Any, str]:
        return self.send(self.definition, prepared)

    def render(self, value: str) -> str:
        return value
