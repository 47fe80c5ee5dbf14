"""One interface to the wire formats of all providers, so that a test can cover all of them."""

import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

from seqoria_runtime.models import AssistantMessage, ChatChunk, ChatMessage, ToolCallRequestList, UserMessage
from seqoria_runtime.models.errors import LLMError
from seqoria_runtime.providers import ModelRequest, ModelResponse, ProviderEvent, ToolDefinition
from seqoria_runtime.providers._answers.encoded_request import EncodedRequest

ADD = ToolDefinition(
    "add", "Add two numbers.", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
)
NOW = ToolDefinition("now", "", {})

Body: TypeAlias = dict[str, Any]


def ids() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"new{next(numbers)}"


def sse(event: Mapping[str, Any], kind: str = "") -> bytes:
    named = f"event: {kind}\n" if kind else ""
    return f"{named}data: {json.dumps(event)}\n\n".encode()


@dataclass
class Read:
    """The result of an answer: its events, then a response or a failure."""

    events: list[ProviderEvent]
    response: ModelResponse | None
    failure: LLMError | None

    @property
    def text(self) -> str:
        return "".join(event.content for event in self.events if isinstance(event, ChatChunk))

    @property
    def thinking(self) -> str:
        return "".join(event.thinking or "" for event in self.events if isinstance(event, ChatChunk))

    @property
    def message(self) -> AssistantMessage:
        assert isinstance(self.response, AssistantMessage), (self.response, self.failure)
        return self.response

    @property
    def batch(self) -> ToolCallRequestList:
        assert isinstance(self.response, ToolCallRequestList), (self.response, self.failure)
        return self.response

    @property
    def beside(self) -> AssistantMessage:
        """The message that came with the calls."""
        assert self.batch.message is not None
        return self.batch.message

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        return [(call.name, call.arguments) for call in self.batch.tool_calls]

    @property
    def error(self) -> LLMError:
        assert self.failure is not None, self.response
        return self.failure

    def outcome(self) -> str:
        """The whole result of an answer, in a form that can be compared."""
        return repr((self.events, self.response, type(self.failure), str(self.failure)))


def read_with(exchange: EncodedRequest, pieces: Iterable[bytes], content_type: str) -> Read:
    """Read an answer that comes in these pieces, as the driver does."""
    decoder = exchange.decoder(content_type)
    events: list[ProviderEvent] = []
    for piece in pieces:
        events += decoder.feed(piece)
        if decoder.ended:
            break
    events += decoder.close()
    try:
        return Read(events, decoder.finish(), None)
    except LLMError as error:
        return Read(events, None, error)


class Stream(ABC):
    """A streamed answer under construction; every method adds to it."""

    name: str
    content_type = "text/event-stream"
    provider: Callable[..., Any]

    def __init__(self) -> None:
        self.data = b""
        self._place = -1

    @classmethod
    @abstractmethod
    def exchange(
        cls, request: ModelRequest | None = None, *, stream: bool = True, **options: Any
    ) -> EncodedRequest: ...

    @classmethod
    def body(
        cls,
        messages: Sequence[ChatMessage] = (UserMessage(content="hi"),),
        *,
        tools: Sequence[ToolDefinition] = (),
        tool_choice: str | None = None,
        stream: bool = True,
        **options: Any,
    ) -> Body:
        """The request's body as it goes over the wire."""
        request = ModelRequest(messages, tools=tools, tool_choice=tool_choice)
        made: Body = json.loads(cls.exchange(request, stream=stream, **options).body)
        return made

    @classmethod
    def read_pieces(cls, pieces: Iterable[bytes], *, request: ModelRequest | None = None) -> Read:
        return read_with(cls.exchange(request), pieces, cls.content_type)

    @classmethod
    def read_whole(cls, value: Any, *, request: ModelRequest | None = None) -> Read:
        exchange = cls.exchange(request, stream=False)
        return read_with(exchange, [json.dumps(value).encode()], "application/json; charset=utf-8")

    def read(self, *, request: ModelRequest | None = None) -> Read:
        return self.read_pieces([self.data], request=request)

    def raw(self, data: bytes) -> Self:
        self.data += data
        return self

    @abstractmethod
    def event(self, event: Mapping[str, Any]) -> Self:
        """Any event, framed."""

    @abstractmethod
    def start(self) -> Self: ...

    @abstractmethod
    def text(self, *pieces: str) -> Self: ...

    @abstractmethod
    def call(self, call_id: str | None, name: str | None, *fragments: str) -> Self:
        """A call; its fragments together are its arguments as JSON."""

    @abstractmethod
    def end(self, why: str = "stop") -> Self:
        """The end, with its mark; `why` is stop, calls or length."""

    @abstractmethod
    def error(self, kind: str, message: str) -> Self:
        """An error that comes as an event."""

    @classmethod
    @abstractmethod
    def called(cls, body: Body) -> list[tuple[str, str, dict[str, Any]]]:
        """The calls in a request: id, name and arguments."""

    @classmethod
    @abstractmethod
    def answered(cls, body: Body) -> list[tuple[str, str]]:
        """The results in a request: the id of the call and the text."""

    @classmethod
    @abstractmethod
    def offered(cls, body: Body) -> list[tuple[str, dict[str, Any]]]:
        """The tools in a request: name and schema."""
