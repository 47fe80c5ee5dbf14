"""A hand-written HTTP/1.1 server on 127.0.0.1, in the event loop of the test, that can misbehave."""

import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus

import anyio
from anyio.abc import SocketAttribute, SocketStream

_ENDED = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.IncompleteRead)


@dataclass
class Asked:
    """One request, and the methods to answer it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    stream: SocketStream
    close_after: bool = field(default=False)

    async def respond(self, status: int, body: bytes = b"", **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"content-length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join([*lines, "", ""]).encode() + body)

    async def start_stream(self, content_type: str) -> None:
        """Start a body that lasts until the handler returns."""
        self.close_after = True
        await self.send(
            f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\nconnection: close\r\n\r\n".encode()
        )

    async def send(self, data: bytes) -> None:
        with suppress(*_ENDED):
            await self.stream.send(data)

    async def abort(self) -> None:
        """Reset the connection."""
        self.close_after = True
        raw = self.stream.extra(SocketAttribute.raw_socket)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await self.stream.aclose()


@asynccontextmanager
async def serve_http(
    handle: Callable[[Asked], Awaitable[None]], port: int = 0, *, open_connections: set[object] | None = None
) -> AsyncGenerator[str, None]:
    """Serve while the block runs; yields the origin. All connections end with the block.

    While a connection is open it is in `open_connections`.
    """
    connections = set[object]() if open_connections is None else open_connections

    async def converse(stream: SocketStream) -> None:
        connections.add(stream)
        try:
            await answer_all(stream)
        finally:
            connections.discard(stream)

    async def answer_all(stream: SocketStream) -> None:
        async with stream:
            with suppress(*_ENDED):
                buffer = b""
                while True:
                    asked, buffer = await _read(stream, buffer)
                    buffer += await _answer(handle, asked)
                    if asked.close_after:
                        return

    async with await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port) as listener:
        bound = listener.extra(SocketAttribute.local_port)
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, converse)
            try:
                yield f"http://127.0.0.1:{bound}"
            finally:
                group.cancel_scope.cancel()


async def _answer(handle: Callable[[Asked], Awaitable[None]], asked: Asked) -> bytes:
    """Let the handler answer, or stop it if the client hangs up. Return what was read too early."""
    early = b""

    async def watch() -> None:
        nonlocal early
        with suppress(*_ENDED):
            while True:
                early += await asked.stream.receive()
        asked.close_after = True
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        await handle(asked)
        group.cancel_scope.cancel()
    return early


async def _read(stream: SocketStream, buffer: bytes) -> tuple[Asked, bytes]:
    while b"\r\n\r\n" not in buffer:
        buffer += await stream.receive()
    head, _, rest = buffer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    size = int(headers.get("content-length", 0))
    while len(rest) < size:
        rest += await stream.receive()
    method, path, _ = first.split(" ")
    return Asked(method, path, headers, rest[:size], stream), rest[size:]


def unused_port() -> int:
    """A port that refuses connections."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
