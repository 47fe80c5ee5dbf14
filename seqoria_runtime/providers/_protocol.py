"""The provider protocol: the only seam between the runtime and a model.

Knows nothing of HTTP; a provider may be a script, a local model or a remote service.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from seqoria_runtime.models import (
    AssistantMessage,
    ChatChunk,
    ChatMessage,
    ToolCallRequestList,
    ToolCallStarted,
)
from seqoria_runtime.models.errors import ProviderProtocolError

ModelResponse: TypeAlias = AssistantMessage | ToolCallRequestList
ProviderEvent: TypeAlias = ChatChunk | ToolCallStarted | ModelResponse


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as the model sees it; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One question to a model.

    `messages` are this package's message models, in order. If `tools` is empty, `tool_choice` is
    `None`; otherwise it is "auto", "required", "none" or the name of a tool. `model` overrides the
    provider's own model for this request.
    """

    messages: Sequence[ChatMessage]
    tools: Sequence[ToolDefinition] = ()
    tool_choice: str | None = None
    model: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


class AsyncBaseProvider(ABC):
    """A model that can be asked, on either backend.

    Subclass it and implement `stream`. Raise `LLMError` for a failure after which another provider
    may answer instead; any other exception counts as a bug and is not caught.
    """

    @property
    def name(self) -> str:
        """The provider's name in errors and logs."""
        return type(self).__name__

    @abstractmethod
    def stream(self, request: ModelRequest) -> AsyncIterator[ProviderEvent]:
        """Yield the answer as it is made: `ChatChunk` and `ToolCallStarted` events, then the response.

        The last event is an `AssistantMessage` (the whole text) or a `ToolCallRequestList`; an
        iterator that ends without one has failed. An async generator is the usual form. The
        runtime iterates and closes it in one task; a cancelled iteration is closed at once.
        """

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """Return the response without streaming. The default reads `stream` to its end.

        A cancelled caller closes the stream.
        """
        events = self.stream(request)
        try:
            async for event in events:
                if isinstance(event, (ToolCallRequestList, AssistantMessage)):
                    return event
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()
        raise ProviderProtocolError(f"{self.name}'s stream ended without a response", provider=self.name)
