"""The HTTP driver over in-process transports: what it sends, reads, maps and closes."""

import gzip
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any

import anyio
import httpx
import pytest

from seqoria_runtime.models import AssistantMessage, ChatChunk, UserMessage
from seqoria_runtime.models.errors import (
    AuthenticationError,
    ClientStateError,
    LLMError,
    MaxRetriesExceededError,
    ModelNotFoundError,
    OverloadedError,
    ProviderConnectionError,
    ProviderProtocolError,
    ProviderTimeoutError,
    RateLimitError,
    ServerError,
)
from seqoria_runtime.providers import AsyncOpenAICompatibleProvider, ModelRequest, ProviderEvent
from tests.support.chat_wire import delta, fragment, sse

REQUEST = ModelRequest([UserMessage(content="hi")])
STOP = delta(finish="stop")
ANSWER = sse(delta(content="Hel"), delta(content="lo"), STOP)
SSE = {"content-type": "text/event-stream", "x-request-id": "req_1"}


class Body(httpx.AsyncByteStream):
    """A response's body: bytes are given, exceptions raised, and a number is a silence of so many seconds."""

    def __init__(self, *steps: bytes | Exception | float) -> None:
        self.steps = steps
        self.closed = 0
        self.read = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for step in self.steps:
            self.read += 1
            if isinstance(step, Exception):
                raise step
            if isinstance(step, bytes):
                yield step
            else:
                await anyio.sleep(step)

    async def aclose(self) -> None:
        await anyio.sleep(0.01)
        self.closed += 1


class Server:
    """Answers the n-th request with the n-th response, or fails it; the last one again and again."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = answers
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


def provider(server: Server, **settings: Any) -> AsyncOpenAICompatibleProvider:
    client = httpx.AsyncClient(transport=httpx.MockTransport(server))
    usual: dict[str, Any] = {"base_url": "http://localhost/v1", "http_client": client, "name": "here"}
    return AsyncOpenAICompatibleProvider("m", **usual | settings)


def streaming(*steps: bytes | Exception | float, **headers: str) -> tuple[Server, Body]:
    body = Body(*steps)
    return Server(httpx.Response(200, headers=SSE | headers, stream=body)), body


async def collect(server: Server, **settings: Any) -> list[ProviderEvent]:
    return [event async for event in provider(server, **settings).stream(REQUEST)]


async def failure(server: Server, **settings: Any) -> LLMError:
    with pytest.raises(LLMError) as caught:
        await collect(server, **settings)
    return caught.value


async def test_a_stream_yields_its_chunks_and_then_the_response() -> None:
    server, body = streaming(ANSWER)
    first, second, last = await collect(server)
    assert (first, second) == (ChatChunk(content="Hel"), ChatChunk(content="lo"))
    assert isinstance(last, AssistantMessage)
    assert last.content == "Hello"
    assert body.closed


async def test_a_request_has_a_content_type_and_asks_for_no_compression() -> None:
    server, _ = streaming(ANSWER)
    await collect(server, headers={"X-Team": "blue"})
    headers = server.requests[0].headers
    assert headers["content-type"] == "application/json"
    assert headers["accept-encoding"] == "identity"
    assert headers["x-team"] == "blue"
    assert json.loads(server.requests[0].content)["stream"] is True


@pytest.mark.clause("C36")
async def test_nothing_is_sent_before_the_first_iteration() -> None:
    server, _ = streaming(ANSWER)
    events = provider(server).stream(REQUEST)
    await events.aclose()
    assert server.requests == []


async def test_an_answer_that_is_compressed_unasked_is_decompressed() -> None:
    server, _ = streaming(gzip.compress(ANSWER), **{"content-encoding": "gzip"})
    assert len(await collect(server)) == 3


@pytest.mark.parametrize("encoding", ["gzip", "br"])
async def test_an_answer_that_cannot_be_decompressed_is_malformed(encoding: str) -> None:
    server, body = streaming(ANSWER, **{"content-encoding": encoding})
    error = await failure(server)
    assert isinstance(error, ProviderProtocolError)
    assert "malformed response" in str(error)
    assert error.provider == "here"
    assert body.closed


async def test_a_compressed_error_is_decompressed_too() -> None:
    packed = gzip.compress(b'{"error":{"message":"busy"}}')
    answer = httpx.Response(503, headers={"content-encoding": "gzip"}, stream=Body(packed))
    assert str(await failure(Server(answer))) == "busy"


async def test_an_unstreamed_answer_to_a_streamed_request_is_read_as_one() -> None:
    message = {"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}
    first, last = await collect(Server(httpx.Response(200, json=message)))
    assert first == ChatChunk(content="Hello")
    assert isinstance(last, AssistantMessage)


async def test_a_request_without_streaming_asks_for_none() -> None:
    message = {"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}
    server = Server(httpx.Response(200, json=message))
    response = await provider(server).generate(REQUEST)
    assert isinstance(response, AssistantMessage)
    assert response.content == "Hello"
    assert "stream" not in json.loads(server.requests[0].content)


async def test_a_streamed_answer_to_a_request_without_streaming_is_read_too() -> None:
    server, _ = streaming(ANSWER)
    response = await provider(server).generate(REQUEST)
    assert isinstance(response, AssistantMessage)
    assert response.content == "Hello"


@pytest.mark.clause("C31")
async def test_the_response_is_closed_before_the_final_event_is_given() -> None:
    server, body = streaming(ANSWER)
    async with aclosing(provider(server).stream(REQUEST)) as events:
        async for event in events:
            if isinstance(event, AssistantMessage):
                assert body.closed


@pytest.mark.clause("C31")
async def test_closing_early_closes_the_response_and_reads_no_further() -> None:
    server, body = streaming(sse(delta(content="a"), done=False), 5.0, ANSWER)
    async with aclosing(provider(server).stream(REQUEST)) as events:
        await anext(events)
    assert body.closed == 1
    assert body.read <= 2
    assert len(server.requests) == 1


@pytest.mark.clause("C31")
@pytest.mark.parametrize("silence_after", [b"", sse(delta(content="a"), done=False)])
async def test_a_cancelled_consumer_leaves_no_response_open(silence_after: bytes) -> None:
    server, body = streaming(silence_after, 1000.0)
    with anyio.move_on_after(1) as scope:
        await collect(server)
    assert scope.cancelled_caught
    assert body.closed == 1


@pytest.mark.clause("C31")
async def test_a_cancelled_caller_of_generate_leaves_no_response_open() -> None:
    server, body = streaming(1000.0)
    with anyio.move_on_after(1):
        await provider(server).generate(REQUEST)
    assert body.closed == 1


async def test_a_cancellation_while_an_error_is_read_closes_its_response() -> None:
    body = Body(b'{"error":', 5.0)
    with anyio.move_on_after(1):
        await collect(Server(httpx.Response(500, stream=body)))
    assert body.closed == 1


@pytest.mark.clause("C31")
async def test_a_consumers_own_error_closes_the_response_and_stays_itself() -> None:
    server, body = streaming(ANSWER)

    async def consume() -> None:
        async with aclosing(provider(server).stream(REQUEST)) as events:
            async for _ in events:
                raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await consume()
    assert body.closed == 1


@pytest.mark.clause("C31")
async def test_a_response_that_will_not_close_is_given_up_on() -> None:
    class Stuck(Body):
        async def aclose(self) -> None:
            await anyio.sleep(1000)

    body = Stuck(sse(delta(content="a"), done=False), 1000.0)
    started = anyio.current_time()
    async with aclosing(
        provider(Server(httpx.Response(200, headers=SSE, stream=body))).stream(REQUEST)
    ) as events:
        await anext(events)
    assert anyio.current_time() - started == pytest.approx(5.0)


@pytest.mark.clause("C95")
async def test_a_connection_that_breaks_is_an_error_after_the_output_so_far() -> None:
    server, body = streaming(
        sse(delta(content="a"), done=False), httpx.RemoteProtocolError("peer closed connection")
    )
    async with aclosing(provider(server).stream(REQUEST)) as events:
        assert await anext(events) == ChatChunk(content="a")
        with pytest.raises(ProviderConnectionError, match="peer closed connection") as caught:
            await anext(events)
    assert (caught.value.provider, caught.value.request_id) == ("here", "req_1")
    assert isinstance(caught.value.__cause__, httpx.RemoteProtocolError)
    assert body.closed


@pytest.mark.clause("C95")
async def test_a_body_that_just_ends_is_an_error() -> None:
    server, _ = streaming(sse(fragment(id="a", name="x", arguments="{}"), done=False))
    error = await failure(server)
    assert isinstance(error, ProviderProtocolError)
    assert error.provider == "here"


@pytest.mark.clause("C95")
@pytest.mark.parametrize("after", [(), (httpx.ReadError("reset"),), (httpx.ReadTimeout("slow"),), (1000.0,)])
async def test_after_the_finish_reason_neither_a_break_nor_a_silence_is_an_error(
    after: Sequence[Any],
) -> None:
    server, body = streaming(sse(delta(content="a"), STOP, done=False), *after)
    started = anyio.current_time()
    assert len(await collect(server)) == 2
    assert body.closed
    assert anyio.current_time() - started < 20


async def test_the_usage_that_follows_the_finish_reason_is_awaited() -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}
    server, _ = streaming(sse(STOP, done=False), 5.0, sse(usage))
    [last] = await collect(server)
    assert isinstance(last, AssistantMessage)
    assert last.usage is not None


async def test_text_that_follows_the_finish_reason_is_not_lost() -> None:
    server, _ = streaming(
        sse(delta(content="a", finish="stop"), done=False),
        10.0,
        sse(delta(content="b", finish="stop"), done=False),
        10.0,
        sse(delta(content="c", finish="stop")),
    )
    *_, last = await collect(server)
    assert isinstance(last, AssistantMessage)
    assert last.content == "abc"


async def test_after_the_last_mark_the_end_of_the_body_is_awaited_for_a_moment_only() -> None:
    server, body = streaming(ANSWER, 1000.0)
    started = anyio.current_time()
    assert len(await collect(server)) == 3
    assert anyio.current_time() - started < 1
    assert body.closed


async def test_the_body_is_read_to_its_end_so_that_the_connection_can_be_used_again() -> None:
    server, body = streaming(ANSWER, b"", 0.1, b"")
    await collect(server)
    assert body.read == 4


@pytest.mark.clause("C94")
@pytest.mark.parametrize(
    ("raised", "kind", "words"),
    [
        (httpx.ConnectTimeout(""), ProviderTimeoutError, "Request timed out (connecting to localhost:80)"),
        (httpx.ReadTimeout("x"), ProviderTimeoutError, "Request timed out"),
        (httpx.PoolTimeout(""), ProviderTimeoutError, "Request timed out"),
        (
            httpx.ConnectError("All connection attempts failed"),
            ProviderConnectionError,
            "Connection error: All connection attempts failed (localhost:80)",
        ),
        (httpx.ReadError(""), ProviderConnectionError, "ReadError"),
        (httpx.RemoteProtocolError("x"), ProviderConnectionError, "x"),
        (httpx.TooManyRedirects("x"), LLMError, "An unexpected here error occurred: x"),
    ],
)
async def test_what_httpx_raises_becomes_an_error_of_the_tree(
    raised: Exception, kind: type[LLMError], words: str
) -> None:
    error = await failure(Server(raised))
    assert type(error) is kind
    assert words in str(error)
    assert error.provider == "here"
    assert error.__cause__ is raised
    server, _ = streaming(raised)
    assert type(await failure(server)) is kind
    with pytest.raises(kind):
        await provider(Server(raised)).generate(REQUEST)


@pytest.mark.parametrize(
    ("base_url", "address"),
    [
        ("https://user:s3cret@example.org/v1", "example.org:443"),
        ("http://[::1]:8080/v1", "[::1]:8080"),
        ("http://127.0.0.1:9/v1", "127.0.0.1:9"),
    ],
)
async def test_a_failed_connection_names_its_host_and_port_alone(base_url: str, address: str) -> None:
    refused = Server(httpx.ConnectError("refused"))
    with pytest.raises(ProviderConnectionError) as caught:
        await provider(refused, base_url=base_url).generate(REQUEST)
    assert str(caught.value) == f"Connection error: refused ({address})"


async def test_a_path_that_was_not_found_is_named_without_its_query() -> None:
    server = Server(httpx.Response(404, json={"detail": "Not found"}))
    with pytest.raises(ModelNotFoundError) as caught:
        await provider(server, base_url="http://u:s3cret@h/v2?tenant=t1").generate(REQUEST)
    assert str(caught.value) == ("Not found (HTTP 404 from http://h/v2/chat/completions?tenant=[REDACTED])")


async def test_a_model_that_was_not_found_by_code_is_reported_without_a_url() -> None:
    server = Server(httpx.Response(404, json={"error": {"message": "no m", "code": "model_not_found"}}))
    assert str(await failure(server)) == "no m"


async def test_a_web_page_instead_of_an_answer_is_reported_with_its_content_type() -> None:
    headers = {"content-type": "text/html; charset=utf-8", "x-request-id": "req_1"}
    error = await failure(Server(httpx.Response(200, headers=headers, stream=Body(b"<html>hello</html>"))))
    assert isinstance(error, ProviderProtocolError)
    assert str(error) == (
        "the answer ended without a completion event (its content type is 'text/html': check the base URL)"
    )
    assert (error.provider, error.request_id) == ("here", "req_1")


@pytest.mark.clause("C96")
async def test_a_cause_that_holds_a_secret_is_not_shown() -> None:
    error = await failure(Server(httpx.ConnectError("no route to http://user:s3cret@proxy:1/")))
    assert "s3cret" not in str(error)
    assert error.__cause__ is None
    assert error.__suppress_context__


@pytest.mark.clause("C94")
async def test_a_refused_request_is_mapped_with_all_that_the_server_said() -> None:
    headers = {"retry-after": "2", "x-request-id": "req_9"}
    error = await failure(
        Server(httpx.Response(429, headers=headers, json={"error": {"message": "slow down"}}))
    )
    assert isinstance(error, RateLimitError)
    assert (error.status_code, error.retry_after, error.request_id, error.provider) == (
        429,
        2.0,
        "req_9",
        "here",
    )
    assert str(error) == "slow down (request_id=req_9)"


async def test_a_redirect_is_not_followed() -> None:
    server = Server(httpx.Response(307, headers={"location": "http://elsewhere/"}))
    assert isinstance(await failure(server), ProviderProtocolError)
    assert len(server.requests) == 1


async def test_of_a_long_error_body_only_the_beginning_is_read() -> None:
    body = Body(*[b"x" * 1024] * 1000)
    error = await failure(Server(httpx.Response(500, stream=body)))
    assert len(str(error)) == 1200
    assert body.closed == 1
    assert body.read < 200


async def test_an_error_body_that_does_not_come_is_not_waited_for_long() -> None:
    body = Body(b'{"error": "busy"}', 1000.0)
    started = anyio.current_time()
    error = await failure(Server(httpx.Response(503, stream=body)))
    assert isinstance(error, OverloadedError)
    assert str(error) == "busy"
    assert anyio.current_time() - started < 20


async def test_an_error_body_that_breaks_off_is_read_as_far_as_it_came() -> None:
    body = Body(b'{"error": "busy"}', httpx.ReadError("reset"))
    assert str(await failure(Server(httpx.Response(503, stream=body)))) == "busy"


@pytest.mark.case("J1")
@pytest.mark.clause("C94")
async def test_an_error_inside_a_stream_names_the_request() -> None:
    server, body = streaming(
        sse(delta(content="a"), {"error": {"message": "busy", "code": 503}}, done=False), 1000.0
    )
    async with aclosing(provider(server).stream(REQUEST)) as events:
        assert await anext(events) == ChatChunk(content="a")
        with pytest.raises(OverloadedError) as caught:
            await anext(events)
    assert (caught.value.provider, caught.value.request_id) == ("here", "req_1")
    assert body.closed


@pytest.mark.clause("C93")
@pytest.mark.parametrize(
    "first",
    [
        httpx.ConnectError("refused"),
        httpx.Response(503, json={"error": "busy"}),
        httpx.Response(429, headers={"retry-after": "3"}, json={}),
        httpx.Response(
            200, headers=SSE, content=sse(delta(content=""), {"error": {"code": 503}}, done=False)
        ),
    ],
)
async def test_a_failure_before_the_first_output_is_tried_again(first: httpx.Response | Exception) -> None:
    server = Server(first, httpx.Response(200, headers=SSE, content=ANSWER))
    assert len(await collect(server, retry={"max_attempts": 2})) == 3
    assert len(server.requests) == 2


@pytest.mark.clause("C93")
async def test_by_default_one_attempt_is_made() -> None:
    server = Server(httpx.Response(503, json={"error": "busy"}))
    assert isinstance(await failure(server), OverloadedError)
    assert len(server.requests) == 1


@pytest.mark.clause("C93")
@pytest.mark.case("J3")
@pytest.mark.parametrize("output", [delta(content="a"), delta(reasoning="a"), fragment(id="a", name="x")])
async def test_after_the_first_output_nothing_is_tried_again(output: dict[str, Any]) -> None:
    server, _ = streaming(sse(output, {"error": {"code": 503}}, done=False))
    assert isinstance(await failure(server, retry={"max_attempts": 3}), ServerError)
    assert len(server.requests) == 1


@pytest.mark.clause("C93")
async def test_without_streaming_a_broken_answer_is_tried_again_as_well() -> None:
    whole = httpx.Response(200, json={"choices": [{"message": {"content": "Hello"}}]})
    broken = httpx.Response(
        200, headers={"content-type": "application/json"}, stream=Body(b"{", httpx.ReadError("x"))
    )
    server = Server(broken, whole)
    assert isinstance(await provider(server, retry={"max_attempts": 2}).generate(REQUEST), AssistantMessage)


async def test_attempts_that_all_fail_end_in_an_error_that_says_so() -> None:
    server = Server(httpx.Response(503, json={"error": "busy"}))
    error = await failure(server, retry={"max_attempts": 3, "backoff_base": 0.1})
    assert isinstance(error, MaxRetriesExceededError)
    assert str(error) == "busy (after 3 attempts)"
    assert isinstance(error.__cause__, OverloadedError)
    assert len(server.requests) == 3


async def test_a_failure_that_is_not_passing_is_not_tried_again() -> None:
    server = Server(httpx.Response(401, json={"error": "no"}))
    assert isinstance(await failure(server, retry={"max_attempts": 3}), AuthenticationError)
    assert len(server.requests) == 1


@pytest.mark.clause("C90")
async def test_the_applications_client_is_not_closed_and_keeps_its_settings() -> None:
    server, _ = streaming(ANSWER)
    client = httpx.AsyncClient(transport=httpx.MockTransport(server), timeout=7.0, headers={"x-app": "1"})
    own = provider(server, http_client=client)
    async with own:
        _ = [event async for event in own.stream(REQUEST)]
    assert not client.is_closed
    assert server.requests[0].extensions["timeout"] == {
        "connect": 7.0,
        "read": 7.0,
        "write": 7.0,
        "pool": 7.0,
    }
    assert server.requests[0].headers["x-app"] == "1"
    await client.aclose()


async def test_a_timeout_that_was_given_holds_over_the_applications_client() -> None:
    server, _ = streaming(ANSWER)
    await collect(server, timeout=3.0)
    assert server.requests[0].extensions["timeout"]["read"] == 3.0
    assert server.requests[0].extensions["timeout"]["connect"] == 5.0


async def test_a_closed_provider_says_so_until_it_is_entered_again() -> None:
    server, _ = streaming(ANSWER)
    one = provider(server)
    await one.aclose()
    await one.aclose()
    events = one.stream(REQUEST)
    with pytest.raises(ClientStateError, match="here is closed; enter it with 'async with'"):
        await anext(events)
    async with one:
        assert len([event async for event in one.stream(REQUEST)]) == 3
    with pytest.raises(ClientStateError):
        await one.generate(REQUEST)


async def test_streams_of_one_provider_run_at_the_same_time() -> None:
    served: dict[str, anyio.Event] = {"a": anyio.Event(), "b": anyio.Event()}

    class Meeting(httpx.AsyncByteStream):
        def __init__(self, name: str) -> None:
            self.name = name

        async def __aiter__(self) -> AsyncIterator[bytes]:
            served[self.name].set()
            await served["b" if self.name == "a" else "a"].wait()
            yield ANSWER

    names = iter("ab")
    handler: Callable[[httpx.Request], httpx.Response] = lambda _: httpx.Response(  # noqa: E731
        200, headers=SSE, stream=Meeting(next(names))
    )
    one = provider(Server(), http_client=httpx.AsyncClient(transport=httpx.MockTransport(handler)))
    counts: list[int] = []

    async def consume() -> None:
        counts.append(len([event async for event in one.stream(REQUEST)]))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(consume)
            group.start_soon(consume)
    assert counts == [3, 3]


@pytest.mark.clause("C96")
async def test_no_log_holds_a_credential(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    server = Server(httpx.Response(503, json={"error": "key sk-s3cret0123456 is busy"}))
    url = "http://user:s3cret-pw@localhost/v1"
    await failure(server, base_url=url, headers={"x-other": "s3cret"}, retry={"max_attempts": 2})
    await failure(server, api_key="s3cret-key", retry={"max_attempts": 2})
    assert any("Attempt 1 of 2" in message for message in caplog.messages)
    assert "s3cret" not in caplog.text
