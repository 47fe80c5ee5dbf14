"""Servers of Chat Completions over bare sockets, each connection played by a script."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import SocketStream

from .chat_wire import delta, sse

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
ANSWER = sse(delta(content="a"), delta(finish="stop"))
Script = Callable[["Served"], Awaitable[None]]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Served:
    """One connection as the server sees it."""

    def __init__(self, stream: SocketStream) -> None:
        self.stream = stream
        self.heads: list[str] = []
        self.dropped = anyio.Event()

    @property
    def requests(self) -> int:
        return len(self.heads)

    async def next_request(self) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += await self.stream.receive()
        headers, _, body = head.partition(b"\r\n\r\n")
        self.heads.append(headers.decode())
        lengths = [
            line.split(b":")[1]
            for line in headers.lower().split(b"\r\n")
            if line.startswith(b"content-length")
        ]
        while lengths and len(body) < int(lengths[0]):
            body += await self.stream.receive()

    async def until_dropped(self) -> None:
        try:
            while True:
                await self.stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            self.dropped.set()


async def one_event_then_silence(served: Served) -> None:
    await served.next_request()
    await served.stream.send(HEAD + chunk(sse(delta(content="a"), done=False)))
    await served.until_dropped()


async def answers(served: Served) -> None:
    while True:
        await served.next_request()
        await served.stream.send(HEAD + chunk(ANSWER) + b"0\r\n\r\n")


class Server:
    def __init__(self, url: str) -> None:
        self.url = url
        self.connections: list[Served] = []
        self.script: Script = answers

    async def wait_until_dropped(self) -> None:
        with anyio.fail_after(5):
            for served in self.connections:
                await served.dropped.wait()


@asynccontextmanager
async def serving(script: Script) -> AsyncGenerator[Server, None]:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        server = Server(f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}/v1")
        server.script = script

        async def serve(stream: SocketStream) -> None:
            async with stream:
                served = Served(stream)
                server.connections.append(served)
                try:
                    await server.script(served)
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    served.dropped.set()

        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, serve)
            try:
                yield server
            finally:
                group.cancel_scope.cancel()
