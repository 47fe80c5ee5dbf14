"""The HTTP driver over real connections on this machine: none is lost, and each is used again."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import SocketStream

from seqoria_runtime.models import AssistantMessage, ChatChunk, UserMessage
from seqoria_runtime.models.errors import LLMError, ProviderConnectionError, ProviderTimeoutError
from seqoria_runtime.providers import (
    AsyncOpenAICompatibleProvider,
    HTTPOptions,
    ModelRequest,
    ProviderEvent,
)
from tests.support.chat_wire import delta, sse

pytestmark = pytest.mark.real_time

REQUEST = ModelRequest([UserMessage(content="hi")])
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
ANSWER = sse(delta(content="a"), delta(finish="stop"))
Script = Callable[["Served"], Awaitable[None]]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Served:
    """One connection as the server sees it."""

    def __init__(self, stream: SocketStream) -> None:
        self.stream = stream
        self.requests = 0
        self.dropped = anyio.Event()

    async def next_request(self) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += await self.stream.receive()
        self.requests += 1
        headers, _, body = head.partition(b"\r\n\r\n")
        [length] = [
            line.split(b":")[1]
            for line in headers.lower().split(b"\r\n")
            if line.startswith(b"content-length")
        ]
        while len(body) < int(length):
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


def provider(server: Server, **settings: Any) -> AsyncOpenAICompatibleProvider:
    few = HTTPOptions(max_connections=2, pool_timeout=1.0, trust_env=False)
    usual: dict[str, Any] = {"base_url": server.url, "http_client": few}
    return AsyncOpenAICompatibleProvider("m", **usual | settings)


async def collect(one: AsyncOpenAICompatibleProvider) -> list[ProviderEvent]:
    return [event async for event in one.stream(REQUEST)]


async def break_off(one: AsyncOpenAICompatibleProvider) -> None:
    async with aclosing(one.stream(REQUEST)) as events:
        async for _ in events:
            break


async def raise_in_the_middle(one: AsyncOpenAICompatibleProvider) -> None:
    async def consume() -> None:
        async with aclosing(one.stream(REQUEST)) as events:
            async for _ in events:
                raise KeyError

    with pytest.raises(KeyError):
        await consume()


async def cancel_while_waiting(one: AsyncOpenAICompatibleProvider) -> None:
    async with anyio.create_task_group() as group, aclosing(one.stream(REQUEST)) as events:
        await anext(events)
        group.start_soon(_cancel, group.cancel_scope, 1)
        await anext(events)


async def cancel_twice(one: AsyncOpenAICompatibleProvider) -> None:
    """Cancel, and once more one turn of the scheduler later, while the first is being cleaned up after."""
    with anyio.CancelScope() as outer:
        async with anyio.create_task_group() as group, aclosing(one.stream(REQUEST)) as events:
            await anext(events)
            group.start_soon(_cancel_both, group.cancel_scope, outer)
            await anext(events)


async def _cancel(scope: anyio.CancelScope, turns: int) -> None:
    for _ in range(turns):
        await anyio.lowlevel.checkpoint()
    scope.cancel()


async def _cancel_both(inner: anyio.CancelScope, outer: anyio.CancelScope) -> None:
    inner.cancel()
    with anyio.CancelScope(shield=True):
        await anyio.lowlevel.checkpoint()
        outer.cancel()


@pytest.mark.case("A4")
@pytest.mark.clause("C31")
@pytest.mark.parametrize("leave", [break_off, raise_in_the_middle, cancel_while_waiting, cancel_twice])
async def test_ten_abandoned_streams_leave_the_pool_empty(
    leave: Callable[[AsyncOpenAICompatibleProvider], Awaitable[None]],
) -> None:
    with anyio.fail_after(20):
        async with serving(one_event_then_silence) as server, provider(server) as one:
            for _ in range(10):
                await leave(one)
            await server.wait_until_dropped()
            assert len(server.connections) == 10
            server.script = answers
            assert len(await collect(one)) == 2


@pytest.mark.case("A4")
@pytest.mark.clause("C31")
async def test_streams_whose_tasks_are_cancelled_from_outside_leave_the_pool_empty(
    anyio_backend_name: str,
) -> None:
    if anyio_backend_name != "asyncio":
        pytest.skip("only asyncio's tasks can be cancelled from outside")
    import asyncio

    async def consume(one: AsyncOpenAICompatibleProvider, begun: anyio.Event) -> None:
        async with aclosing(one.stream(REQUEST)) as events:
            await anext(events)
            begun.set()
            await anext(events)

    with anyio.fail_after(20):
        async with serving(one_event_then_silence) as server, provider(server) as one:
            for _ in range(10):
                begun = anyio.Event()
                task = asyncio.create_task(consume(one, begun))
                await begun.wait()
                task.cancel()
                await asyncio.wait([task])
                assert task.cancelled()
            await server.wait_until_dropped()
            server.script = answers
            assert len(await collect(one)) == 2


@pytest.mark.case("A4")
@pytest.mark.parametrize("turns", range(12))
async def test_a_cancellation_at_any_moment_before_the_answer_leaves_the_pool_empty(turns: int) -> None:
    async def never(served: Served) -> None:
        await served.next_request()
        await served.until_dropped()

    with anyio.fail_after(20):
        async with serving(never) as server, provider(server) as one:
            for _ in range(3):
                async with anyio.create_task_group() as group:
                    group.start_soon(_cancel, group.cancel_scope, turns)
                    await one.generate(REQUEST)
            server.script = answers
            assert isinstance(await one.generate(REQUEST), AssistantMessage)


async def test_a_connection_is_used_again_after_a_whole_answer() -> None:
    with anyio.fail_after(20):
        async with serving(answers) as server, provider(server) as one:
            for _ in range(3):
                await collect(one)
                await one.generate(REQUEST)
            assert [served.requests for served in server.connections] == [6]


@pytest.mark.clause("C95")
async def test_a_socket_that_is_closed_in_the_middle_is_an_error() -> None:
    async def breaks(served: Served) -> None:
        await served.next_request()
        await served.stream.send(HEAD + chunk(sse(delta(content="a"), done=False)))

    with anyio.fail_after(20):
        async with serving(breaks) as server, provider(server, name="here") as one:
            async with aclosing(one.stream(REQUEST)) as events:
                assert await anext(events) == ChatChunk(content="a")
                with pytest.raises(ProviderConnectionError, match="without sending complete") as caught:
                    await anext(events)
            assert caught.value.provider == "here"


async def test_nobody_at_the_address_is_a_connection_error() -> None:
    async with serving(answers) as server:
        pass
    async with provider(server) as one:
        with pytest.raises(ProviderConnectionError):
            await collect(one)


@pytest.mark.case("E2")
async def test_keep_alives_count_as_life_and_silence_does_not() -> None:
    alive = anyio.Event()

    async def keeps_alive(served: Served) -> None:
        await served.next_request()
        await served.stream.send(HEAD)
        for _ in range(6):
            await anyio.sleep(0.1)
            await served.stream.send(chunk(b": still here\n\n"))
        alive.set()
        await served.until_dropped()

    with anyio.fail_after(20):
        async with serving(keeps_alive) as server, provider(server, timeout=0.4) as one:
            with pytest.raises(ProviderTimeoutError, match=r"^Request timed out$"):
                await collect(one)
            assert alive.is_set()
            await server.wait_until_dropped()


async def test_closing_the_provider_ends_its_open_streams_with_an_error() -> None:
    with anyio.fail_after(20):
        async with serving(one_event_then_silence) as server, provider(server) as one:
            async with aclosing(one.stream(REQUEST)) as events:
                await anext(events)
                await one.aclose()
                with pytest.raises(LLMError):
                    await anext(events)
            await server.wait_until_dropped()


async def test_closing_the_provider_closes_its_idle_connections() -> None:
    async with serving(answers) as server, provider(server) as one:
        await collect(one)
        await one.aclose()
        await server.wait_until_dropped()


async def test_the_applications_client_serves_several_providers_and_stays_open() -> None:
    with anyio.fail_after(20):
        async with serving(answers) as server, httpx.AsyncClient(trust_env=False) as client:
            for _ in range(2):
                async with provider(server, http_client=client) as one:
                    await collect(one)
            assert len(server.connections) == 1
            assert not client.is_closed
