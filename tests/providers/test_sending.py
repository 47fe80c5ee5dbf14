"""Requests on used connections, over real sockets."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from seqoria_runtime.models import AssistantMessage, UserMessage
from seqoria_runtime.models.errors import ProviderConnectionError
from seqoria_runtime.providers import AsyncOllamaProvider, ModelRequest
from tests.support.sockets import Asked, serve_http

pytestmark = pytest.mark.real_time

REQUEST = ModelRequest([UserMessage(content="hi")])
ANSWER = json.dumps({"message": {"role": "assistant", "content": "ok"}, "done": True}).encode()


@dataclass
class Server:
    """Answers the first `healthy` requests on each connection, and treats further ones in another way."""

    healthy: int
    treat: Callable[[Asked], Awaitable[None]]
    streams: list[Any] = field(default_factory=list)

    async def __call__(self, asked: Asked) -> None:
        self.streams.append(asked.stream)
        if self.streams.count(asked.stream) > self.healthy:
            await self.treat(asked)
        else:
            await asked.respond(200, ANSWER, content_type="application/json")

    @property
    def connections(self) -> int:
        return len({id(stream) for stream in self.streams})


async def hang_up(asked: Asked) -> None:
    asked.close_after = True


async def reset(asked: Asked) -> None:
    await asked.abort()


async def begin(asked: Asked) -> None:
    await asked.send(
        b'HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ncontent-length: 99\r\n\r\n{"mess'
    )
    asked.close_after = True


@asynccontextmanager
async def opened(server: Server) -> AsyncGenerator[AsyncOllamaProvider]:
    async with serve_http(server) as url, AsyncOllamaProvider("m", base_url=url) as provider:
        yield provider


@pytest.mark.clause("C93")
@pytest.mark.parametrize("treat", [hang_up, reset])
async def test_a_request_that_is_lost_on_an_old_connection_goes_out_on_a_new_one(
    treat: Callable[[Asked], Awaitable[None]],
) -> None:
    server = Server(1, treat)
    async with opened(server) as provider:
        for _ in range(3):
            response = await provider.generate(REQUEST)
            assert isinstance(response, AssistantMessage)
            assert response.content == "ok"
    assert (len(server.streams), server.connections) == (5, 3)


@pytest.mark.clause("C93")
@pytest.mark.parametrize("treat", [hang_up, reset])
async def test_a_request_that_is_lost_on_a_new_connection_is_an_error(
    treat: Callable[[Asked], Awaitable[None]],
) -> None:
    server = Server(0, treat)
    async with opened(server) as provider:
        with pytest.raises(ProviderConnectionError):
            await provider.generate(REQUEST)
    assert len(server.streams) == 1


@pytest.mark.clause("C92", "C93")
async def test_a_request_is_never_sent_again_once_its_answer_has_started() -> None:
    server = Server(1, begin)
    async with opened(server) as provider:
        await provider.generate(REQUEST)
        with pytest.raises(ProviderConnectionError):
            await anext(provider.stream(REQUEST))
    assert (len(server.streams), server.connections) == (2, 1)
