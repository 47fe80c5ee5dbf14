"""How the provider of each wire format is created, what it shows, and where it sends requests."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from seqoria_runtime.models import AssistantMessage, ChatChunk, UserMessage
from seqoria_runtime.models.errors import (
    InvalidRequestError,
    LLMError,
    MissingCredentialsError,
    ModelNotFoundError,
    OverloadedError,
    RateLimitError,
)
from seqoria_runtime.providers import (
    AsyncAnthropicProvider,
    AsyncBaseProvider,
    AsyncOllamaProvider,
    AsyncOpenAIProvider,
    ModelRequest,
    ProviderEvent,
    RetryPolicy,
)
from seqoria_runtime.providers._fallback import stream_with_fallback
from seqoria_runtime.providers._ollama.provider import ollama_url
from tests.support.wire_formats import FORMATS, Messages, Ollama, Responses
from tests.support.wires import Stream

formats = pytest.mark.parametrize("form", [Messages, Responses, Ollama], ids=lambda form: form.name)
all_formats = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
REQUEST = ModelRequest([UserMessage(content="hi")])


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OLLAMA_API_KEY", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)


class Seen:
    """A transport that answers each request with the next of these responses, and keeps the requests."""

    def __init__(self, *answers: httpx.Response) -> None:
        self.requests: list[httpx.Request] = []
        self._answers = list(answers)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self._answers.pop(0)

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(self))


async def collect(events: AsyncIterator[ProviderEvent]) -> list[ProviderEvent]:
    return [event async for event in events]


async def respond(provider: AsyncBaseProvider, *, stream: bool) -> ProviderEvent:
    return (await collect(provider.stream(REQUEST)))[-1] if stream else await provider.generate(REQUEST)


def streamed(form: type[Stream], stream: Stream) -> httpx.Response:
    return httpx.Response(200, content=stream.data, headers={"content-type": form.content_type})


def answer(form: type[Stream]) -> httpx.Response:
    return streamed(form, form().start().text("ok").end())


async def asked(form: type[Stream], *, model: str | None = None, **settings: Any) -> httpx.Request:
    """Make a provider of these settings, ask it once, and give what went out."""
    seen = Seen(answer(form))
    async with seen.client() as client:
        provider = form.provider("m", http_client=client, **{"base_url": "http://localhost:1"} | settings)
        events = [event async for event in provider.stream(ModelRequest(REQUEST.messages, model=model))]
        assert isinstance(events[-1], AssistantMessage)
    return seen.requests[0]


@pytest.mark.clause("C90")
@pytest.mark.parametrize(
    ("form", "base_url", "url"),
    [
        (Messages, "http://localhost:1", "http://localhost:1/v1/messages"),
        (Messages, "http://localhost:1/v1/", "http://localhost:1/v1/messages"),
        (Messages, None, "https://api.anthropic.com/v1/messages"),
        (Responses, "http://localhost:1/v1/", "http://localhost:1/v1/responses"),
        (Responses, None, "https://api.openai.com/v1/responses"),
        (Ollama, "http://localhost:1/", "http://localhost:1/api/chat"),
        (Ollama, "http://localhost:1/v1", "http://localhost:1/api/chat"),
        (Ollama, None, "http://localhost:11434/api/chat"),
    ],
)
async def test_a_request_goes_to_the_formats_path(form: type[Stream], base_url: str | None, url: str) -> None:
    assert str((await asked(form, base_url=base_url, api_key="k")).url) == url


@pytest.mark.clause("C96")
async def test_each_server_gets_its_key_in_its_own_header(monkeypatch: pytest.MonkeyPatch) -> None:
    for form, variable, header, value in (
        (Messages, "ANTHROPIC_API_KEY", "x-api-key", "k1"),
        (Responses, "OPENAI_API_KEY", "authorization", "Bearer k1"),
        (Ollama, "OLLAMA_API_KEY", "authorization", "Bearer k1"),
    ):
        assert header not in (await asked(form)).headers
        assert (await asked(form, api_key="k1")).headers[header] == value
        monkeypatch.setenv(variable, " k1\n")
        assert (await asked(form)).headers[header] == value
        assert (await asked(form, headers={header: "own"})).headers[header] == "own"


@formats
def test_a_key_that_the_server_needs_is_missed_at_once(form: type[Stream]) -> None:
    if form is Ollama:
        form.provider("m", host="https://ollama.com")
        return
    with pytest.raises(MissingCredentialsError, match="No API key: give 'api_key' or set ") as caught:
        form.provider("m")
    assert caught.value.provider == form.provider("m", api_key="k").name


async def test_version_and_betas_of_anthropic_are_headers() -> None:
    headers = (await asked(Messages)).headers
    assert headers["anthropic-version"] == "2023-06-01"
    assert "anthropic-beta" not in headers
    headers = (await asked(Messages, anthropic_version="2024-01-01", anthropic_beta=["a", "b"])).headers
    assert (headers["anthropic-version"], headers["anthropic-beta"]) == ("2024-01-01", "a,b")
    assert (await asked(Messages, anthropic_beta="a")).headers["anthropic-beta"] == "a"
    for bad in ({"anthropic_version": ""}, {"anthropic_version": "a\nb"}, {"anthropic_beta": [5]}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            await asked(Messages, **bad)


@pytest.mark.clause("C2")
@formats
@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"model_id": ""}, InvalidRequestError, "model_id is required"),
        ({"model_id": 5}, TypeError, "'model_id' must be a string, not int"),
        ({"base_url": 5}, TypeError, "'base_url' must be a URL"),
        ({"base_url": "ftp://host"}, ValueError, "'base_url' must be a URL such as 'https://host/v1'"),
        ({"timeout": 0}, ValueError, "'timeout' must be a positive"),
        ({"http_client": object()}, TypeError, "'http_client' must be an httpx.AsyncClient or HTTPOptions"),
        ({"headers": ["x"]}, TypeError, "'headers' must be a mapping"),
        ({"retry": {"tries": 3}}, ValueError, "Unknown retry options: tries"),
        ({"temprature": 1}, TypeError, r"unknown option 'temprature' \(near: temperature"),
        (
            {"max_retries": 2},
            TypeError,
            r"unknown option 'max_retries': use retry=RetryPolicy",
        ),
        ({"tool_choice": "auto"}, TypeError, "'tool_choice' comes with each request"),
        ({"extra_body": {"messages": []}}, TypeError, "'extra_body' cannot replace 'messages'"),
        ({"extra_body": 5}, TypeError, "'extra_body' must be a mapping"),
    ],
)
def test_settings_are_checked_when_a_provider_is_made(
    form: type[Stream], settings: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        form.provider(**{"model_id": "m", "base_url": "http://localhost:1", "api_key": "k"} | settings)


def test_options_that_are_read_here_are_checked_as_well() -> None:
    for provider, option, value in (
        (AsyncOpenAIProvider, "tools", [{"name": "x"}]),
        (AsyncOpenAIProvider, "strict_tools", "yes"),
        (AsyncAnthropicProvider, "disable_parallel_tool_use", 1),
        (AsyncOllamaProvider, "auto_pull", "yes"),
    ):
        make: Any = provider
        with pytest.raises(TypeError, match=option):
            make("m", base_url="http://localhost:1", **{option: value})
    with pytest.raises(TypeError, match="'host' and 'base_url' are the same"):
        AsyncOllamaProvider("m", host="h", base_url="http://h")


async def test_options_of_a_request_beat_those_of_the_provider_and_none_is_not_given() -> None:
    for form, option, path in (
        (Messages, "temperature", ()),
        (Responses, "temperature", ()),
        (Ollama, "temperature", ("options",)),
    ):
        seen = Seen(answer(form), answer(form))
        async with seen.client() as client:
            provider = form.provider(
                "m", base_url="http://localhost:1", http_client=client, temperature=1, top_p=None
            )
            for options in ({}, {option: 0.5}):
                async for _ in provider.stream(ModelRequest(REQUEST.messages, options=options)):
                    pass
            with pytest.raises(TypeError, match="unknown option 'nope'"):
                provider.stream(ModelRequest(REQUEST.messages, options={"nope": 1}))
        bodies = [json.loads(request.content) for request in seen.requests]
        for key in path:
            bodies = [body[key] for body in bodies]
        assert [body[option] for body in bodies] == [1, 0.5]
        assert all("top_p" not in body for body in bodies)


async def test_a_request_may_name_another_model() -> None:
    for form in (Messages, Responses, Ollama):
        assert json.loads((await asked(form)).content)["model"] == "m"
        assert json.loads((await asked(form, model="other")).content)["model"] == "other"


@pytest.mark.clause("C96")
@formats
def test_a_provider_shows_its_model_and_place_and_no_key(form: type[Stream]) -> None:
    provider = form.provider("m", base_url="http://user:pw@localhost:1", api_key="sk-secret-1")
    assert repr(provider) == f"{form.provider.__name__}('m', base_url='http://localhost:1')"
    assert (provider.model_id, form.provider("m", base_url="http://localhost:1", name="x").name) == ("m", "x")


@formats
async def test_an_answer_that_is_not_streamed_is_asked_for_as_such(form: type[Stream]) -> None:
    wholes: dict[str, Any] = {
        "messages": {
            "type": "message",
            "content": [{"type": "text", "text": "ok"}],
            "stop_reason": "end_turn",
        },
        "responses": {
            "status": "completed",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "ok"}]}],
        },
        "ollama": {"message": {"role": "assistant", "content": "ok"}, "done": True, "done_reason": "stop"},
    }
    seen = Seen(httpx.Response(200, json=wholes[form.name]))
    async with seen.client() as client:
        provider = form.provider("m", base_url="http://localhost:1", http_client=client)
        response = await provider.generate(REQUEST)
    assert isinstance(response, AssistantMessage)
    assert response.content == "ok"
    assert not json.loads(seen.requests[0].content).get("stream", False)


@pytest.mark.clause("C94")
@pytest.mark.parametrize(
    ("form", "status", "body", "expected", "words"),
    [
        (
            Messages,
            529,
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            OverloadedError,
            "Overloaded",
        ),
        (
            Messages,
            429,
            {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down"}},
            RateLimitError,
            "Slow down",
        ),
        (
            Messages,
            400,
            {"error": {"code": 400, "message": "syntax error", "type": "invalid_request_error"}},
            InvalidRequestError,
            "syntax error",
        ),
        (
            Messages,
            413,
            {"error": {"type": "request_too_large", "message": "big"}},
            InvalidRequestError,
            "big",
        ),
        (
            Responses,
            404,
            {
                "error": {
                    "message": "no such model",
                    "type": "invalid_request_error",
                    "code": "model_not_found",
                }
            },
            ModelNotFoundError,
            "no such model",
        ),
        (Ollama, 400, {"error": "m does not support tools"}, InvalidRequestError, "m does not support tools"),
    ],
)
async def test_a_refused_request_is_the_error_that_its_code_and_status_say(
    form: type[Stream], status: int, body: Any, expected: type[LLMError], words: str
) -> None:
    headers = {"request-id": "req_1", "retry-after": "3"}
    seen = Seen(httpx.Response(status, json=body, headers=headers))
    async with seen.client() as client:
        provider = form.provider("m", base_url="http://localhost:1", http_client=client)
        with pytest.raises(LLMError) as caught:
            async for _ in provider.stream(REQUEST):
                pass
    assert type(caught.value) is expected
    assert str(caught.value) == f"{words} (request_id=req_1)"
    assert (caught.value.status_code, caught.value.retry_after) == (status, 3.0)
    assert caught.value.provider == provider.name


@pytest.mark.case("J1", "J3")
@pytest.mark.clause("C92")
@all_formats
@pytest.mark.parametrize("after", ["status", "start", "text", "call"])
async def test_another_provider_is_asked_before_the_first_output_only(form: type[Stream], after: str) -> None:
    stream = form() if after == "status" else form().start()
    if after == "text":
        stream.text("H")
    if after == "call":
        stream.call("c1", "add")
    first = streamed(form, stream.error("overloaded_error", "busy"))
    if after == "status":
        first = httpx.Response(503, json={"error": {"message": "busy"}})
    seen = Seen(first, answer(form))
    async with seen.client() as client:
        providers = [form.provider("m", base_url="http://localhost:1", http_client=client) for _ in range(2)]
        answers = stream_with_fallback(providers, REQUEST)
        if after in {"text", "call"}:
            with pytest.raises(OverloadedError, match="busy"):
                await collect(answers)
            assert len(seen.requests) == 1
        else:
            assert (await collect(answers))[0] == ChatChunk(content="ok")
            assert len(seen.requests) == 2
            assert seen.requests[0].content == seen.requests[1].content


@pytest.mark.case("J3")
@formats
async def test_a_request_is_repeated_before_the_first_output_where_the_policy_allows(
    form: type[Stream],
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    busy = streamed(form, form().start().error("overloaded_error", "busy"))
    seen = Seen(busy, httpx.Response(429, json={}, headers={"retry-after": "2"}), answer(form))
    async with seen.client() as client:
        policy = RetryPolicy(max_attempts=3, random=lambda: 1.0, sleep=sleep)
        provider = form.provider("m", base_url="http://localhost:1", http_client=client, retry=policy)
        events = [event async for event in provider.stream(REQUEST)]
    assert events[0] == ChatChunk(content="ok")
    assert waits == [0.5, 2.0]


MISSING = {"error": 'model "m" not found, try pulling it first'}


def pulled(*lines: dict[str, Any], status: int = 200) -> httpx.Response:
    return httpx.Response(status, content=b"".join(json.dumps(line).encode() + b"\n" for line in lines))


@pytest.mark.parametrize("stream", [True, False])
async def test_a_model_that_ollama_does_not_have_is_fetched_and_then_asked(stream: bool) -> None:
    last = (
        answer(Ollama) if stream else httpx.Response(200, json={"message": {"content": "ok"}, "done": True})
    )
    progress = pulled(
        {"status": "pulling manifest"}, {"status": "pulling", "total": 5}, {"status": "success"}
    )
    seen = Seen(httpx.Response(404, json=MISSING), progress, last)
    async with seen.client() as client:
        provider = AsyncOllamaProvider("m", host="http://localhost:1", http_client=client)
        response = await respond(provider, stream=stream)
    assert isinstance(response, AssistantMessage)
    assert response.content == "ok"
    assert [request.url.path for request in seen.requests] == ["/api/chat", "/api/pull", "/api/chat"]
    assert json.loads(seen.requests[1].content) == {"model": "m", "stream": True}
    assert seen.requests[0].content == seen.requests[2].content


@pytest.mark.parametrize(
    "pull",
    [
        pulled({"status": "pulling manifest"}, {"error": "pull model manifest: file does not exist"}),
        pulled({"status": "pulling manifest"}),
        pulled({"error": "no"}, status=500),
        pulled({"status": 5}),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_model_that_cannot_be_fetched_is_not_found(pull: httpx.Response, stream: bool) -> None:
    seen = Seen(httpx.Response(404, json=MISSING), pull)
    async with seen.client() as client:
        provider = AsyncOllamaProvider("m", host="http://localhost:1", http_client=client)
        with pytest.raises(ModelNotFoundError, match="try pulling it first") as caught:
            await respond(provider, stream=stream)
    assert isinstance(caught.value.__cause__, LLMError)
    assert caught.value.model_id == "m"


@pytest.mark.parametrize("stream", [True, False])
async def test_nothing_is_fetched_where_that_is_not_wanted(stream: bool) -> None:
    seen = Seen(httpx.Response(404, json=MISSING))
    async with seen.client() as client:
        provider = AsyncOllamaProvider("m", host="http://localhost:1", http_client=client, auto_pull=False)
        with pytest.raises(ModelNotFoundError):
            await respond(provider, stream=stream)
    assert len(seen.requests) == 1


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("http://localhost:11434", "http://localhost:11434"),
        ("box", "http://box:11434"),
        ("box:5", "http://box:5"),
        (":5", "http://127.0.0.1:5"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("http://0.0.0.0:5", "http://127.0.0.1:5"),
        ("[::]:5", "http://[::1]:5"),
        ("[fe80::1]", "http://[fe80::1]:11434"),
        ("https://ollama.com", "https://ollama.com"),
        ("https://u:p@box/ollama/", "https://u:p@box/ollama"),
        ("http://box:11434/v1", "http://box:11434"),
        ("http://box:11434/api/", "http://box:11434"),
    ],
)
def test_a_host_of_ollama_needs_neither_scheme_nor_port(
    host: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ollama_url(host) == url
    monkeypatch.setenv("OLLAMA_HOST", f' "{host}" ')
    assert ollama_url(None) == url
    assert "base_url" in repr(AsyncOllamaProvider("m"))


def test_a_host_that_is_none_is_this_machine_and_an_odd_one_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert ollama_url(None) == "http://localhost:11434"
    monkeypatch.setenv("OLLAMA_HOST", " ")
    assert ollama_url(None) == "http://localhost:11434"
    for host in ("box:port", "http://[::1"):
        with pytest.raises(ValueError, match="'base_url' must be a URL"):
            AsyncOllamaProvider("m", host=host)
