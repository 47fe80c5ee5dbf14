"""Owns what the application and its model can ask of one server: tools, resources and prompts.

Turns everything that may go wrong into the package's own errors and outcomes.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from mcp import ClientSession, MCPError
from mcp_types import HEADER_MISMATCH
from pydantic import ValidationError

from seqoria_runtime._base.redaction import bounded, redact
from seqoria_runtime._base.tools import ConcurrencyCap, ToolFailure
from seqoria_runtime.mcp._config.status import ServerStatus
from seqoria_runtime.mcp._connection.requests import Requests
from seqoria_runtime.mcp._connection.results import error_text, result_text
from seqoria_runtime.mcp._connection.server import Server, ServerOptions
from seqoria_runtime.mcp._connection.tool_list import ToolDefinition
from seqoria_runtime.mcp._transport.connection_end import call_headers
from seqoria_runtime.mcp._transport.failures import RequestFailed, describe
from seqoria_runtime.mcp._transport.headers import headers_for
from seqoria_runtime.models import ToolErrorKind
from seqoria_runtime.models.errors import CircuitOpenError, MCPConnectionError, MCPRequestError

from . import input_rounds as _exchanges
from .arguments import ArgumentsCheck
from .call_info import CallInfo, current_call
from .tool import RemoteTool

T = TypeVar("T")

_MAX_ERROR = 1_000
_BROKEN_PROTOCOL = (ValidationError, RuntimeError)


class RemoteServer:
    """One server, by its tools, resources and prompts."""

    def __init__(self, server: Server, options: ServerOptions) -> None:
        self._server = server
        self._requests = Requests(
            server.name,
            server.breaker,
            options.policy,
            connected=server.connected,
            renew=server.renew,
        )
        limit = server.config.max_concurrency
        self._cap = None if limit is None else ConcurrencyCap(f"server {server.name!r}", limit)
        self._definitions: tuple[ToolDefinition, ...] = ()
        self._tools: tuple[RemoteTool, ...] = ()

    @property
    def name(self) -> str:
        return self._server.name

    def status(self) -> ServerStatus:
        return self._server.status()

    @property
    def tools(self) -> tuple[RemoteTool, ...]:
        """The tools of the last whole list, the same objects until there is another."""
        definitions = self._server.list.tools
        if definitions is not self._definitions:
            self._definitions = definitions
            self._tools = tuple(self._tool(definition) for definition in definitions)
        return self._tools

    async def call_tool(self, tool: ToolDefinition, arguments: dict[str, Any]) -> str:
        """Call a tool and give the text of its result; raises `ToolFailure`."""
        call = current_call()

        async def ask(session: ClientSession) -> dict[str, Any]:
            try:
                return await _exchanges.call_tool(session, tool.name, arguments, progress=call.progress)
            except MCPError as refusal:
                if refusal.code != HEADER_MISMATCH:
                    raise
            # The tool's schema, which says what goes into the headers, was read before it changed.
            await self._server.list.read(session)
            return await _exchanges.call_tool(session, tool.name, arguments, progress=call.progress)

        try:
            result = await self._make(ask, call, repeatable=tool.repeatable)
        except (CircuitOpenError, MCPError, *_BROKEN_PROTOCOL) as exc:
            raise self._tool_failure(tool.name, exc) from exc
        if result.get("isError"):
            raise ToolFailure("failed", f"Tool {tool.name!r} failed: {redact(error_text(result))}")
        text = result_text(result)
        limit = self._server.config.max_result_chars
        return text if limit is None else bounded(text, limit)

    async def request(self, ask: Callable[[ClientSession], Awaitable[T]]) -> T:
        """Await `ask(session)` for the application.

        Raises `MCPConnectionError`, `MCPRequestError` or `CircuitOpenError`.
        """
        name = self._server.name
        try:
            return await self._make(ask, current_call(), repeatable=True)
        except RequestFailed as failure:
            raise MCPConnectionError(failure.said_of(name), server=name) from failure
        except MCPError as refusal:
            raise MCPRequestError(_refused(name, refusal), server=name, code=refusal.code) from refusal
        except _BROKEN_PROTOCOL as exc:
            raise MCPRequestError(_broken(name, exc), server=name) from exc

    async def _make(
        self, ask: Callable[[ClientSession], Awaitable[T]], call: CallInfo, *, repeatable: bool
    ) -> T:
        source = self._server.config.headers
        if not callable(source):
            return await self._requests.make(ask, repeatable=repeatable)
        token = call_headers.set(await headers_for(source, call.context))
        try:
            return await self._requests.make(ask, repeatable=repeatable)
        finally:
            call_headers.reset(token)

    def _tool(self, definition: ToolDefinition) -> RemoteTool:
        check = ArgumentsCheck(definition.parameters)
        return RemoteTool(definition, self, check, timeout=self._server.config.call_timeout, cap=self._cap)

    def _tool_failure(self, tool: str, exc: Exception) -> ToolFailure:
        name = self._server.name
        kind: ToolErrorKind = "failed"
        if isinstance(exc, CircuitOpenError):
            kind, reason = "circuit_open", str(exc)
        elif isinstance(exc, RequestFailed):
            kind = "unavailable" if exc.about == "transport" and not exc.ran else "failed"
            reason = exc.said_of(name)
        elif isinstance(exc, MCPError):
            reason = _refused(name, exc)
        else:
            reason = _broken(name, exc)
        return ToolFailure(kind, f"Tool {tool!r} failed: {reason}")


def _refused(server: str, refusal: MCPError) -> str:
    return f"server {server!r} answered with an error: {bounded(redact(refusal.message), _MAX_ERROR)}"


def _broken(server: str, exc: Exception) -> str:
    text = bounded(redact(describe(exc)), _MAX_ERROR)
    return f"server {server!r} answered with something that breaks the protocol: {text}"
