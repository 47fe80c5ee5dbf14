"""What the runtime asks of a tool, wherever it comes from.

Toolboxes and servers give `Tool` objects; the catalogue names them and the executor runs them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from seqoria_runtime.models import ToolErrorKind


class HiddenParameter(NamedTuple):
    """A parameter that the model never sees; `required` unless the function has a default for it."""

    name: str
    required: bool


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class ConcurrencyCap:
    """At most `limit` calls at once, in one client, of all tools that have this very object as their cap.

    `name` says what is capped: `tool 'x'` or `server 'y'`.
    """

    name: str
    limit: int


class ToolFailure(Exception):
    """Raised by a tool's adapter to settle the call as an error of a certain kind.

    The text is what the model reads; it names the tool and holds no secret.
    """

    def __init__(self, kind: ToolErrorKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@runtime_checkable
class Tool(Protocol):
    """One tool. The executor calls, in this order and each at most once a call:
    `validate`, `missing` and `complete` (for tools with hidden parameters), `call`, `render`.
    """

    @property
    def name(self) -> str:
        """The name that it has at its source; aliases are the catalogue's business."""

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON schema that the model sees."""

    @property
    def depends_on(self) -> frozenset[str]: ...

    @property
    def hidden(self) -> Sequence[HiddenParameter]:
        """What trusted sources have to fill in; empty for most tools and for all remote ones."""

    @property
    def timeout(self) -> float | None:
        """Seconds for one call; `None` leaves it to the client."""

    @property
    def cap(self) -> ConcurrencyCap | None:
        """What limits its calls beside the client's own limit."""

    @property
    def blocking(self) -> bool:
        """Whether `call` has to run in a worker thread."""

    def validate(self, arguments: Mapping[str, Any], *, allow_override: bool = False) -> Any:
        """Check what the model sent, without I/O; give the prepared arguments.

        Values that the model sent for hidden parameters are dropped, unless `allow_override`.
        Never changes `arguments`. Raises `ToolFailure("invalid_arguments", ...)`.
        """

    def missing(self, prepared: Any) -> Sequence[HiddenParameter]:
        """The hidden parameters that still have no value in the prepared arguments."""

    def complete(self, prepared: Any, hidden: Mapping[str, Any]) -> Any:
        """Put the trusted values in and check them; give arguments ready for `call`.

        Raises `ToolFailure("missing_parameter", ...)`, which names the parameter and never its value.
        """

    def call(self, prepared: Any) -> Any:
        """Call the function; the value may be an awaitable."""

    def render(self, value: Any) -> str:
        """Make the text that goes to the model. Raises `ToolFailure("failed", ...)`."""
