"""How a Chat Completions provider is created, and what it shows."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import httpx
import pytest

from seqoria_runtime.models import AssistantMessage, UserMessage
from seqoria_runtime.models.errors import InvalidRequestError, LLMError, MissingCredentialsError
from seqoria_runtime.providers import (
    PROFILES,
    AsyncOpenAICompatibleProvider,
    HTTPOptions,
    ModelRequest,
    RetryPolicy,
)

KEYS = {name for profile in PROFILES.values() for name in profile.api_key_vars}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


class Seen:
    """A transport that answers each request with a word, and keeps the requests."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        message = {"message": {"content": "ok"}, "finish_reason": "stop"}
        return httpx.Response(200, json={"choices": [message]})

    @property
    def body(self) -> dict[str, Any]:
        sent: dict[str, Any] = json.loads(self.requests[-1].content)
        return sent


async def sent(options: dict[str, Any] | None = None, /, model: str | None = None, **settings: Any) -> Seen:
    """Make a provider of these settings, ask it once, and give what went out."""
    seen = Seen()
    async with httpx.AsyncClient(transport=httpx.MockTransport(seen)) as client:
        settings = {"base_url": "http://localhost:1/v1"} | settings
        provider = AsyncOpenAICompatibleProvider("m", http_client=client, **settings)
        request = ModelRequest([UserMessage(content="hi")], model=model, options=options or {})
        assert isinstance(await provider.generate(request), AssistantMessage)
    return seen


@pytest.mark.clause("C2")
@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"model_id": ""}, InvalidRequestError, "model_id is required"),
        ({"model_id": None}, InvalidRequestError, "model_id is required"),
        ({"model_id": 5}, TypeError, "'model_id' must be a string, not int"),
        ({"base_url": 5}, TypeError, "'base_url' must be a URL"),
        *(
            ({"base_url": url}, ValueError, "'base_url' must be a URL such as 'https://host/v1'")
            for url in (
                "",
                "host/v1",
                "ftp://host",
                "http://",
                "http://h:x/",
                "http://h:0",
                "http://[::1",
                "http://h/#f",
            )
        ),
        ({"base_url": "127.0.0.1:18090/v1"}, ValueError, r"not '127\.0\.0\.1:18090/v1'"),
        (
            {"base_url": "http://h/v1?api_key=abc"},
            ValueError,
            "'base_url' must hold no credential: give 'api_key'",
        ),
        ({"profile": "nope"}, ValueError, "'profile' must be one of compatible, openai, .*, not 'nope'"),
        ({"profile": 5}, TypeError, "'profile' must be a Profile or the name of one, not int"),
        ({"timeout": 0}, ValueError, "'timeout' must be a positive"),
        ({"timeout": True}, ValueError, "'timeout'"),
        (
            {"http_client": object()},
            TypeError,
            "'http_client' must be an httpx.AsyncClient or HTTPOptions, not object",
        ),
        ({"headers": ["x"]}, TypeError, "'headers' must be a mapping"),
        ({"headers": {"a b": "x"}}, ValueError, "'headers' holds 'a b', which is not the name of a header"),
        (
            {"headers": {"x-team": 5}},
            ValueError,
            "'headers' holds a value for 'x-team' that is not printable ASCII",
        ),
        ({"headers": {"x-team": "a\nb"}}, ValueError, "'headers' holds a value for 'x-team'"),
        ({"api_key": 5}, TypeError, "'api_key' must be a string, not int"),
        ({"api_key": "a\nb"}, ValueError, "the API key must be printable ASCII text"),
        ({"name": ""}, ValueError, "'name' must be a non-empty string"),
        ({"retry": 3}, TypeError, "retry options"),
        ({"retry": {"tries": 3}}, ValueError, "Unknown retry options: tries"),
        ({"retry": {"max_attempts": 0}}, ValueError, "max_attempts"),
    ],
)
def test_a_bad_setting_is_refused_by_name_before_any_io(
    settings: dict[str, Any], error: type[Exception], words: str
) -> None:
    good: dict[str, Any] = {"model_id": "m", "base_url": "http://localhost/v1"}
    with pytest.raises(error, match=words):
        AsyncOpenAICompatibleProvider(**good | settings)


@pytest.mark.clause("C2")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temprature": 1}, r"unknown option 'temprature' \(near: temperature\)"),
        ({"max_token": 1}, r"unknown option 'max_token' \(near: .*max_tokens"),
        ({"zzz": 1}, "unknown option 'zzz'; what only some servers take goes into 'extra_body'"),
        ({"temprature": 1, "zzz": 1}, "'temprature'.*'zzz'"),
        ({"tools": []}, "'tools' comes with each request and is not an option"),
        ({"top_k": 1}, "unknown option 'top_k'"),
        ({"extra_body": 5}, "'extra_body' must be a mapping, not int"),
        ({"extra_body": {"model": "x", "stream": True}}, "'extra_body' cannot replace 'model', 'stream'"),
    ],
)
def test_an_unknown_option_is_refused_and_its_near_matches_are_named(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        AsyncOpenAICompatibleProvider("m", base_url="http://localhost/v1", **options)


async def test_an_unknown_option_of_a_request_is_refused_too() -> None:
    provider = AsyncOpenAICompatibleProvider("m", base_url="http://localhost/v1")
    request = ModelRequest([], options={"temprature": 1})
    with pytest.raises(TypeError, match="'temprature'"):
        provider.stream(request)
    with pytest.raises(TypeError, match="'temprature'"):
        await provider.generate(request)


@pytest.mark.parametrize(
    ("name", "value"),
    [("connect_timeout", 0), ("pool_timeout", "x"), ("max_connections", 0), ("keepalive_expiry", -1)],
)
def test_a_bad_connection_option_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        HTTPOptions(**{name: value})


async def test_options_are_defaults_that_a_request_overrides_and_none_is_not_given() -> None:
    settings: dict[str, Any] = {"temperature": 1.0, "seed": None, "max_tokens": 5}
    seen = await sent({"temperature": 0.2, "max_tokens": None, "top_p": 0.5}, **settings)
    assert seen.body == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 0.2,
        "max_tokens": 5,
        "top_p": 0.5,
    }


async def test_an_option_that_a_server_adds_is_known_by_its_profile() -> None:
    assert (await sent(profile="vllm", top_k=5)).body["top_k"] == 5


async def test_a_request_may_ask_another_model() -> None:
    assert (await sent()).body["model"] == "m"
    assert (await sent(model="n")).body["model"] == "n"


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("http://localhost:1/v1", "http://localhost:1/v1/chat/completions"),
        ("http://localhost:1/v1/", "http://localhost:1/v1/chat/completions"),
        ("http://localhost:1", "http://localhost:1/chat/completions"),
        ("http://localhost:1/v1?api-version=2", "http://localhost:1/v1/chat/completions?api-version=2"),
        ("http://user:pa%20ss@localhost:1/v1", "http://localhost:1/v1/chat/completions"),
    ],
)
async def test_requests_go_below_the_base_url(base_url: str, url: str) -> None:
    [request] = (await sent(base_url=base_url)).requests
    assert (request.method, str(request.url)) == ("POST", url)


@pytest.mark.parametrize(
    ("profile", "url"),
    [
        (None, "https://api.openai.com/v1"),
        ("openai", "https://api.openai.com/v1"),
        ("mistral", "https://api.mistral.ai/v1"),
        ("ollama", "http://localhost:11434/v1"),
    ],
)
def test_a_profile_knows_where_its_server_is(profile: str | None, url: str) -> None:
    assert repr(url) in repr(AsyncOpenAICompatibleProvider("m", profile=profile, api_key="k"))


@pytest.mark.parametrize(
    ("base_url", "profile"),
    [
        ("https://api.mistral.ai/v1", "mistral"),
        ("https://eu.api.mistral.ai/v1", "mistral"),
        ("https://API.DeepSeek.com", "deepseek"),
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://api.mistral.ai.evil.example/v1", "compatible"),
        ("https://my-server.example/v1", "compatible"),
    ],
)
def test_the_host_selects_the_profile(base_url: str, profile: str) -> None:
    provider = AsyncOpenAICompatibleProvider("m", base_url=base_url, api_key="k")
    assert f"profile={profile!r}" in repr(provider)
    assert provider.name == profile


def test_an_application_may_describe_a_server_of_its_own() -> None:
    own = replace(PROFILES["compatible"], name="ours", options=frozenset({"flavour"}))
    provider = AsyncOpenAICompatibleProvider("m", base_url="http://localhost/v1", profile=own, flavour=1)
    assert provider.name == "ours"
    assert provider.model_id == "m"
    assert AsyncOpenAICompatibleProvider("m", base_url="http://localhost/v1", name="other").name == "other"


@pytest.mark.clause("C90")
@pytest.mark.parametrize(
    ("profile", "base_url", "variables"),
    [
        (None, "https://h.example/v1", ["OPENAI_API_KEY"]),
        ("groq", None, ["GROQ_API_KEY"]),
        ("gemini", None, ["GEMINI_API_KEY", "GOOGLE_API_KEY"]),
    ],
)
def test_a_missing_key_is_an_error_that_names_the_variables(
    profile: str | None, base_url: str | None, variables: list[str]
) -> None:
    with pytest.raises(MissingCredentialsError, match="give 'api_key' or set") as caught:
        AsyncOpenAICompatibleProvider("m", base_url=base_url, profile=profile, api_key="  ")
    assert caught.value.missing_vars == variables
    assert caught.value.provider == (profile or "compatible")


async def test_a_key_is_sent_as_a_bearer_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from-env\n")
    assert (await sent(api_key="given")).requests[0].headers["authorization"] == "Bearer given"
    assert (await sent()).requests[0].headers["authorization"] == "Bearer from-env"


@pytest.mark.clause("C96")
async def test_a_key_of_one_vendor_is_not_sent_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "openai-key")
    for profile in ("vllm", "llama.cpp", "ollama"):
        assert "authorization" not in (await sent(profile=profile)).requests[0].headers
    with pytest.raises(MissingCredentialsError):
        AsyncOpenAICompatibleProvider("m", base_url="https://api.groq.com/openai/v1")
    monkeypatch.setenv("GROQ_API_KEY", "groq-key")
    seen = await sent(base_url="https://api.groq.com/openai/v1")
    assert seen.requests[0].headers["authorization"] == "Bearer groq-key"


@pytest.mark.parametrize(
    "settings",
    [
        {"base_url": "http://localhost:8000/v1"},
        {"base_url": "http://127.0.0.5/v1"},
        {"base_url": "http://[::1]:8000/v1"},
        {"base_url": "http://models.localhost/v1"},
        {"base_url": "http://gpu.example/v1", "profile": "vllm"},
    ],
)
async def test_a_local_server_or_one_of_a_local_kind_needs_no_key(settings: dict[str, Any]) -> None:
    assert "authorization" not in (await sent(**settings)).requests[0].headers


@pytest.mark.parametrize("host", ["10.0.0.1", "localhost.example", "0.0.0.0"])
def test_another_host_is_not_taken_for_this_machine(host: str) -> None:
    with pytest.raises(MissingCredentialsError):
        AsyncOpenAICompatibleProvider("m", base_url=f"http://{host}/v1")


@pytest.mark.parametrize("name", ["Authorization", "api-key", "X-Api-Key"])
async def test_headers_may_hold_the_credential(name: str) -> None:
    seen = await sent(base_url="https://h.example/v1", headers={name: "abc", "X-Team": "blue"})
    assert seen.requests[0].headers[name] == "abc"
    assert seen.requests[0].headers["x-team"] == "blue"
    assert seen.requests[0].headers.get("authorization", "abc") == "abc"


async def test_user_info_in_the_url_becomes_a_header() -> None:
    seen = await sent(base_url="https://user:pa%20ss@h.example/v1")
    assert seen.requests[0].headers["authorization"] == "Basic dXNlcjpwYSBzcw=="


@pytest.mark.clause("C96")
def test_nothing_that_a_provider_shows_holds_a_credential() -> None:
    provider = AsyncOpenAICompatibleProvider(
        "m",
        base_url="https://user:s3cret-pw@h.example/v1",
        api_key="s3cret-key",
        headers={"x-other": "s3cret-header"},
        http_client=HTTPOptions(proxy="http://u:s3cret-proxy@p.example"),
        retry=RetryPolicy(max_attempts=2),
    )
    assert repr(provider) == (
        "AsyncOpenAICompatibleProvider('m', base_url='https://h.example/v1', profile='compatible')"
    )
    assert "s3cret" not in repr(vars(provider)) + repr(HTTPOptions(proxy="http://u:s3cret-proxy@p.example"))
    with pytest.raises(ValueError, match="base_url") as caught:
        AsyncOpenAICompatibleProvider("m", base_url="ftp://user:s3cret-pw@h.example")
    assert "s3cret" not in str(caught.value)


def test_the_older_names_of_errors_are_in_their_window() -> None:
    from seqoria_runtime.providers import errors

    assert errors.EnvironmentError is MissingCredentialsError
    assert errors.ConnectionError is errors.ProviderConnectionError
    assert issubclass(errors.ConnectionError, LLMError)


@pytest.mark.clause("C90")
@pytest.mark.parametrize(
    "imported",
    ["._protocol", "._fallback", "._http.retry", ".errors", ""],
)
def test_the_protocol_and_the_rules_load_no_http(imported: str) -> None:
    program = f"import sys, seqoria_runtime.providers{imported}; print('httpx' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["False"]


def test_a_name_that_the_package_does_not_have_is_an_attribute_error() -> None:
    import seqoria_runtime.providers as providers

    assert set(providers.__all__) <= set(dir(providers))
    with pytest.raises(AttributeError, match="has no attribute 'Nope'"):
        _ = providers.Nope


def test_the_environment_of_these_tests_has_no_key() -> None:
    assert not KEYS & os.environ.keys()
