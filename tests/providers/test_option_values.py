"""Options in a wrong form, or of another API, and bad images are refused with the right form."""

from typing import Any

import pytest
from pydantic import BaseModel

from seqoria_runtime.models import UserMessage
from seqoria_runtime.models.errors import InvalidRequestError
from seqoria_runtime.providers import (
    PROFILES,
    AsyncAnthropicProvider,
    AsyncOllamaProvider,
    AsyncOpenAICompatibleProvider,
    AsyncOpenAIProvider,
)
from seqoria_runtime.providers._chat.messages import wire_messages
from tests.support.wire_formats import Chat, Messages, Ollama, Responses
from tests.support.wires import Stream

CHAT = AsyncOpenAICompatibleProvider
MODEL = "a pydantic model is given as 'output'"
EPHEMERAL = r"a mapping such as \{'type': 'ephemeral'\}"


class Person(BaseModel):
    name: str


def make(provider: Any, **options: Any) -> None:
    provider("m", base_url="http://localhost:1", **options)


@pytest.mark.parametrize(
    ("provider", "option", "value", "wanted"),
    [
        (
            AsyncOpenAICompatibleProvider,
            "response_format",
            Person,
            rf"\{{'type': 'json_object'\}}; {MODEL}",
        ),
        (CHAT, "response_format", "json", "a mapping such as"),
        (CHAT, "prompt_cache_key", "", "a non-empty string, not ''"),
        (CHAT, "prompt_cache_retention", 24, "a string such as '24h', not 24"),
        (AsyncOpenAIProvider, "text", {"format": Person}, MODEL),
        (AsyncOpenAIProvider, "text", "json", "a mapping such as"),
        (AsyncOpenAIProvider, "prompt_cache_key", 5, "a non-empty string, not 5"),
        (AsyncOpenAIProvider, "prompt_cache_options", True, "a mapping, not True"),
        (
            AsyncAnthropicProvider,
            "cache_control",
            True,
            f"{EPHEMERAL}, not True",
        ),
        (
            AsyncAnthropicProvider,
            "cache_control",
            {"ttl": "1h"},
            r"a mapping such as \{'type': 'ephemeral'\}",
        ),
        (AsyncAnthropicProvider, "output_config", {"format": {}}, "a mapping such as"),
        (
            AsyncOllamaProvider,
            "format",
            Person,
            f"'json' or a JSON schema; {MODEL}",
        ),
    ],
)
def test_a_value_of_a_wrong_form_is_refused_with_what_the_option_takes(
    provider: Any, option: str, value: Any, wanted: str
) -> None:
    with pytest.raises(TypeError, match=f"{provider.__name__}: '{option}' must be .*{wanted}"):
        make(provider, **{option: value})


def test_a_flag_of_one_kind_of_server_is_checked_too() -> None:
    with pytest.raises(TypeError, match="'cache_prompt' must be True or False, not 'yes'"):
        make(CHAT, profile="llama.cpp", cache_prompt="yes")


@pytest.mark.parametrize(
    ("provider", "option", "near"),
    [
        (AsyncOpenAIProvider, "max_tokens", "max_output_tokens"),
        (AsyncOllamaProvider, "max_tokens", "num_predict"),
        (AsyncAnthropicProvider, "max_output_tokens", "max_tokens"),
        (CHAT, "num_predict", "max_tokens, max_completion_tokens"),
        (AsyncAnthropicProvider, "stop", "stop_sequences"),
        (CHAT, "stop_sequences", "stop"),
        (AsyncAnthropicProvider, "response_format", "output, output_config"),
        (AsyncOpenAIProvider, "response_format", "output, text"),
        (CHAT, "output_config", "output, response_format"),
        (AsyncOllamaProvider, "response_format", "output, format"),
        (AsyncOpenAIProvider, "cache_control", "prompt_cache_key"),
        (AsyncAnthropicProvider, "prompt_cache_key", "cache_control"),
        (AsyncOpenAIProvider, "reasoning_effort", "reasoning"),
        (AsyncAnthropicProvider, "reasoning_effort", "thinking"),
        (AsyncOllamaProvider, "thinking", "think"),
    ],
)
def test_an_option_of_another_api_is_refused_with_its_name_here(
    provider: Any, option: str, near: str
) -> None:
    with pytest.raises(TypeError, match=rf"unknown option '{option}' \(near: {near}\)"):
        make(provider, **{option: 1})


@pytest.mark.parametrize("mark", [True, "ephemeral", {}, {"type": 5}])
def test_a_cache_mark_of_a_wrong_form_is_refused_before_it_is_sent(mark: Any) -> None:
    block = {"type": "text", "text": "long", "cache_control": mark}
    with pytest.raises(InvalidRequestError, match=r"'cache_control' must be a mapping such as \{'type'"):
        Messages.body([UserMessage(content=[block])])


def test_cache_marks_of_blocks_go_where_a_server_reads_them() -> None:
    mark = {"type": "ephemeral", "ttl": "1h"}
    blocks = [
        {"type": "text", "text": "long", "cache_control": mark},
        {"type": "image", "url": "https://h/x.png", "cache_control": mark},
        {"type": "text", "text": "short"},
    ]
    message = UserMessage(content=blocks)
    assert [one.get("cache_control") for one in Messages.body([message])["messages"][0]["content"]] == [
        mark,
        mark,
        None,
    ]
    assert "cache_control" not in str(Chat.body([message]))
    assert "cache_control" not in str(Ollama.body([message]))
    [sent] = wire_messages([message], PROFILES["openrouter"])
    assert [one.get("cache_control") for one in sent["content"]] == [mark, mark, None]


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({"type": "image"}, "must hold its image as 'url' or as 'base64'"),
        ({"type": "image", "path": "/tmp/x.png"}, "must hold its image as 'url' or as 'base64'"),
        ({"type": "image_url"}, "must hold its image as 'url' or as 'base64'"),
        ({"type": "image_url", "image_url": {"url": ""}}, "must hold its image as 'url' or as 'base64'"),
        ({"type": "image", "base64": b"QUJD"}, "base64 must be text, not bytes"),
        ({"type": "image", "data": 5}, "base64 must be text, not int"),
        ({"type": "image", "base64": "QUJ\nRA=="}, "without line breaks or a prefix, not 'QUJ"),
        ({"type": "image", "base64": "QUI"}, "base64.b64encode"),
        ({"type": "image", "base64": "Q=JD"}, "base64.b64encode"),
        ({"type": "image", "base64": "===="}, "base64.b64encode"),
        ({"type": "image", "base64": "data:image/png;base64,QUJD"}, "without line breaks or a prefix"),
        ({"type": "image", "base64": "QU_-"}, "base64.b64encode"),
        ({"type": "image", "base64": "漢字漢字"}, "base64.b64encode"),
        ({"type": "image", "base64": "QUJD", "media_type": "application/pdf"}, "not 'application/pdf'"),
        ({"type": "image", "url": "data:text/plain;base64,QUJD"}, "must be one such as 'image/png'"),
        ({"type": "image", "url": "/tmp/x.png"}, "must begin with http:// or https://"),
        ({"type": "image", "url": "file:///tmp/x.png"}, "must begin with http:// or https://"),
        ({"type": "image_url", "image_url": "data:image/svg+xml,<svg/>"}, "a data URL with base64"),
    ],
    ids=lambda value: str(value)[:30],
)
@pytest.mark.parametrize("form", [Chat, Messages, Responses, Ollama], ids=lambda form: form.name)
def test_an_image_that_no_api_would_take_is_refused_before_it_is_sent(
    form: type[Stream], block: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        form.body([UserMessage(content=[block])])


@pytest.mark.clause("C96")
def test_of_a_bad_image_url_no_credential_is_shown() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        Chat.body([UserMessage(content=[{"type": "image", "url": "ftp://me:s3cret@h/x.png"}])])
    assert "s3cret" not in str(caught.value)
    big = "%" * 10_000_000
    with pytest.raises(InvalidRequestError) as caught:
        Chat.body([UserMessage(content=[{"type": "image", "base64": big}])])
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("form", [Chat, Messages, Responses, Ollama], ids=lambda form: form.name)
@pytest.mark.parametrize("data", ["QQ==", "QUI=", "QUJD", "+/+/"])
def test_every_padding_of_base64_is_taken(form: type[Stream], data: str) -> None:
    for block in (
        {"type": "image", "base64": data, "media_type": "image/png"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        {"type": "image_url", "image_url": f"data:image/png;charset=binary;base64,{data}"},
    ):
        assert data in str(form.body([UserMessage(content=[block])]))
