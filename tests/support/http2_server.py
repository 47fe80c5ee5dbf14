"""A server of Chat Completions over TLS that speaks HTTP/2 and HTTP/1.1, on either backend."""

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import sniffio
import trustme
from hypercorn.config import Config

from .chat_wire import delta, sse
from .sockets import unused_port

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]


class SecureServer:
    """The requests, and the answers: some deltas, and an end unless the server has to wait."""

    def __init__(self, url: str, trusted: ssl.SSLContext) -> None:
        self.url = url
        self.trusted = trusted
        self.versions: list[str] = []
        self.clients: list[tuple[str, int]] = []
        self.gone = 0
        self.left = anyio.Event()
        self.deltas = 3
        self.ends = True

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        while (await receive()).get("more_body"):
            pass
        self.versions.append(scope["http_version"])
        self.clients.append(tuple(scope["client"]))
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for number in range(self.deltas):
            await self._send(send, sse(delta(content=f"w{number} "), done=False))
        if self.ends:
            await self._send(send, sse(delta(finish="stop")))
            await send({"type": "http.response.body", "body": b""})
            return
        while (await receive())["type"] != "http.disconnect":
            pass
        self.gone += 1
        self.left.set()

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            stage = (await receive())["type"]
            await send({"type": f"{stage}.complete"})
            if stage == "lifespan.shutdown":
                return

    async def _send(self, send: Send, data: bytes) -> None:
        await send({"type": "http.response.body", "body": data, "more_body": True})


@asynccontextmanager
async def serving_securely(folder: Path, protocols: list[str] | None = None) -> AsyncGenerator[SecureServer]:
    """Serve while the context is open, with a new certificate."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    paths = folder / "cert.pem", folder / "key.pem"
    certificate.cert_chain_pems[0].write_to_path(str(paths[0]))
    certificate.private_key_pem.write_to_path(str(paths[1]))
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    config = Config()
    port = unused_port()
    config.bind = [f"127.0.0.1:{port}"]
    config.certfile, config.keyfile = map(str, paths)
    config.alpn_protocols = protocols or ["h2", "http/1.1"]
    config.accesslog = config.errorlog = None
    config.graceful_timeout = 0.1
    server = SecureServer(f"https://127.0.0.1:{port}/v1", trusted)
    if sniffio.current_async_library() == "trio":
        from hypercorn.trio import serve
    else:
        from hypercorn.asyncio import serve  # type: ignore[assignment]
    ended = anyio.Event()

    async def run() -> None:
        await serve(server, config, shutdown_trigger=ended.wait)  # type: ignore[arg-type]

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await _until_open(port)
        try:
            yield server
        finally:
            ended.set()


async def _until_open(port: int) -> None:
    with anyio.fail_after(10):
        while True:
            try:
                await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
            except OSError:
                await anyio.sleep(0.01)
            else:
                return
