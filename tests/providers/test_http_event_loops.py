"""One provider on several event loops keeps their connections apart."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio
import pytest

from seqoria_runtime.models import UserMessage
from seqoria_runtime.providers import AsyncOpenAICompatibleProvider, HTTPOptions, ModelRequest
from tests.support.chat_wire import delta, sse

REQUEST = ModelRequest([UserMessage(content="hi")])
ANSWER = sse(delta(content="a"), delta(finish="stop"))
LOOPS: list[tuple[str, dict[str, Any]]] = [("asyncio", {}), ("asyncio", {"use_uvloop": True}), ("trio", {})]

pytestmark = pytest.mark.clause("C6")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving() -> Generator[AsyncOpenAICompatibleProvider, None, None]:
    """A provider of a server that keeps its connections open."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_address[1]}/v1"
            own = HTTPOptions(trust_env=False)
            yield AsyncOpenAICompatibleProvider("m", base_url=url, http_client=own)
        finally:
            server.shutdown()
            thread.join()


async def ask(provider: AsyncOpenAICompatibleProvider) -> int:
    return len([event async for event in provider.stream(REQUEST)])


def test_a_provider_works_under_one_event_loop_after_the_other() -> None:
    async def main() -> list[int]:
        async with provider:
            return [await ask(provider), await ask(provider)]

    with serving() as provider:
        for backend, options in LOOPS * 2:
            assert anyio.run(main, backend=backend, backend_options=options) == [2, 2]


def test_a_provider_works_under_several_event_loops_at_once() -> None:
    meeting = threading.Barrier(len(LOOPS), timeout=20)
    counts: list[int] = []

    async def main(provider: AsyncOpenAICompatibleProvider) -> None:
        for _ in range(3):
            # By turns, so that each loop finds the idle connections of the others.
            meeting.wait()
            counts.append(await ask(provider))
        meeting.wait()
        await provider.aclose()

    with serving() as provider:
        threads = [
            threading.Thread(
                target=partial(anyio.run, main, provider, backend=backend, backend_options=options)
            )
            for backend, options in LOOPS
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert counts == [2] * 9
