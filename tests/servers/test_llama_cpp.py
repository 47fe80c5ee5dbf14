"""Providers against llama.cpp's server with a real model, whose words are never asserted on."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from seqoria_runtime import AsyncAIClient
from seqoria_runtime.models import (
    AssistantMessage,
    ChatChunk,
    ToolCallRequest,
    ToolCallResult,
    ToolMessages,
    UserMessage,
)
from seqoria_runtime.models.errors import ContextLengthExceededError
from seqoria_runtime.providers import (
    AsyncAnthropicProvider,
    AsyncOpenAICompatibleProvider,
    AsyncOpenAIProvider,
    ModelRequest,
)
from seqoria_runtime.toolbox import LocalToolbox
from tests.support.histories import check_history

pytestmark = pytest.mark.real_time


class Person(BaseModel):
    role: Literal["user", "admin"]
    age: int = Field(ge=0, le=150)


KINDS: dict[str, tuple[Callable[..., Any], str, str, dict[str, Any]]] = {
    "chat": (AsyncOpenAICompatibleProvider, "/v1", "max_tokens", {"profile": "llama.cpp"}),
    "messages": (AsyncAnthropicProvider, "", "max_tokens", {}),
    "responses": (AsyncOpenAIProvider, "/v1", "max_output_tokens", {}),
}

kinds = pytest.mark.parametrize("kind", KINDS)


@asynccontextmanager
async def opened(kind: str, url: str, *, limit: int = 48, **options: Any) -> AsyncGenerator[Any]:
    make, path, limit_name, settings = KINDS[kind]
    options = {"temperature": 0, limit_name: limit, **settings, **options}
    async with make("smol", base_url=url + path, **options) as provider:
        yield provider


def asked(words: str) -> ModelRequest:
    return ModelRequest([UserMessage(content=words)])


@kinds
@pytest.mark.parametrize("stream", [True, False])
async def test_text_comes_with_its_usage(kind: str, llama_plain: str, stream: bool) -> None:
    async with opened(kind, llama_plain) as provider:
        if stream:
            *chunks, message = [event async for event in provider.stream(asked("Say hello."))]
            assert "".join(chunk.content for chunk in chunks) == message.content
        else:
            message = await provider.generate(asked("Say hello."))
    assert isinstance(message, AssistantMessage)
    assert message.content.strip()
    assert message.model == "smol"
    assert message.usage is not None
    assert message.usage.prompt_tokens > (message.usage.cached_tokens or 0)
    assert message.usage.completion_tokens > 0


@pytest.mark.parametrize("kind", ["chat", "responses"])
async def test_an_answer_may_begin_inside_a_character(kind: str, llama_plain: str) -> None:
    grammar = {"grammar": 'root ::= "😄 hi"'}
    async with opened(kind, llama_plain, extra_body=grammar) as provider:
        *_, message = [event async for event in provider.stream(asked("Say hello."))]
    assert message.content == "😄 hi"


@kinds
@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_that_the_limit_cut_says_so_where_the_server_does(
    kind: str, llama_plain: str, stream: bool
) -> None:
    async with opened(kind, llama_plain, limit=3) as provider:
        if stream:
            *_, message = [event async for event in provider.stream(asked("Tell a long story."))]
        else:
            message = await provider.generate(asked("Tell a long story."))
    assert message.finish_reason == ("completed" if kind == "responses" else "length")


@kinds
@pytest.mark.parametrize("stream", [True, False])
async def test_a_prompt_that_is_too_long_is_an_error_with_its_numbers(
    kind: str, llama_plain: str, stream: bool
) -> None:
    request = asked("hello " * 5000)
    async with opened(kind, llama_plain) as provider:
        with pytest.raises(ContextLengthExceededError) as caught:
            await (anext(provider.stream(request)) if stream else provider.generate(request))
    assert caught.value.status_code == 400
    assert (caught.value.tokens or 0) > 5000
    assert (caught.value.max_tokens or 0) < 5000


@kinds
async def test_a_stream_that_is_left_early_leaves_the_server_free(kind: str, llama_plain: str) -> None:
    async with opened(kind, llama_plain, limit=1500, temperature=1) as provider:
        for _ in range(3):
            events = provider.stream(asked("Tell a very long story."))
            assert isinstance(await anext(events), ChatChunk)
            await events.aclose()
    async with opened(kind, llama_plain, limit=3) as provider:
        assert (await provider.generate(asked("Say hello."))).content


@pytest.mark.clause("C6", "C91")
@kinds
@pytest.mark.parametrize("stream", [True, False])
async def test_a_turn_with_a_forced_call(kind: str, llama_tools: str, stream: bool) -> None:
    tools, cities = LocalToolbox(), []

    @tools.tool(description="Get the current weather for a city.")
    async def get_weather(city: str) -> str:
        cities.append(city)
        return "18C, sunny"

    history: list[Any] = []
    async with (
        opened(kind, llama_tools) as provider,
        AsyncAIClient([provider], local_toolbox=tools, system_prompt="") as client,
    ):
        ask = client.stream_chat if stream else client.chat
        async with ask(
            "What is the weather in Paris?", history=history, tool_choice="required", max_turns=2
        ) as turn:
            events = [event async for event in turn]
        rounds = [event for event in events if isinstance(event, ToolMessages)]
        assert len(cities) == sum(len(messages) for messages in rounds) // 2 >= 1
        assert isinstance(events[-1], AssistantMessage)
        async with client.chat("Thank you.", history=history) as turn:
            *_, answer = [event async for event in turn]
    assert isinstance(answer, AssistantMessage)
    check_history(history)


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_can_be_held_to_a_model_class(llama_plain: str, stream: bool) -> None:
    # In the other formats, the server overlooks what it is asked to hold to.
    async with opened("chat", llama_plain, limit=96, output=Person) as provider:
        question = asked("Ada is 36 years old. Who is she?")
        if stream:
            *_, message = [event async for event in provider.stream(question)]
        else:
            message = await provider.generate(question)
    assert isinstance(message, AssistantMessage)
    assert message.parsed(Person).role in {"user", "admin"}


@pytest.mark.case("I6")
@pytest.mark.clause("C91")
@pytest.mark.parametrize("other", KINDS)
@kinds
async def test_calls_of_one_provider_are_understood_by_another(
    kind: str, other: str, llama_tools: str
) -> None:
    tools = LocalToolbox()

    @tools.tool(description="Get the current weather for a city.")
    async def get_weather(city: str) -> str:
        return "18C, sunny"

    history: list[Any] = []
    async with (
        opened(kind, llama_tools) as provider,
        AsyncAIClient([provider], local_toolbox=tools, system_prompt="") as client,
        client.chat("Weather in Paris?", history=history, tool_choice="required", max_turns=1) as turn,
    ):
        assert [event async for event in turn]
    assert {type(message) for message in history} >= {ToolCallRequest, ToolCallResult}
    stored = [message.model_dump(mode="json") for message in history]
    async with (
        opened(other, llama_tools) as provider,
        AsyncAIClient([provider], system_prompt="") as client,
        client.chat("And what do you make of it?", history=stored) as turn,
    ):
        [answer] = [event async for event in turn]
    assert isinstance(answer, AssistantMessage)
    assert answer.content.strip()
