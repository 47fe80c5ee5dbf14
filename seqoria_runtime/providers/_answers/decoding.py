"""Decodes the bytes of an answer: framing, JSON, the end mark, and failures after the events before them.

Knows no wire format: an `Answer` says what an event means.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

from seqoria_runtime._base.redaction import bounded, redact
from seqoria_runtime.models.errors import LLMError, ProviderProtocolError
from seqoria_runtime.providers._json import parse_strict, parse_with_surrogates
from seqoria_runtime.providers._protocol import ModelResponse, ProviderEvent

from .answer import Answer
from .answer_text import NOTHING
from .delta_templates import DeltaTemplates
from .json_values import MalformedAnswerError
from .sse import ServerSentEvent

_DONE = b"[DONE]"
_MAX_BODY_BYTES = 64 * 1024 * 1024


class Framing(Protocol):
    """Cuts bytes into events, each with a type, which may be empty, and its data.

    `around` are the bytes that usually surround the data of an event without a type; `at_boundary`
    is true when the next byte starts an event.
    """

    around: tuple[bytes, bytes]
    at_boundary: bool

    def feed(self, data: bytes) -> list[ServerSentEvent]: ...

    def close(self) -> list[ServerSentEvent]: ...


class Decoder(ABC):
    """Turns the bytes of one answer into events, however the bytes are cut.

    A failure in the bytes never overtakes the events before it: `feed` and `close` return those and
    never raise, and `finish` raises. `complete` is true once the end mark was seen; more, such as
    the usage, may follow. `ended` is true once nothing that follows is of use.
    """

    __slots__ = ("_answer", "_failure", "complete", "ended")

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._failure: LLMError | None = None
        self.complete = False
        self.ended = False

    @abstractmethod
    def feed(self, data: bytes) -> Sequence[ProviderEvent]:
        """Take bytes as they came off the wire."""

    @abstractmethod
    def close(self) -> Sequence[ProviderEvent]:
        """Take the end of the bytes."""

    def finish(self) -> ModelResponse:
        """Return the response. Raises `LLMError` for an answer that failed or was cut short."""
        if self._failure is not None:
            raise self._failure
        return self._answer.finish()

    def _fail(self, error: LLMError) -> Sequence[ProviderEvent]:
        self._failure = error
        self.complete = self.ended = True
        return NOTHING


class StreamDecoder(Decoder):
    """Decodes a stream of events, each a JSON object, with or without a final `[DONE]`.

    With `trailer`, something of use, such as the usage, may follow the answer's end mark.
    """

    __slots__ = ("_framing", "_templates", "_trailer")

    def __init__(self, answer: Answer, framing: Framing, *, trailer: bool) -> None:
        super().__init__(answer)
        self._framing = framing
        self._trailer = trailer
        self._templates = DeltaTemplates(answer.text_key, framing.around)

    def feed(self, data: bytes) -> Sequence[ProviderEvent]:
        if self.ended:
            return NOTHING
        if self._framing.at_boundary:
            text = self._templates.in_read.match(data)
            if text is not None:
                return self._answer.text.add(text)
        try:
            frames = self._framing.feed(data)
        except ValueError as error:
            return self._fail(_malformed("stream event", str(error), b""))
        return self._take(frames)

    def close(self) -> Sequence[ProviderEvent]:
        return NOTHING if self.ended else self._take(self._framing.close())

    def _take(self, frames: list[ServerSentEvent]) -> Sequence[ProviderEvent]:
        if len(frames) == 1:
            kind, data = frames[0]
            return self._take_one(kind, data)
        events: list[ProviderEvent] = []
        for kind, data in frames:
            events += self._take_one(kind, data)
            if self.ended:
                break
        return events

    def _take_one(self, kind: str, data: bytes) -> Sequence[ProviderEvent]:
        if not kind:
            text = self._templates.in_event.match(data)
            if text is not None:
                return self._answer.text.add(text)
        try:
            event = parse_strict(data)
        except ValueError:
            event = self._parse_odd(kind, data)
            if event is None:
                return NOTHING
        events = self._pass_on(kind, event, data)
        if not kind and self._answer.plain_text:
            self._templates.learn(data, self._answer.plain_text)
        return events

    def _pass_on(self, kind: str, event: Any, data: bytes) -> Sequence[ProviderEvent]:
        try:
            if event.__class__ is dict:
                events = self._answer.take(kind, event)
                self.complete = self._answer.complete
                self.ended = self.complete and not self._trailer
                return events
            raise MalformedAnswerError("not an object")
        except MalformedAnswerError as error:
            return self._fail(_malformed("stream event", str(error), data))
        except LLMError as error:
            return self._fail(error)

    def _parse_odd(self, kind: str, data: bytes) -> Any:
        """Parse what is not strict JSON; `None` if there is nothing to pass on."""
        if data.strip() == _DONE:
            self.complete = self.ended = True
            self._answer.take_done_mark()
            return None
        try:
            event = parse_with_surrogates(data)
        except ValueError as error:
            if kind == "error":
                return {"error": data.decode("utf-8", "replace")}
            # An event of an unknown type may hold anything; only the format's own must be JSON.
            if kind in self._answer.kinds:
                self._fail(_malformed("stream event", str(error), data))
            return None
        self._answer.text.expect_surrogates()
        return event


class WholeDecoder(Decoder):
    """Decodes an answer that is one JSON object."""

    __slots__ = ("_pieces", "_size")

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Sequence[ProviderEvent]:
        self._size += len(data)
        if self._size > _MAX_BODY_BYTES:
            return self._fail(ProviderProtocolError(f"malformed response: more than {_MAX_BODY_BYTES} bytes"))
        self._pieces.append(data)
        return NOTHING

    def close(self) -> Sequence[ProviderEvent]:
        if self.ended:
            return NOTHING
        self.ended = True
        body = b"".join(self._pieces)
        try:
            return self._answer.take_whole(self._parse(body))
        except (MalformedAnswerError, ValueError) as error:
            return self._fail(_malformed("response", str(error), body))
        except LLMError as error:
            return self._fail(error)

    def _parse(self, body: bytes) -> dict[str, Any]:
        try:
            value = parse_strict(body)
        except ValueError:
            value = parse_with_surrogates(body)
            self._answer.text.expect_surrogates()
        if not isinstance(value, dict):
            raise MalformedAnswerError("not a JSON object")
        return value


def _malformed(what: str, why: str, data: bytes) -> ProviderProtocolError:
    shown = bounded(redact(data.decode("utf-8", "replace")), 200)
    return ProviderProtocolError(f"malformed {what} ({why}): {shown}")
