"""From bytes to a codec's `Answer`: framing, JSON, the end mark, and where a failure belongs.

Knows no wire format beyond that: what an event means is the answer's business.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from seqoria_runtime._base.redaction import bounded, redact
from seqoria_runtime.models.errors import LLMError, ProviderProtocolError
from seqoria_runtime.providers._json import parse_strict, parse_with_halves
from seqoria_runtime.providers._protocol import ModelResponse, ProviderEvent

from .repeats import RepeatedText
from .sse import ServerSentEvent, SSEDecoder
from .wire import Answer, MalformedAnswerError

_DONE = b"[DONE]"
_MAX_BODY_BYTES = 64 * 1024 * 1024
_NOTHING: tuple[ProviderEvent, ...] = ()


class Framing(Protocol):
    """Cuts bytes into events with a kind, which may be empty, and their data.

    `around` is what usually stands around the data of an event without a kind; `at_boundary` tells
    that the next byte begins an event.
    """

    around: tuple[bytes, bytes]
    at_boundary: bool

    def feed(self, data: bytes) -> list[ServerSentEvent]: ...

    def close(self) -> list[ServerSentEvent]: ...


class EventStreamDecoder:
    """Decodes a stream of events, each a JSON object, with or without a last `[DONE]`.

    They are server-sent events unless another `framing` is given. `trailer` tells that something of
    use, the usage for one, may follow the answer's end mark.
    """

    __slots__ = ("_answer", "_failure", "_framing", "_repeated", "_trailer", "complete", "ended")

    def __init__(self, answer: Answer, framing: Framing | None = None, *, trailer: bool = True) -> None:
        self._answer = answer
        self._framing = framing or SSEDecoder()
        self._trailer = trailer
        self._repeated = RepeatedText(answer.text_key, self._framing.around)
        self._failure: LLMError | None = None
        self.complete = False
        self.ended = False

    def feed(self, data: bytes) -> Sequence[ProviderEvent]:
        if self.ended:
            return _NOTHING
        if self._framing.at_boundary:
            text = self._repeated.in_read.match(data)
            if text is not None:
                return self._answer.repeat(text)
        try:
            frames = self._framing.feed(data)
        except ValueError as error:
            return self._fail(_malformed("stream event", str(error), b""))
        return self._take(frames)

    def close(self) -> Sequence[ProviderEvent]:
        return _NOTHING if self.ended else self._take(self._framing.close())

    def finish(self) -> ModelResponse:
        if self._failure is not None:
            raise self._failure
        return self._answer.finish()

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
            text = self._repeated.in_event.match(data)
            if text is not None:
                return self._answer.repeat(text)
        try:
            event = parse_strict(data)
        except ValueError:
            event = self._parsed_odd(kind, data)
            if event is None:
                return _NOTHING
        events = self._hand_over(kind, event, data)
        if not kind and self._answer.plain_text:
            self._repeated.learn(data, self._answer.plain_text)
        return events

    def _hand_over(self, kind: str, event: Any, data: bytes) -> Sequence[ProviderEvent]:
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

    def _parsed_odd(self, kind: str, data: bytes) -> Any:
        """Read what is no strict JSON; `None` where there is nothing to hand on."""
        if data.strip() == _DONE:
            self.complete = self.ended = True
            self._answer.end()
            return None
        try:
            event = parse_with_halves(data)
        except ValueError as error:
            if kind == "error":
                return {"error": data.decode("utf-8", "replace")}
            # An event of an unknown type may hold anything; only the answer's own must be JSON.
            if kind in self._answer.kinds:
                self._fail(_malformed("stream event", str(error), data))
            return None
        self._answer.expect_halves()
        return event

    def _fail(self, error: LLMError) -> Sequence[ProviderEvent]:
        self._failure = error
        self.complete = self.ended = True
        return _NOTHING


def _malformed(what: str, why: str, data: bytes) -> ProviderProtocolError:
    shown = bounded(redact(data.decode("utf-8", "replace")), 200)
    return ProviderProtocolError(f"malformed {what} ({why}): {shown}")


class WholeDecoder:
    """Decodes an answer that is one JSON object."""

    __slots__ = ("_answer", "_failure", "_pieces", "_size", "ended")

    complete = False

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._failure: LLMError | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self.ended = False

    def feed(self, data: bytes) -> Sequence[ProviderEvent]:
        self._size += len(data)
        if self._size > _MAX_BODY_BYTES:
            return self._fail(ProviderProtocolError(f"malformed response: more than {_MAX_BODY_BYTES} bytes"))
        self._pieces.append(data)
        return _NOTHING

    def close(self) -> Sequence[ProviderEvent]:
        if self.ended:
            return _NOTHING
        self.ended = True
        body = b"".join(self._pieces)
        try:
            return self._answer.take_whole(self._parsed(body))
        except (MalformedAnswerError, ValueError) as error:
            return self._fail(_malformed("response", str(error), body))
        except LLMError as error:
            return self._fail(error)

    def finish(self) -> ModelResponse:
        if self._failure is not None:
            raise self._failure
        return self._answer.finish()

    def _parsed(self, body: bytes) -> dict[str, Any]:
        try:
            value = parse_strict(body)
        except ValueError:
            value = parse_with_halves(body)
            self._answer.expect_halves()
        if not isinstance(value, dict):
            raise MalformedAnswerError("not a JSON object")
        return value

    def _fail(self, error: LLMError) -> Sequence[ProviderEvent]:
        self._failure = error
        self.ended = True
        return _NOTHING
