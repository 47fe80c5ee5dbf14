"""What the answers of several wire formats have in common: how one ends, and what it is made into.

Knows no wire format; a subclass reads the events of one and tells what they add up to.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

from seqoria_runtime.models import AssistantMessage, LLMUsage, ToolCallRequestList
from seqoria_runtime.models.errors import ContentFilterError, ProviderProtocolError
from seqoria_runtime.providers._protocol import ModelResponse, ProviderEvent
from seqoria_runtime.providers._requests.wire_names import WireNames

from .answer_text import AnswerText
from .call_parts import CallParts, requests_of
from .exchange import NewId

NOTHING: tuple[ProviderEvent, ...] = ()


class StreamAnswer(ABC):
    """One answer; an `Answer` as the decoders want it."""

    kinds: ClassVar[Collection[str]] = frozenset({"", "message"})
    text_key = "text"
    plain_text = ""
    wire_format: ClassVar[str]

    def __init__(self, *, model: str, names: WireNames, new_id: NewId) -> None:
        self.complete = False
        self._asked_model = model
        self._names = names
        self._new_id = new_id
        self._begun = False
        self._model: str | None = None
        self._said = AnswerText()

    def expect_halves(self) -> None:
        self._said.expect_halves()

    def repeat(self, text: str) -> Sequence[ProviderEvent]:
        return self._said.add(text)

    def end(self) -> None:
        """Take no note of an end mark that these formats do not have, and which proves nothing."""
        return

    @abstractmethod
    def take(self, kind: str, event: dict[str, Any]) -> Sequence[ProviderEvent]: ...

    @abstractmethod
    def take_whole(self, body: dict[str, Any]) -> Sequence[ProviderEvent]: ...

    def finish(self) -> ModelResponse:
        if not self.complete:
            raise ProviderProtocolError("the answer ended without a completion event")
        if not self._begun:
            raise ProviderProtocolError("the answer ended without a response")
        self._refuse_failed_ends()
        calls = self._calls()
        response_id = self._new_id()
        usage = self._usage()
        message = self._message(response_id, usage)
        if not calls:
            return message
        requests = requests_of(
            calls,
            response_id=response_id,
            new_id=self._new_id,
            real_name=self._names.real,
            limited=self._limited(),
        )
        beside = message.content.strip() or message.thinking or message.blocks
        return ToolCallRequestList(tool_calls=requests, usage=usage, message=message if beside else None)

    def _message(self, response_id: str, usage: LLMUsage | None) -> AssistantMessage:
        blocks = self._blocks()
        return AssistantMessage(
            content=self._said.text,
            thinking=self._said.thinking or None,
            model=self._model or self._asked_model,
            usage=usage,
            finish_reason=self._finish_reason(),
            response_id=response_id,
            wire_format=self.wire_format if blocks else None,
            blocks=blocks or None,
        )

    @abstractmethod
    def _refuse_failed_ends(self) -> None:
        """Raise `LLMError` where the end of the answer says that it failed."""

    @abstractmethod
    def _calls(self) -> Sequence[CallParts]: ...

    @abstractmethod
    def _blocks(self) -> list[dict[str, Any]]:
        """Give what has to go back as it came, with places for the calls; nothing where nothing has."""

    @abstractmethod
    def _usage(self) -> LLMUsage | None: ...

    @abstractmethod
    def _finish_reason(self) -> str | None: ...

    @abstractmethod
    def _limited(self) -> bool:
        """Whether a limit ended the answer, so that its last call may be cut."""


def withheld(reason: str) -> ContentFilterError:
    """Make the error of an answer that the provider's filter withheld."""
    error = ContentFilterError("the provider's content filter withheld the answer")
    error.filter_reason = reason
    return error


def place_of_call(index: int, extras: dict[str, Any]) -> dict[str, Any]:
    """Make the block that stands for a response's call of this index."""
    return {**extras, "type": "tool_call", "index": index}
