"""What an answer is to its decoder, and how a model's answer ends, whatever its wire format.

A subclass reads the events of one format and says what they add up to. Knows nothing of bytes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, TypedDict, Unpack
from uuid import uuid4

from seqoria_runtime.models import AssistantMessage, LLMUsage, ToolCallRequestList
from seqoria_runtime.models.errors import ContentFilterError, ProviderProtocolError
from seqoria_runtime.providers._protocol import ModelResponse, ProviderEvent

from .answer_text import AnswerText
from .call_parts import CallParts, tool_call_requests
from .json_values import join_surrogates_in

NewId: TypeAlias = Callable[[], str]


def new_id() -> str:
    return uuid4().hex


class Answer(ABC):
    """What the events of one answer add up to.

    `complete` is true once the answer's end mark was seen. `plain_text` is the text of the last
    event if that held nothing else, under the JSON key `text_key`. `kinds` are the SSE types of the
    format's events; an event of another type need not be JSON. The methods raise `LLMError` for a
    failure that the server reports, and `MalformedAnswerError`.
    """

    kinds: ClassVar[Collection[str]] = frozenset({"", "message"})
    text_key: ClassVar[str] = "text"

    def __init__(self) -> None:
        self.complete = False
        self.plain_text = ""
        self.text = AnswerText()

    @abstractmethod
    def take(self, kind: str, event: dict[str, Any]) -> Sequence[ProviderEvent]:
        """Add one event of a stream; `kind` is its SSE type, empty if the format has none."""

    @abstractmethod
    def take_whole(self, body: dict[str, Any]) -> Sequence[ProviderEvent]:
        """Add an answer that was not streamed."""

    def take_done_mark(self) -> None:
        """Ignore `[DONE]`; most formats have an end event, and only that proves the answer complete."""
        return

    @abstractmethod
    def finish(self) -> ModelResponse:
        """Return the response. Raises `LLMError` for an answer that failed or was cut short."""


class AnswerOptions(TypedDict):
    """What every model's answer is made with; `real_name` maps a sent tool name back to the tool's."""

    model: str
    real_name: Callable[[str], str]
    new_id: NewId


class ModelAnswer(Answer):
    """A model's answer: how it ends, and the response it becomes.

    `limits`, `withheld` and `call_reasons` are the format's words for an answer that a limit cut,
    that a content filter withheld, and that ended to have tools called.
    """

    wire_format: ClassVar[str]
    limits: ClassVar[Collection[str]] = frozenset()
    withheld: ClassVar[Collection[str]] = frozenset({"content_filter"})
    call_reasons: ClassVar[Collection[str]] = frozenset()

    def __init__(self, **options: Unpack[AnswerOptions]) -> None:
        super().__init__()
        self._asked_model = options["model"]
        self._real_name = options["real_name"]
        self._new_id = options["new_id"]
        self._started = False
        self._model: str | None = None
        self._reason = ""
        self._counts: Mapping[str, Any] = {}

    def finish(self) -> ModelResponse:
        if not self.complete:
            raise ProviderProtocolError("the answer ended without a completion event")
        if not self._started:
            raise ProviderProtocolError("the answer ended without a response")
        self._raise_if_failed()
        calls = self._calls()
        response_id = self._new_id()
        message = self._message(response_id)
        if not calls:
            return message
        requests = tool_call_requests(
            calls,
            response_id=response_id,
            new_id=self._new_id,
            real_name=self._real_name,
            limited=self._limited(),
        )
        has_more = message.content.strip() or message.thinking or message.blocks
        return ToolCallRequestList(
            tool_calls=requests, usage=message.usage, message=message if has_more else None
        )

    def _message(self, response_id: str) -> AssistantMessage:
        blocks = self._blocks()
        return AssistantMessage(
            content=self.text.content,
            thinking=self.text.thinking or None,
            model=self._model or self._asked_model,
            usage=self._usage(),
            finish_reason=self._finish_reason(),
            response_id=response_id,
            wire_format=self.wire_format if blocks else None,
            blocks=(join_surrogates_in(blocks) if self.text.has_surrogates else blocks) or None,
        )

    def _raise_if_failed(self) -> None:
        """Raise `LLMError` if the end of the answer says that it failed."""
        if self._reason in self.withheld:
            error = ContentFilterError("the provider's content filter withheld the answer")
            error.filter_reason = self._reason
            raise error
        if self._reason in self.call_reasons and not self._calls() and not self.text.content:
            raise ProviderProtocolError("the answer ended before tool calls completed")

    @abstractmethod
    def _calls(self) -> Sequence[CallParts]: ...

    @abstractmethod
    def _blocks(self) -> list[dict[str, Any]]:
        """Return what has to go back as it came, with places for the calls; empty if nothing has to."""

    @abstractmethod
    def _usage(self) -> LLMUsage | None: ...

    def _finish_reason(self) -> str | None:
        return "length" if self._reason in self.limits else self._reason or None

    def _limited(self) -> bool:
        """Whether a limit ended the answer, so that its last call may be cut."""
        return self._reason in self.limits


def call_block(index: int, extras: Mapping[str, Any]) -> dict[str, Any]:
    """Make the block that marks the place of a response's call with this index."""
    return {**extras, "type": "tool_call", "index": index}
