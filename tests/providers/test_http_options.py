"""The connection options of an application take effect on real sockets: proxies, limits, timeouts, TLS."""

import sys
from contextlib import aclosing
from typing import Any

import anyio
import httpx
import pytest

from seqoria_runtime.models import ChatChunk, UserMessage
from seqoria_runtime.models.errors import (
    MissingExtraError,
    ProviderConnectionError,
    ProviderTimeoutError,
)
from seqoria_runtime.providers import (
    AsyncOpenAICompatibleProvider,
    HTTPOptions,
    ModelRequest,
    ProviderEvent,
)
from tests.support.chat_sockets import HEAD, Served, Server, answers, chunk, one_event_then_silence, serving
from tests.support.chat_wire import delta, sse

REQUEST = ModelRequest([UserMessage(content="hi")])
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def provider(base_url: str, *, timeout: float | None = None, **options: Any) -> AsyncOpenAICompatibleProvider:
    own = HTTPOptions(**options)
    return AsyncOpenAICompatibleProvider(
        "m", base_url=base_url, api_key="k", http_client=own, timeout=timeout
    )


async def collect(one: AsyncOpenAICompatibleProvider) -> list[ProviderEvent]:
    return [event async for event in one.stream(REQUEST)]


def authority(server: Server) -> str:
    return server.url.split("/")[2]


@pytest.mark.real_time
async def test_a_request_goes_through_the_proxy_with_the_proxys_credentials() -> None:
    with anyio.fail_after(20):
        async with serving(answers) as proxy:
            url = f"http://user:s3cret@{authority(proxy)}"
            async with provider("http://model.example/v1", proxy=url) as one:
                await collect(one)
    [head] = proxy.connections[0].heads
    assert head.startswith("POST http://model.example/v1/chat/completions HTTP/1.1")
    assert "proxy-authorization: basic dxnlcjpzm2nyzxq=" in head.lower()


@pytest.mark.real_time
async def test_a_proxy_of_the_environment_is_used_unless_it_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with anyio.fail_after(20):
        async with serving(answers) as proxy, serving(answers) as server:
            monkeypatch.setenv("http_proxy", f"http://{authority(proxy)}")
            for trusted in (True, False):
                async with provider(server.url, trust_env=trusted) as one:
                    await collect(one)
            assert (len(proxy.connections), len(server.connections)) == (1, 1)


@pytest.mark.clause("C96")
@pytest.mark.real_time
async def test_a_proxy_that_refuses_is_a_connection_error_without_its_password() -> None:
    async def refuses(served: Served) -> None:
        await served.next_request()
        await served.stream.send(b"HTTP/1.1 407 Who are you\r\ncontent-length: 0\r\n\r\n")
        await served.until_dropped()

    with anyio.fail_after(20):
        async with serving(refuses) as proxy:
            url = f"http://user:s3cret@{authority(proxy)}"
            async with provider("https://model.example/v1", proxy=url) as one:
                with pytest.raises(ProviderConnectionError, match=r"407.*\(model\.example:443\)") as caught:
                    await collect(one)
            assert proxy.connections[0].heads[0].startswith("CONNECT model.example:443 HTTP/1.1")
            await proxy.wait_until_dropped()
    assert "s3cret" not in str(caught.value)


@pytest.mark.real_time
async def test_of_too_many_streams_the_last_waits_for_a_connection_only_so_long() -> None:
    with anyio.fail_after(20):
        async with (
            serving(one_event_then_silence) as server,
            provider(server.url, max_connections=1, pool_timeout=0.1) as one,
        ):
            async with aclosing(one.stream(REQUEST)) as events:
                await anext(events)
                with pytest.raises(ProviderTimeoutError, match=r"waiting for one of .*'max_connections'"):
                    await collect(one)
            server.script = answers
            assert len(await collect(one)) == 2


@pytest.mark.real_time
async def test_a_connection_that_is_not_made_in_time_is_given_up_and_leaves_no_socket() -> None:
    async def accepts_and_is_silent(served: Served) -> None:
        await served.until_dropped()

    with anyio.fail_after(20):
        async with serving(accepts_and_is_silent) as server:
            base_url = server.url.replace("http:", "https:")
            async with provider(base_url, connect_timeout=0.1) as one:
                with pytest.raises(ProviderTimeoutError, match=r"connecting to 127\.0\.0\.1:"):
                    await collect(one)
                await server.wait_until_dropped()


@pytest.mark.clause("C31")
@pytest.mark.real_time
async def test_a_cancelled_handshake_leaves_no_socket() -> None:
    shook = anyio.Event()

    async def begins_to_shake_hands(served: Served) -> None:
        await served.stream.receive()
        shook.set()
        await served.until_dropped()

    async def cancel(scope: anyio.CancelScope) -> None:
        await shook.wait()
        scope.cancel()

    with anyio.fail_after(20):
        async with (
            serving(begins_to_shake_hands) as server,
            provider(server.url.replace("http:", "https:")) as one,
        ):
            async with anyio.create_task_group() as group:
                group.start_soon(cancel, group.cancel_scope)
                await collect(one)
            await server.wait_until_dropped()


@pytest.mark.real_time
async def test_silence_in_the_middle_of_an_answer_ends_by_the_read_timeout() -> None:
    with anyio.fail_after(20):
        async with serving(one_event_then_silence) as server, provider(server.url, timeout=0.1) as one:
            async with aclosing(one.stream(REQUEST)) as events:
                assert await anext(events) == ChatChunk(content="a")
                with pytest.raises(ProviderTimeoutError, match=r"^Request timed out$"):
                    await anext(events)
            await server.wait_until_dropped()


@pytest.mark.real_time
async def test_the_total_time_of_an_answer_is_the_applications_own_scope() -> None:
    async def never_ends(served: Served) -> None:
        await served.next_request()
        await served.stream.send(HEAD)
        while True:
            await served.stream.send(chunk(sse(delta(content="a"), done=False)))
            await anyio.sleep(0.01)

    with anyio.fail_after(20):
        async with serving(never_ends) as server, provider(server.url) as one:
            with anyio.move_on_after(0.2) as scope:
                async with aclosing(one.stream(REQUEST)) as events:
                    async for _ in events:
                        pass
            assert scope.cancelled_caught
            await server.wait_until_dropped()


@pytest.mark.real_time
async def test_an_idle_connection_is_not_used_again_after_its_expiry() -> None:
    with anyio.fail_after(20):
        async with serving(answers) as server, provider(server.url, keepalive_expiry=0.0) as one:
            for _ in range(2):
                await collect(one)
                await anyio.sleep(0.01)
            assert len(server.connections) == 2


@pytest.mark.real_time
async def test_headers_go_with_each_request_and_beat_those_of_the_provider() -> None:
    with anyio.fail_after(20):
        async with serving(answers) as server:
            one = AsyncOpenAICompatibleProvider(
                "m", base_url=server.url, api_key="k", headers={"X-Team": "blue", "Authorization": "Token t"}
            )
            async with one:
                await collect(one)
            heads = server.connections[0].heads
    lines = heads[0].lower().split("\r\n")
    assert "x-team: blue" in lines
    assert [line for line in lines if line.startswith("authorization")] == ["authorization: token t"]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"proxy": "host:3128"}, ValueError, "'proxy' must be a URL such as 'http://host:3128'"),
        ({"proxy": "ftp://host"}, ValueError, "'proxy' must be a URL"),
        ({"proxy": "http://"}, ValueError, "'proxy' must be a URL"),
        ({"proxy": 5}, ValueError, "'proxy' must be a URL such as 'http://host:3128', not 'int'"),
        ({"http2": "yes"}, TypeError, "'http2' must be True or False"),
        ({"trust_env": 1}, TypeError, "'trust_env' must be True or False"),
        ({"verify": "/etc/ca.pem"}, TypeError, r"'verify' must be an ssl\.SSLContext, True or False"),
        ({"connect_timeout": float("inf")}, ValueError, "'connect_timeout' must be a positive"),
        ({"max_keepalive_connections": True}, ValueError, "'max_keepalive_connections' must be"),
    ],
)
def test_a_bad_option_is_refused_by_name(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        HTTPOptions(**options)


@pytest.mark.clause("C96")
def test_a_bad_proxy_is_named_without_its_password() -> None:
    with pytest.raises(ValueError, match="'proxy'") as caught:
        HTTPOptions(proxy="htp://user:s3cret@host:3128")
    assert "s3cret" not in str(caught.value)


def test_a_socks_proxy_without_its_package_is_an_error_that_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)
    with pytest.raises(MissingExtraError, match=r"SOCKS proxies need an extra: .*\[socks\]"):
        HTTPOptions(proxy="socks5://localhost:1080")


async def test_the_options_reach_the_connections() -> None:
    from seqoria_runtime.providers._http.connection import ConnectionSettings
    from seqoria_runtime.providers._http.endpoint import Service, api_endpoint

    place = api_endpoint("http://localhost:1", service=Service(name="x"), api_key=None, headers=None)
    options = HTTPOptions(connect_timeout=1.0, write_timeout=2.0, pool_timeout=3.0)
    async with ConnectionSettings(endpoint=place, options=options, read_timeout=4.0).new_client() as client:
        request = ConnectionSettings(endpoint=place, options=options, read_timeout=4.0).request(
            client, "/x", b""
        )
        assert client.timeout == httpx.Timeout(None, connect=1.0, write=2.0, pool=3.0)
    assert request.extensions["timeout"] == {"connect": 1.0, "read": 4.0, "write": 2.0, "pool": 3.0}
