"""The seam between the codecs, which know wire formats, and the driver, which knows HTTP.

A codec turns a `ModelRequest` into an `Exchange`; the driver sends its body and feeds what comes
back to a `Decoder` of it. Neither side does the other's work, so both are tested alone.
"""

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from seqoria_runtime.providers._protocol import ModelResponse, ProviderEvent


class MalformedAnswerError(Exception):
    """Raised by an `Answer` for a part of another shape than its format's; the text says what it found."""


class Decoder(Protocol):
    """Makes events of the bytes of one answer, in whatever pieces they come.

    A failure that the bytes hold does not get in front of the events before it: `feed` and
    `close` return those and never raise, and `finish` raises.
    """

    @property
    def complete(self) -> bool:
        """The answer's end mark was seen; more may follow it (its usage, for one)."""

    @property
    def ended(self) -> bool:
        """Nothing that follows is of any use: the last mark was seen, or a failure."""

    def feed(self, data: bytes) -> Sequence[ProviderEvent]:
        """Take bytes as they came off the wire."""

    def close(self) -> Sequence[ProviderEvent]:
        """Take note of the end of the bytes."""

    def finish(self) -> ModelResponse:
        """Give the whole response. Raises `LLMError` for one that failed or was cut short."""


class Exchange(Protocol):
    """One question, ready to be sent any number of times, and the reading of its answers."""

    @property
    def path(self) -> str:
        """Where it goes, below the provider's base URL."""

    @property
    def body(self) -> bytes: ...

    @property
    def model(self) -> str: ...

    def decoder(self, content_type: str) -> Decoder:
        """Give a new decoder for an answer of this media type; every attempt has its own."""


class Answer(Protocol):
    """What a wire format's events add up to; knows nothing of bytes.

    Its methods raise `LLMError` for a failure that the server reports and `MalformedAnswerError`.
    """

    @property
    def complete(self) -> bool: ...

    @property
    def kinds(self) -> Collection[str]:
        """The SSE types of its events; what comes under another may be no JSON."""

    @property
    def text_key(self) -> str:
        """The JSON key under which its events have their text."""

    @property
    def plain_text(self) -> str:
        """The text of the last event, where that held nothing else; empty otherwise."""

    def repeat(self, text: str) -> Sequence[ProviderEvent]:
        """Add the last plain event once more, with another text."""

    def take(self, kind: str, event: dict[str, Any]) -> Sequence[ProviderEvent]:
        """Add one event of a stream; `kind` is its SSE type, empty where the format has none."""

    def take_whole(self, body: dict[str, Any]) -> Sequence[ProviderEvent]:
        """Add an answer that was not streamed."""

    def expect_halves(self) -> None:
        """From now on, text may be cut inside a surrogate pair."""

    def end(self) -> None:
        """Take note of the end mark that is not itself an event."""

    def finish(self) -> ModelResponse: ...
