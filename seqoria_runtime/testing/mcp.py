"""Scripted MCP servers in this process, in virtual time, too (extra `mcp`).

A client talks to one over the SDK's own streams and with the whole protocol, but without sockets.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import anyio
from anyio import CancelScope

from seqoria_runtime.mcp import MCPServerConfig
from seqoria_runtime.mcp._config.server_config import require_sdk
from seqoria_runtime.toolbox import LocalToolbox

from ._mcp_tools import MCPRefusal, RawResult, ServedTools, ServerDeath, report_progress, reporter
from ._tools.dag import FaultPlan

__all__ = ["MCPRefusal", "RawResult", "ScriptedMCPServer", "ServedCall", "ServerDeath", "report_progress"]

Json: TypeAlias = dict[str, Any]
Protocol: TypeAlias = Literal["2025-11-25", "2026-07-28"]

_PROTOCOLS = ("2025-11-25", "2026-07-28")
_METHOD_NOT_FOUND = -32601
_SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)


@dataclass(slots=True)
class ServedCall:
    """A call that reached a server. `state` is "running", "answered", "cancelled" or "lost"."""

    name: str
    arguments: Mapping[str, Any]
    began: float
    state: str = "running"


class ScriptedMCPServer:
    """A server that offers the tools of a toolbox. Pass `server.config()` to a client.

    The tools' functions decide what it answers: what they return becomes a text (or is a `RawResult`),
    an exception a result with `isError`, an `MCPRefusal` a protocol error, and a `ServerDeath` ends the
    server in the middle of the call. `faults` does the same for single calls, counted over the server's
    whole life. `protocol` is the version that it speaks. Raises `MissingExtraError` without the SDK.

    A test may change at any time: `down`, which refuses connections; `delays`, the seconds before a
    method such as "tools/list" is answered; and `answers`, functions from parameters to results for
    other methods, such as "resources/list". It may read: `calls`, `methods` (all requests, in order),
    `toolbox` (see `offer`), and `connections`, the number of open ones.
    """

    def __init__(
        self,
        name: str,
        toolbox: LocalToolbox | None = None,
        *,
        faults: FaultPlan | None = None,
        protocol: Protocol = "2026-07-28",
    ) -> None:
        require_sdk()
        if protocol not in _PROTOCOLS:
            raise ValueError(f"'protocol' must be one of {', '.join(_PROTOCOLS)}, not {protocol!r}")
        self.name = name
        self.protocol = protocol
        self.faults: FaultPlan = faults or FaultPlan()
        self.down = False
        self.delays: dict[str, float] = {}
        self.answers: dict[str, Callable[[Json], Json | Awaitable[Json]]] = {}
        self.calls: list[ServedCall] = []
        self.methods: list[str] = []
        self._open: list[_ServedConnection] = []
        self.toolbox: LocalToolbox = LocalToolbox() if toolbox is None else toolbox
        self._tools = ServedTools(self.toolbox, self.faults)

    @property
    def connections(self) -> int:
        return len(self._open)

    def config(self, **options: Any) -> MCPServerConfig:
        """Return an item for a client's `mcp_servers`, with `options` of `MCPServerConfig`."""
        return MCPServerConfig(server=self, **{"name": self.name, **options})

    async def offer(self, toolbox: LocalToolbox) -> None:
        """Offer other tools from now on, and notify the connected clients as the protocol says.

        A cancelled caller may have notified only some of them.
        """
        self._tools.use(toolbox)
        self.toolbox = toolbox
        for connection in tuple(self._open):
            await connection.notify_of_change()

    def die(self) -> None:
        """End all connections at once. Clients can connect again, unless the server is `down`."""
        for connection in self._open:
            connection.scope.cancel("the server dies")

    def create_initialization_options(self) -> None:
        """For the client, which calls it as for the SDK's servers."""

    async def run(self, read_stream: Any, write_stream: Any, options: None) -> None:
        """Serve one connection until the client leaves. For the client; cancelling it ends the connection."""
        if self.down:
            return
        connection = _ServedConnection(self, write_stream)
        self._open.append(connection)
        try:
            await connection.serve(read_stream)
        finally:
            self._open.remove(connection)

    async def answer(self, method: str, params: Json, subscribe: Callable[[], Awaitable[None]]) -> Json:
        """Return the result of a request, for a connection; `subscribe` waits, and notifies of changes.

        Raises `MCPRefusal` and `ServerDeath`. A cancelled call is recorded as "cancelled".
        """
        await anyio.sleep(self.delays.get(method, 0))
        if method in self.answers:
            found = self.answers[method](params)
            return found if isinstance(found, dict) else await found
        if method == "tools/list":
            return {"tools": self._tools.definitions()}
        if method == "tools/call":
            return await self._call(params)
        if method == ("server/discover" if self._modern else "initialize"):
            return self._introduction()
        if method == "subscriptions/listen" and self._modern:
            await subscribe()
        raise MCPRefusal(_METHOD_NOT_FOUND, f"no {method}")

    @property
    def _modern(self) -> bool:
        return self.protocol != _PROTOCOLS[0]

    def _introduction(self) -> Json:
        capabilities = {"tools": {"listChanged": True}}
        if self._modern:
            return {"supportedVersions": [self.protocol], "capabilities": capabilities}
        info = {"name": self.name, "version": "1"}
        return {"protocolVersion": self.protocol, "capabilities": capabilities, "serverInfo": info}

    async def _call(self, params: Json) -> Json:
        call = ServedCall(params["name"], params.get("arguments") or {}, anyio.current_time())
        self.calls.append(call)
        try:
            result = await self._tools.call(call.name, call.arguments)
        except anyio.get_cancelled_exc_class():
            call.state = "cancelled"
            raise
        except ServerDeath:
            call.state = "lost"
            raise
        except MCPRefusal:
            call.state = "answered"
            raise
        call.state = "answered"
        return result

    def __repr__(self) -> str:
        return f"ScriptedMCPServer({self.name!r}, protocol={self.protocol!r})"


class _ServedConnection:
    """One connection of a server: the requests in progress, and the subscriptions to changes."""

    def __init__(self, server: ScriptedMCPServer, write_stream: Any) -> None:
        self._server = server
        self._stream = write_stream
        self._running: dict[Any, CancelScope] = {}
        self._subscriptions: dict[Any, Any] = {}
        self.scope = CancelScope()

    async def serve(self, read_stream: Any) -> None:
        """Answer until the client leaves or the server dies."""
        with self.scope:
            async with anyio.create_task_group() as group:
                async for item in read_stream:
                    message = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
                    self._take(message, group.start_soon)
                self.scope.cancel("the client has left")

    def _take(self, message: Json, start_soon: Callable[..., object]) -> None:
        method, params = message.get("method"), message.get("params") or {}
        if method is not None and "id" in message:
            self._server.methods.append(method)
            start_soon(self._answer, message["id"], method, params)
        elif method == "notifications/cancelled" and params["requestId"] in self._running:
            self._running[params["requestId"]].cancel("cancelled by the client")

    async def _answer(self, request: Any, method: str, params: Json) -> None:
        with CancelScope() as self._running[request]:
            try:
                async with self._reporting(params):
                    subscribe = partial(self._subscribe, request, params)
                    result = await self._server.answer(method, params, subscribe)
                outcome: Json = {"result": {**_ENVELOPE, **result}}
            except MCPRefusal as refusal:
                outcome = {"error": {"code": refusal.code, "message": str(refusal)}}
            except ServerDeath:
                self._server.die()
                return
            finally:
                del self._running[request]
            await self._send({"id": request, **outcome})

    @asynccontextmanager
    async def _reporting(self, params: Json) -> AsyncGenerator[None]:
        token = (params.get("_meta") or {}).get("progressToken")
        before = reporter.set(None if token is None else partial(self._report, token))
        try:
            yield
        finally:
            reporter.reset(before)

    async def _report(self, token: Any, done: float, total: float | None, message: str | None) -> None:
        progress = {"progressToken": token, "progress": done, "total": total, "message": message}
        params = {key: value for key, value in progress.items() if value is not None}
        await self._send({"method": "notifications/progress", "params": params})

    async def _subscribe(self, request: Any, params: Json) -> None:
        about = {"_meta": {_SUBSCRIPTION_ID: request}}
        acknowledged = {**about, "notifications": params["notifications"]}
        await self._send({"method": "notifications/subscriptions/acknowledged", "params": acknowledged})
        self._subscriptions[request] = about
        try:
            await anyio.sleep_forever()
        finally:
            del self._subscriptions[request]

    async def notify_of_change(self) -> None:
        """Notify the client that the list of tools has changed."""
        subscribed = [{"params": about} for about in self._subscriptions.values()]
        for rest in subscribed if self._server.protocol != _PROTOCOLS[0] else [{}]:
            await self._send({"method": "notifications/tools/list_changed", **rest})

    async def _send(self, message: Json) -> None:
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        with suppress(*_GONE):
            sent = jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **message})
            await self._stream.send(SessionMessage(sent))


_ENVELOPE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
