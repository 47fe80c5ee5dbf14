"""Calls one server for the application and its model, and turns every failure into the package's errors."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from mcp import ClientSession, MCPError
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import HEADER_MISMATCH
from pydantic import ValidationError

from seqoria_runtime._base.redaction import bounded, redact
from seqoria_runtime._base.tools import ConcurrencyCap, ToolFailure
from seqoria_runtime._execution.calls.runner import RunningCall, running_call
from seqoria_runtime.mcp._connection.results import error_text, result_text
from seqoria_runtime.mcp._connection.retry_and_renewal import Requests
from seqoria_runtime.mcp._connection.server_connection import ServerConnection, ServerOptions
from seqoria_runtime.mcp._connection.tool_list import RemoteToolDefinition
from seqoria_runtime.mcp._transport.connection_end import call_headers
from seqoria_runtime.mcp._transport.failures import RequestFailed, describe
from seqoria_runtime.mcp._transport.headers import headers_for
from seqoria_runtime.models import ToolErrorKind, ToolProgress
from seqoria_runtime.models.errors import CircuitOpenError, MCPConnectionError, MCPRequestError

from . import input_rounds as _input_rounds
from .tool import ArgumentsCheck, RemoteTool

T = TypeVar("T")

_MAX_ERROR = 1_000
_BROKEN_PROTOCOL = (ValidationError, RuntimeError)


class ServerCalls:
    """The calls to one server: its tools, and the requests of the application."""

    def __init__(self, connection: ServerConnection, options: ServerOptions) -> None:
        self.connection = connection
        self._requests = Requests(
            connection.name,
            connection.breaker,
            options.policy,
            connected=connection.connected,
            renew=connection.renew,
        )
        limit = connection.config.max_concurrency
        self._cap = None if limit is None else ConcurrencyCap(f"server {connection.name!r}", limit)
        self._definitions: tuple[RemoteToolDefinition, ...] = ()
        self._tools: tuple[RemoteTool, ...] = ()

    @property
    def tools(self) -> tuple[RemoteTool, ...]:
        """The tools of the last complete list; the same objects until the list changes."""
        definitions = self.connection.list.tools
        if definitions is not self._definitions:
            self._definitions = definitions
            self._tools = tuple(self._tool(definition) for definition in definitions)
        return self._tools

    async def call_tool(self, tool: RemoteToolDefinition, arguments: dict[str, Any]) -> str:
        """Call a tool and return the text of its result; raise `ToolFailure`.

        A cancelled caller has its request cancelled at the server.
        """
        call = running_call()
        progress = None if call is None else _progress_of(call)

        async def ask(session: ClientSession) -> dict[str, Any]:
            try:
                return await _input_rounds.call_tool(session, tool.name, arguments, progress=progress)
            except MCPError as refusal:
                if refusal.code != HEADER_MISMATCH:
                    raise
            # The session derives headers from the tool's schema, which has changed since it was read.
            await self.connection.list.read(session)
            return await _input_rounds.call_tool(session, tool.name, arguments, progress=progress)

        try:
            result = await self._make(ask, call, repeatable=tool.repeatable)
        except (CircuitOpenError, MCPError, *_BROKEN_PROTOCOL) as exc:
            raise self._tool_failure(tool.name, exc) from exc
        if result.get("isError"):
            raise ToolFailure("failed", f"Tool {tool.name!r} failed: {redact(error_text(result))}")
        text = result_text(result)
        limit = self.connection.config.max_result_chars
        return text if limit is None else bounded(text, limit)

    async def request(self, ask: Callable[[ClientSession], Awaitable[T]]) -> T:
        """Await `ask(session)` for the application; a cancelled caller has its request cancelled.

        Raises `MCPConnectionError`, `MCPRequestError` or `CircuitOpenError`.
        """
        name = self.connection.name
        try:
            return await self._make(ask, running_call(), repeatable=True)
        except RequestFailed as failure:
            raise MCPConnectionError(failure.sentence(name), server=name) from failure
        except MCPError as refusal:
            raise MCPRequestError(_refused(name, refusal), server=name, code=refusal.code) from refusal
        except _BROKEN_PROTOCOL as exc:
            raise MCPRequestError(_broken(name, exc), server=name) from exc

    async def _make(
        self, ask: Callable[[ClientSession], Awaitable[T]], call: RunningCall | None, *, repeatable: bool
    ) -> T:
        source = self.connection.config.headers
        if not callable(source):
            return await self._requests.make(ask, repeatable=repeatable)
        context: Mapping[str, Any] = {} if call is None else call.context
        token = call_headers.set(await headers_for(source, context))
        try:
            return await self._requests.make(ask, repeatable=repeatable)
        finally:
            call_headers.reset(token)

    def _tool(self, definition: RemoteToolDefinition) -> RemoteTool:
        check = ArgumentsCheck(definition.parameters)
        timeout = self.connection.config.call_timeout
        return RemoteTool(definition, self.call_tool, check, timeout=timeout, cap=self._cap)

    def _tool_failure(self, tool: str, exc: Exception) -> ToolFailure:
        name = self.connection.name
        kind: ToolErrorKind = "failed"
        if isinstance(exc, CircuitOpenError):
            kind, reason = "circuit_open", str(exc)
        elif isinstance(exc, RequestFailed):
            kind = "unavailable" if exc.about == "transport" and not exc.ran else "failed"
            reason = exc.sentence(name)
        elif isinstance(exc, MCPError):
            reason = _refused(name, exc)
        else:
            reason = _broken(name, exc)
        return ToolFailure(kind, f"Tool {tool!r} failed: {reason}")


def _progress_of(call: RunningCall) -> ProgressFnT | None:
    """Return the function that reports the progress of a call; `None` if it is not observed."""
    report = call.report
    if report is None:
        return None

    async def on_progress(  # noqa: RUF029 - the SDK awaits it
        progress: float, total: float | None, message: str | None
    ) -> None:
        report(ToolProgress(call.request, progress, total, message))

    return on_progress


def _refused(server: str, refusal: MCPError) -> str:
    return f"server {server!r} answered with an error: {bounded(redact(refusal.message), _MAX_ERROR)}"


def _broken(server: str, exc: Exception) -> str:
    text = bounded(redact(describe(exc)), _MAX_ERROR)
    return f"server {server!r} answered with something that breaks the protocol: {text}"
