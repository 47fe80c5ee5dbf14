"""What a scripted MCP server does when one of its tools is called: a function, or a fault."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable
from typing import Any

from seqoria_runtime._base.tools import Tool, ToolFailure
from seqoria_runtime._execution.calls.threads import run_in_thread
from seqoria_runtime.toolbox import LocalToolbox

from ._tools.dag import FaultPlan

INVALID_PARAMS = -32602

Report = Callable[[float, float | None, str | None], Awaitable[None]]

reporter: ContextVar[Report | None] = ContextVar("mcp_progress_reporter", default=None)
"""Sends the progress of the call that this code runs for, if its client asks for progress."""


class ServerDeath(Exception):
    """Raise it in a tool of a `ScriptedMCPServer` to end all its connections without an answer."""


class MCPRefusal(Exception):
    """Raise it in a tool of a `ScriptedMCPServer` to answer with a protocol error instead of a result."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class RawResult:
    """Return it from a tool of a `ScriptedMCPServer` to answer with exactly this result.

    `RawResult({"content": [], "structuredContent": {"n": 1}})` has only structured content.
    """

    value: Mapping[str, Any]


async def report_progress(done: float, total: float | None = None, message: str | None = None) -> None:
    """Send the progress of a call, from an asynchronous tool of a `ScriptedMCPServer`.

    Does nothing if the client does not ask for progress. A cancelled caller may or may not have sent it.
    """
    report = reporter.get()
    if report is not None:
        await report(done, total, message)


class ServedTools:
    """The tools of a toolbox as a server offers them, with the faults of a plan."""

    def __init__(self, toolbox: LocalToolbox, faults: FaultPlan) -> None:
        self.use(toolbox)
        unknown = {name for name, _ in faults.faults} - self._tools.keys()
        if unknown:
            raise ValueError(f"the fault plan names a tool {min(unknown)!r} that the toolbox does not have")
        self._faults = faults
        self._started: Counter[str] = Counter()

    def use(self, toolbox: LocalToolbox) -> None:
        """Offer the tools of another toolbox; raises `ValueError` for one that no server can offer."""
        if not isinstance(toolbox, LocalToolbox):
            raise TypeError(f"a server offers the tools of a LocalToolbox, not of {toolbox!r}")
        for tool in toolbox.tools:
            if tool.hidden:
                raise ValueError(
                    f"the tool {tool.name!r} has hidden parameters, which never reach a server: "
                    f"{', '.join(parameter.name for parameter in tool.hidden)}"
                )
        self._tools: Mapping[str, Tool] = {tool.name: tool for tool in toolbox.tools}

    def definitions(self) -> list[dict[str, Any]]:
        return [_definition(tool) for tool in self._tools.values()]

    async def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a call as JSON; raises `MCPRefusal` and `ServerDeath`."""
        tool = self._tools.get(name)
        if tool is None:
            raise MCPRefusal(INVALID_PARAMS, f"there is no tool {name!r}")
        self._started[name] += 1
        try:
            value = await self._value(tool, arguments, self._started[name])
            if isinstance(value, RawResult):
                return dict(value.value)
            return _result(value if isinstance(value, str) else tool.render(value))
        except (MCPRefusal, ServerDeath):
            raise
        except ToolFailure as failure:
            return _result(str(failure), is_error=True)
        except Exception as exc:  # noqa: BLE001 - a server answers with any failure of a tool
            return _result(f"{type(exc).__name__}: {exc}", is_error=True)

    async def _value(self, tool: Tool, arguments: Mapping[str, Any], number: int) -> Any:
        prepared = tool.validate(arguments)
        fault = self._faults.of(tool.name, number)
        if fault is not None:
            default = f"{tool.name} {number}"
            if fault.blocking:
                return await run_in_thread(partial(fault.play_in_thread, default))
            return await fault.play(default)
        value = await run_in_thread(partial(tool.call, prepared)) if tool.blocking else tool.call(prepared)
        return await value if isawaitable(value) else value


def _definition(tool: Tool) -> dict[str, Any]:
    definition: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": {"type": "object", **tool.parameters},
    }
    if tool.depends_on:
        from seqoria_runtime.mcp import DEPENDS_ON_META_KEY

        definition["_meta"] = {DEPENDS_ON_META_KEY: sorted(tool.depends_on)}
    return definition


def _result(text: str, *, is_error: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], **({"isError": True} if is_error else {})}
