"""The HTTP driver over real local connections: none is lost, and each is used again."""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import anyio
import httpx
import pytest

from seqoria_runtime.models import AssistantMessage, ChatChunk, UserMessage
from seqoria_runtime.models.errors import LLMError, ProviderConnectionError, ProviderTimeoutError
from seqoria_runtime.providers import (
    AsyncOpenAICompatibleProvider,
    HTTPOptions,
    ModelRequest,
    ProviderEvent,
)
from tests.support.chat_sockets import HEAD, Served, Server, answers, chunk, one_event_then_silence, serving
from tests.support.chat_wire import delta, sse
from tests.support.wire_formats import Messages, Ollama, Responses
from tests.support.wires import Stream

pytestmark = pytest.mark.real_time

REQUEST = ModelRequest([UserMessage(content="hi")])


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
@pytest.mark.parametrize("form", [Messages, Responses, Ollama], ids=lambda form: form.name)
async def test_ten_abandoned_streams_of_another_format_leave_the_pool_empty(form: type[Stream]) -> None:
    head = HEAD.replace(b"text/event-stream", form.content_type.encode())

    async def begins(served: Served) -> None:
        await served.next_request()
        await served.stream.send(head + chunk(form().start().text("a").data))
        await served.until_dropped()

    async def ends(served: Served) -> None:
        await served.next_request()
        await served.stream.send(head + chunk(form().start().text("a").end().data) + b"0\r\n\r\n")

    few = HTTPOptions(max_connections=2, pool_timeout=1.0, trust_env=False)
    with anyio.fail_after(20):
        async with (
            serving(begins) as server,
            form.provider("m", base_url=server.url, http_client=few) as one,
        ):
            for _ in range(10):
                await break_off(one)
            await server.wait_until_dropped()
            assert len(server.connections) == 10
            server.script = ends
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


async def test_a_connection_is_used_again_after_a_complete_answer() -> None:
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


async def test_an_address_without_a_server_is_a_connection_error() -> None:
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
