"""One question of a format whose answers are a stream of JSON events or one JSON object."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import uuid4

from seqoria_runtime.models.errors import InvalidRequestError
from seqoria_runtime.providers._json import dump

from .decoding import EventStreamDecoder, Framing, WholeDecoder
from .lines import LineFraming
from .sse import SSEDecoder
from .wire import Answer, Decoder

NewId: TypeAlias = Callable[[], str]


def new_id() -> str:
    return uuid4().hex


@dataclass(frozen=True, slots=True, kw_only=True)
class JSONExchange:
    """An `Exchange` as the driver wants it; nothing of use follows the end mark of its answers."""

    path: str
    body: bytes
    model: str
    answer: Callable[[], Answer]
    framing: Callable[[], Framing] = SSEDecoder
    stream: bool

    def decoder(self, content_type: str) -> Decoder:
        is_json = content_type.partition(";")[0].strip().lower() == "application/json"
        # A stream of lines may call itself JSON too, and one line is an answer in a piece as well.
        if is_json and not (self.stream and self.framing is LineFraming):
            return WholeDecoder(self.answer())
        return EventStreamDecoder(self.answer(), self.framing(), trailer=False)


def encoded(body: Mapping[str, Any]) -> bytes:
    """Write a request's body. Raises `InvalidRequestError` for what JSON cannot hold."""
    try:
        return dump(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(f"the request cannot be written as JSON: {error}") from error
