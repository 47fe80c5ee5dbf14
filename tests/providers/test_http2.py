"""HTTP/2 as an option, with a real server over TLS: streams share a connection, and none is left open."""

import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from seqoria_runtime.models import AssistantMessage, ChatChunk, UserMessage
from seqoria_runtime.models.errors import MissingExtraError, ProviderConnectionError
from seqoria_runtime.providers import (
    AsyncOpenAICompatibleProvider,
    HTTPOptions,
    ModelRequest,
    ProviderEvent,
)
from tests.support.http2_server import SecureServer, serving_securely

REQUEST = ModelRequest([UserMessage(content="hi")])


def provider(server: SecureServer, **options: Any) -> AsyncOpenAICompatibleProvider:
    chosen: dict[str, Any] = {"http2": True, "verify": server.trusted, "trust_env": False} | options
    return AsyncOpenAICompatibleProvider(
        "m", base_url=server.url, api_key="k", http_client=HTTPOptions(**chosen)
    )


async def collect(one: AsyncOpenAICompatibleProvider) -> list[ProviderEvent]:
    return [event async for event in one.stream(REQUEST)]


@pytest.mark.real_time
async def test_streams_of_one_provider_share_a_connection_over_http2(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        async with serving_securely(tmp_path) as server, provider(server) as one:
            await collect(one)
            async with anyio.create_task_group() as group:
                for _ in range(10):
                    group.start_soon(collect, one)
            events = await collect(one)
            assert [event.content for event in events if isinstance(event, ChatChunk)] == [
                "w0 ",
                "w1 ",
                "w2 ",
            ]
            assert isinstance(await one.generate(REQUEST), AssistantMessage)
    assert server.versions == ["2"] * 13
    assert len(set(server.clients)) == 1


@pytest.mark.real_time
async def test_a_server_without_http2_is_asked_over_http1(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        async with serving_securely(tmp_path, ["http/1.1"]) as server, provider(server) as one:
            await collect(one)
    assert server.versions == ["1.1"]


@pytest.mark.real_time
async def test_without_the_option_http2_is_not_asked_for(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        async with serving_securely(tmp_path) as server, provider(server, http2=False) as one:
            await collect(one)
    assert server.versions == ["1.1"]


@pytest.mark.case("A4")
@pytest.mark.clause("C31")
@pytest.mark.real_time
async def test_the_server_learns_at_once_of_ten_abandoned_streams(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        async with serving_securely(tmp_path) as server, provider(server) as one:
            server.ends = False
            for number in range(10):
                async with aclosing(one.stream(REQUEST)) as events:
                    await anext(events)
                await server.left.wait()
                server.left = anyio.Event()
                assert server.gone == number + 1
            server.ends = True
            assert len(await collect(one)) == 4


@pytest.mark.clause("C31")
@pytest.mark.real_time
async def test_an_abandoned_stream_disturbs_none_that_shares_its_connection(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        async with serving_securely(tmp_path) as server, provider(server) as one:
            server.ends = False
            async with aclosing(one.stream(REQUEST)) as kept:
                await anext(kept)
                async with aclosing(one.stream(REQUEST)) as dropped:
                    await anext(dropped)
                assert [await anext(kept), await anext(kept)] == [
                    ChatChunk(content="w1 "),
                    ChatChunk(content="w2 "),
                ]
                server.ends = True
                assert len(await collect(one)) == 4
                assert server.gone == 0
            while server.gone < 2:
                await server.left.wait()
                server.left = anyio.Event()
            assert len(set(server.clients)) == 2


@pytest.mark.real_time
async def test_a_cancellation_at_any_moment_before_the_answer_leaves_the_next_request_in_order(
    tmp_path: Path,
) -> None:
    with anyio.fail_after(30):
        async with serving_securely(tmp_path) as server, provider(server) as one:
            for turns in range(0, 24, 2):
                async with anyio.create_task_group() as group:
                    group.start_soon(_cancel, group.cancel_scope, turns)
                    await one.generate(REQUEST)
                assert len(await collect(one)) == 4


async def _cancel(scope: anyio.CancelScope, turns: int) -> None:
    for _ in range(turns):
        await anyio.lowlevel.checkpoint()
    scope.cancel()


@pytest.mark.real_time
async def test_the_applications_own_client_may_speak_http2(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        async with (
            serving_securely(tmp_path) as server,
            httpx.AsyncClient(http2=True, verify=server.trusted, trust_env=False) as client,
        ):
            one = AsyncOpenAICompatibleProvider("m", base_url=server.url, api_key="k", http_client=client)
            await collect(one)
            async with aclosing(one.stream(REQUEST)) as events:
                await anext(events)
            await collect(one)
            assert not client.is_closed
    assert set(server.versions) == {"2"}


@pytest.mark.real_time
async def test_a_certificate_that_nobody_vouches_for_is_a_connection_error(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        async with serving_securely(tmp_path) as server:
            async with provider(server, verify=True) as one:
                with pytest.raises(ProviderConnectionError, match=r"certificate.*127\.0\.0\.1:"):
                    await collect(one)
            async with provider(server, verify=False) as one:
                await collect(one)


def test_http2_without_its_package_is_an_error_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h2", None)
    with pytest.raises(MissingExtraError, match=r"HTTP/2 need an extra: .*seqoria-runtime\[http2\]"):
        HTTPOptions(http2=True)
    HTTPOptions()
