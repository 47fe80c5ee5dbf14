"""Compare the CPU time of a delta through `stream_chat` with httpx and an SDK on the same local server.

A server in another process sends Chat Completions chunks over loopback, each in its own HTTP chunk.
The readers take turns at the same stream in one process, after one reading to warm up; the ratio is
to httpx's iteration over lines. Other work on the machine adds to every figure and
takes nothing from it, so the best of the repetitions counts; the medians say how noisy it was. The
`openai` package is measured on asyncio, if it is installed.

    python benchmarks/streamed_deltas.py [--backend asyncio|uvloop|trio] [--deltas 20000]
        [--repetitions 7] [--json FILE]
"""

import argparse
import importlib.util
import json
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.models import UserMessage
from seqoria_runtime.providers import AsyncOpenAICompatibleProvider, ModelRequest

Reader = Callable[[], Awaitable[int]]


def serve(deltas: int) -> None:
    """Answer every request with the same stream, until the process is killed."""
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunks = [
        {**base, "choices": [{"index": 0, "delta": {"content": f"word{n} "}, "finish_reason": None}]}
        for n in range(deltas)
    ]
    chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    events = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks] + [b"data: [DONE]\n\n"]
    body = [b"%x\r\n%b\r\n" % (len(event), event) for event in events] + [b"0\r\n\r\n"]
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_answer, args=(connection, body), daemon=True).start()


def _answer(connection: socket.socket, body: list[bytes]) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        while _read_request(connection):
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            for chunk in body:
                connection.sendall(chunk)


def _read_request(connection: socket.socket) -> bool:
    data = b""
    while b"\r\n\r\n" not in data:
        received = connection.recv(65536)
        if not received:
            return False
        data += received
    head, _, rest = data.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    missing = int(length.group(1)) - len(rest) if length else 0
    while missing > 0:
        missing -= len(connection.recv(65536))
    return True


@contextmanager
def server(deltas: int) -> Generator[str]:
    command = [sys.executable, __file__, "--serve", str(deltas)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        finally:
            process.kill()


async def compare(url: str, deltas: int, repetitions: int, with_sdk: bool) -> dict[str, list[float]]:
    """Return the microseconds of CPU per delta by reader, one for each repetition."""
    samples: dict[str, list[float]] = {}
    async with (
        httpx.AsyncClient() as http,
        AsyncOpenAICompatibleProvider("m", base_url=url) as provider,
        AsyncAIClient([provider], system_prompt="") as client,
    ):

        async def raw_bytes() -> int:
            async with http.stream("POST", f"{url}/chat/completions", json={}) as response:
                return sum([1 async for _ in response.aiter_raw()])

        async def lines() -> int:
            async with http.stream("POST", f"{url}/chat/completions", json={}) as response:
                return sum([1 async for _ in response.aiter_lines()])

        async def provider_stream() -> int:
            request = ModelRequest([UserMessage(content="q")])
            return sum([1 async for _ in provider.stream(request)])

        async def stream_chat() -> int:
            async with client.stream_chat("q", history=[]) as turn:
                return sum([1 async for _ in turn])

        readers: dict[str, Reader] = {
            "httpx raw bytes": raw_bytes,
            "httpx lines": lines,
            "provider.stream": provider_stream,
            "stream_chat": stream_chat,
        }
        if with_sdk:
            readers["openai SDK"] = sdk_reader(url)
        for repetition in range(repetitions + 1):
            for name, read in readers.items():
                started = time.process_time()
                assert await read() >= deltas
                if repetition:
                    samples.setdefault(name, []).append((time.process_time() - started) / deltas * 1e6)
    return samples


def sdk_reader(url: str) -> Reader:
    openai: Any = importlib.import_module("openai")
    sdk = openai.AsyncOpenAI(base_url=url, api_key="none")

    async def read() -> int:
        stream = await sdk.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "q"}], stream=True
        )
        return sum([1 async for _ in stream])

    return read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--backend", choices=["asyncio", "uvloop", "trio"], default="asyncio")
    parser.add_argument("--deltas", type=int, default=20_000)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
    backend = "trio" if options.backend == "trio" else "asyncio"
    with_sdk = backend == "asyncio" and importlib.util.find_spec("openai") is not None
    with server(options.deltas) as url:
        samples = anyio.run(
            compare,
            url,
            options.deltas,
            options.repetitions,
            with_sdk,
            backend=backend,
            backend_options={"use_uvloop": True} if options.backend == "uvloop" else {},
        )
    best = {name: min(values) for name, values in samples.items()}
    middle = {name: statistics.median(values) for name, values in samples.items()}
    print(f"{options.backend}: µs of CPU per delta, and the ratio to httpx's lines")
    print(f"{'':<18} {'best':>8} {'ratio':>6} {'median':>8} {'ratio':>6}")
    for name in samples:
        figures = [(each[name], each[name] / each["httpx lines"]) for each in (best, middle)]
        print(f"{name:<18}" + "".join(f" {cost:>8.2f} {ratio:>6.2f}" for cost, ratio in figures))
    if options.json:
        report = {"backend": options.backend, "best": best, "median": middle}
        options.json.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
