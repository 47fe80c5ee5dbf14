"""Owns a remote tool as the runtime sees it: a `Tool` whose call is a request to its server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, final

from seqoria_runtime._base.redaction import bounded, redact
from seqoria_runtime._base.tools import ConcurrencyCap, HiddenParameter, ToolFailure
from seqoria_runtime.mcp._connection.tool_list import ToolDefinition

from .arguments import ArgumentsCheck

_MAX_COMPLAINT = 600


class ToolServer(Protocol):
    """What a remote tool needs of its server."""

    async def call_tool(self, tool: ToolDefinition, arguments: dict[str, Any]) -> str:
        """The text of a call's result; raises `ToolFailure`."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class RemoteTool:
    """A `Tool` of a server. It has no hidden parameters, whatever the server says."""

    definition: ToolDefinition
    server: ToolServer
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

    def missing(self, prepared: Any) -> tuple[HiddenParameter, ...]:
        return ()

    def complete(self, prepared: Any, hidden: Mapping[str, Any]) -> Any:
        return prepared

    def call(self, prepared: dict[str, Any]) -> Any:
        return self.server.call_tool(self.definition, prepared)

    def render(self, value: str) -> str:
        return value
