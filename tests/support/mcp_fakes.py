"""Hand-written MCP servers, over streams in this process and over sockets, for tests to script."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from .sockets import Asked, serve_http

Json: TypeAlias = dict[str, Any]
Handler: TypeAlias = Callable[[Json], Awaitable[Json]]
Send: TypeAlias = Callable[[Json], Awaitable[None]]

METHOD_NOT_FOUND = -32601
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
_BROKEN = (anyio.BrokenResourceError, anyio.ClosedResourceError)


def text_result(text: str, **rest: Any) -> Json:
    return {"content": [{"type": "text", "text": text}], **rest}


class FakeServer:
    """What the server answers, over any transport; also a server object for `MCPServerConfig`.

    `asked` has each message, `interrupted` the tools with calls that the client cancelled.
    """

    def __init__(self, name: str = "fake", *, modern: bool = False) -> None:
        self.name = name
        self.modern = modern
        self.tools: list[Json] = []
        self.handlers: dict[str, Handler] = {}
        self.pages: Callable[[str | None], Awaitable[Json]] = self._one_page
        self.asked: list[Json] = []
        self.interrupted: list[str] = []
        self.connections = 0
        self.running: dict[Any, anyio.CancelScope] = {}
        self.peers: list[Send] = []
        self.silent_to: set[str] = set()
        self.refuses: set[str] = set()
        self.capabilities: Json = {"tools": {"listChanged": True}}
        self.listens = False
        """Whether the newer protocol notifies subscribers of changes."""
        self.subscriptions: list[Any] = []
        self.first: dict[str, list[Json]] = {}
        """Outcomes for the first requests of a method, before it is answered in earnest."""
        self.delays: dict[str, list[float]] = {}
        """Seconds before the first answers to a method."""
        self.dies = anyio.Event()

    def tool(self, name: str, handler: Handler | None = None, **definition: Any) -> None:
        """Offer a tool; without a handler it answers with its name."""

        async def say_name(arguments: Json) -> Json:
            return text_result(name)

        self.tools.append({"name": name, "inputSchema": {"type": "object"}, **definition})
        self.handlers[name] = handler or say_name

    def methods(self) -> list[str]:
        return [message["method"] for message in self.asked if "method" in message]

    def calls(self) -> list[str]:
        """The tools that were called, in order."""
        return [message["params"]["name"] for message in self.asked if message.get("method") == "tools/call"]

    async def notify(self, method: str = "notifications/tools/list_changed", **params: Any) -> None:
        for send in tuple(self.peers):
            await send({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})

    def die(self) -> None:
        """End all connections; clients can connect again."""
        dies, self.dies = self.dies, anyio.Event()
        dies.set()

    async def tell_change(self) -> None:
        """Notify clients that the list of tools has changed, as the protocol version says."""
        if not self.modern:
            await self.notify()
        for subscription in self.subscriptions:
            await self.notify(_meta={SUBSCRIPTION_ID: subscription})

    async def _subscribe(self, params: Json) -> None:
        request = self.asked[-1]["id"]
        self.subscriptions.append(request)
        await self.notify(
            "notifications/subscriptions/acknowledged",
            _meta={SUBSCRIPTION_ID: request},
            notifications=params["notifications"],
        )
        await anyio.sleep_forever()

    async def answer(self, message: Json) -> Json | None:
        """Return the answer to a message, or `None` if there is none, as for a cancelled call."""
        self.asked.append(message)
        method, params = message.get("method"), message.get("params") or {}
        if method == "notifications/cancelled" and params["requestId"] in self.running:
            self.running[params["requestId"]].cancel()
        if "id" not in message or method is None:
            return None
        if method in self.silent_to:
            await anyio.sleep_forever()
        with anyio.CancelScope() as scope:
            self.running[message["id"]] = scope
            try:
                return {"jsonrpc": "2.0", "id": message["id"], **await self._outcome(method, params)}
            finally:
                if self.running.get(message["id"]) is scope:
                    del self.running[message["id"]]
        if method == "tools/call":
            self.interrupted.append(params["name"])
        return None

    async def _outcome(self, method: str, params: Json) -> Json:
        if self.delays.get(method):
            await anyio.sleep(self.delays[method].pop(0))
        if self.first.get(method):
            return self.first[method].pop(0)
        capabilities = self.capabilities
        if self.modern and not self.listens:
            capabilities = {"tools": {}}
        info = {"name": self.name, "version": "1"}
        if method == "initialize":
            self.connections += 1
            return {
                "result": {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
            }
        if method == "server/discover" and self.modern:
            self.connections += 1
            return {
                "result": {
                    "resultType": "complete",
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": capabilities,
                    "ttlMs": 0,
                    "cacheScope": "public",
                }
            }
        if method in self.refuses:
            return {"error": {"code": METHOD_NOT_FOUND, "message": f"no {method}"}}
        if method == "subscriptions/listen" and self.listens:
            await self._subscribe(params)
        if method == "tools/list":
            return {"result": await self.pages(params.get("cursor"))}
        if method == "tools/call" and params["name"] in self.handlers:
            outcome = await self.handlers[params["name"]](params.get("arguments") or {})
            return outcome if "error" in outcome else {"result": {"resultType": "complete", **outcome}}
        return {"error": {"code": METHOD_NOT_FOUND, "message": f"no {method}"}}

    async def _one_page(self, cursor: str | None) -> Json:
        return {"resultType": "complete", "ttlMs": 0, "cacheScope": "public", "tools": self.tools}

    def create_initialization_options(self) -> None:
        """For the client, which passes the result to `run`."""

    async def run(self, read_stream: Any, write_stream: Any, options: None) -> None:
        """Serve over streams of the SDK until `dies` is set."""

        async def send(message: Json) -> None:
            with suppress(*_BROKEN):
                parsed = jsonrpc_message_adapter.validate_python(message)
                await write_stream.send(SessionMessage(parsed))

        async def reply(message: Json) -> None:
            if (answer := await self.answer(message)) is not None:
                await send(answer)

        async def read() -> None:
            async for item in read_stream:
                message = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
                group.start_soon(reply, message)
            group.cancel_scope.cancel()

        self.peers.append(send)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(read)
                await self.dies.wait()
                group.cancel_scope.cancel()
        finally:
            self.peers.remove(send)


class HTTPFake(FakeServer):
    """A server over Streamable HTTP at `/mcp`, and over HTTP+SSE at `/sse`.

    `on_post(asked, message)` may answer a POST itself, and then returns true. With `sessions`, a session
    starts at `initialize`, and one that is no longer in `sessions` gets `unknown_session`.
    """

    def __init__(self, name: str = "fake", *, modern: bool = False, sessions: bool = True) -> None:
        super().__init__(name, modern=modern)
        self.url = ""
        self.on_post: Callable[[Asked, Json], Awaitable[bool]] | None = None
        self.with_sessions = sessions
        self.sessions: set[str] = set()
        self.session_of_call: list[str | None] = []
        self.unknown_session = 404
        self.headers_of: list[tuple[str, dict[str, str]]] = []
        self.ended_sessions: list[str] = []
        self.open_connections: set[object] = set()

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncGenerator["HTTPFake", None]:
        """Serve until the block is left."""
        async with (
            serve_http(self.handle, port, open_connections=self.open_connections) as origin,
            anyio.create_task_group() as self.background,
        ):
            self.url = f"{origin}/mcp"
            self.sse_url = f"{origin}/sse"
            try:
                yield self
            finally:
                self.background.cancel_scope.cancel()

    async def handle(self, asked: Asked) -> None:
        if asked.method == "GET" and asked.path == "/sse":
            await self._stream(asked)
        elif asked.method == "DELETE":
            self.ended_sessions.append(asked.headers["mcp-session-id"])
            await asked.respond(200)
        elif asked.method == "GET":
            await self._push(asked)
        else:
            await self._post(asked, json.loads(asked.body))

    async def _post(self, asked: Asked, message: Json) -> None:
        self.headers_of.append((message.get("method", ""), asked.headers))
        if self.on_post is not None and await self.on_post(asked, message):
            return
        session = asked.headers.get("mcp-session-id")
        if message.get("method") == "tools/call":
            self.session_of_call.append(session)
        if session is not None and session not in self.sessions:
            await asked.respond(self.unknown_session, b"no such session")
            return
        if asked.path.startswith("/messages"):
            await asked.respond(202)
            self.background.start_soon(self._push_answer, message, int(asked.path.rpartition("/")[2]))
            return
        answer = await self.answer(message)
        if answer is None:
            await asked.respond(202)
            return
        await asked.respond(200, json.dumps(answer).encode(), **self._headers(message))

    def _headers(self, message: Json) -> dict[str, str]:
        headers = {"content-type": "application/json"}
        if message["method"] == "initialize" and self.with_sessions:
            session = f"s{self.connections}"
            self.sessions.add(session)
            headers["mcp-session-id"] = session
        return headers

    async def _push_answer(self, message: Json, place: int) -> None:
        answer = await self.answer(message)
        if answer is not None:
            await self.peers[place](answer)

    async def _push(self, asked: Asked) -> None:
        """The stream for messages that the server starts."""
        await asked.start_stream("text/event-stream")

        async def send(message: Json) -> None:
            await asked.send(f"event: message\ndata: {json.dumps(message)}\n\n".encode())

        self.peers.append(send)
        try:
            await self.dies.wait()
        finally:
            self.peers.remove(send)

    async def _stream(self, asked: Asked) -> None:
        await asked.start_stream("text/event-stream")

        async def send(message: Json) -> None:
            await asked.send(f"event: message\ndata: {json.dumps(message)}\n\n".encode())

        self.peers.append(send)
        place = len(self.peers) - 1
        await asked.send(f"event: endpoint\ndata: /messages/{place}\n\n".encode())
        await self.dies.wait()
