"""The interface of a tool: toolboxes and servers provide `Tool` objects, the catalogue names them, and
`_execution` calls them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from seqoria_runtime.models import ToolErrorKind


class HiddenParameter(NamedTuple):
    """A parameter that the model does not see; `required` unless the function has a default for it."""

    name: str
    required: bool


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class ConcurrencyCap:
    """At most `limit` calls at once, in one client, of all tools that share this object as their cap.

    `name` is what is capped: `tool 'x'` or `server 'y'`.
    """

    name: str
    limit: int


class ToolFailure(Exception):
    """Raised by a `Tool` to settle the call as an error of this kind.

    The model reads the text; it names the tool and contains no secret.
    """

    def __init__(self, kind: ToolErrorKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@runtime_checkable
class Tool(Protocol):
    """One tool, such as those of `LocalToolbox.tools`.

    For each call the runtime uses, in this order and at most once each: `validate`, `missing` and
    `complete` (for tools with hidden parameters), `call`, `render`.
    """

    @property
    def name(self) -> str:
        """The name at its source; the catalogue may list it under an alias."""

    @property
    def description(self) -> str:
        """What the model reads about the tool."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON schema that the model sees."""

    @property
    def depends_on(self) -> frozenset[str]:
        """The tools whose calls in the same batch must settle first."""

    @property
    def hidden(self) -> Sequence[HiddenParameter]:
        """The parameters that trusted sources fill; empty for remote tools."""

    @property
    def timeout(self) -> float | None:
        """Limit for one call, in seconds; `None`: the client's `tool_timeout`."""

    @property
    def cap(self) -> ConcurrencyCap | None:
        """The limit of its calls in addition to the client's limit."""

    @property
    def blocking(self) -> bool:
        """Whether `call` must run in a worker thread."""

    def validate(self, arguments: Mapping[str, Any], *, allow_override: bool = False) -> Any:
        """Check what the model sent, without I/O; return the prepared arguments.

        Drops the model's values for hidden parameters, unless `allow_override`. Does not change
        `arguments`. Raises `ToolFailure("invalid_arguments", ...)`.
        """

    def missing(self, prepared: Any) -> Sequence[HiddenParameter]:
        """Return the hidden parameters without a value in the prepared arguments."""

    def complete(self, prepared: Any, hidden: Mapping[str, Any]) -> Any:
        """Add the trusted values and check them; return the arguments for `call`.

        Raises `ToolFailure("missing_parameter", ...)`, which names the parameter and never its value.
        """

    def call(self, prepared: Any) -> Any:
        """Call the function; return its value or an awaitable of it."""

    def render(self, value: Any) -> str:
        """Return the value as text for the model. Raises `ToolFailure("failed", ...)`."""
