"""A direct call of one tool by name: its checks, and the form of its answer."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from seqoria_runtime._base.catalogue import Catalogue
from seqoria_runtime.models import ToolCallOutcome, ToolCallRequest, ToolCallResult
from seqoria_runtime.models.errors import ToolExecutionError, ToolNotFoundError
from seqoria_runtime.toolbox import TextContent

_CALL_ID = "direct"


class DirectCall(NamedTuple):
    """A call of one tool that no model asked for; `server_args` are its trusted values."""

    request: ToolCallRequest
    server_args: Mapping[str, Any]

    @classmethod
    def check(cls, name: object, arguments: object, server_args: object) -> Self:
        """Check the arguments' types."""
        if not isinstance(name, str) or not name:
            raise TypeError(f"'name' must be the name of a tool, not {name!r}")
        return cls(
            ToolCallRequest(id=_CALL_ID, name=name, arguments=_mapping("arguments", arguments)),
            _mapping("server_args", server_args),
        )

    def check_against(self, catalogue: Catalogue) -> None:
        """Raise for an unknown tool, and for a trusted value in the wrong place."""
        name = self.request.name
        entry = catalogue.get(name)
        if entry is None:
            raise ToolNotFoundError(f"Tool {name!r} not found on any connected server.")
        hidden = {parameter.name for parameter in entry.tool.hidden}
        for parameter in self.request.arguments:
            if parameter in hidden:
                raise ValueError(f"Cannot override server-populated param: {parameter}")
        for parameter in self.server_args:
            if parameter not in hidden:
                raise ValueError(f"Unknown server parameter: {parameter}")


def content_of(outcome: ToolCallOutcome) -> list[TextContent]:
    """Return the result as content objects; raise `ToolExecutionError` for a failed call."""
    if isinstance(outcome, ToolCallResult):
        return [TextContent(outcome.result)]
    raise ToolExecutionError(outcome.error, kind=outcome.kind)


def _mapping(name: str, value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{name!r} must be a mapping, not {type(value).__name__}")
    return dict(value)
