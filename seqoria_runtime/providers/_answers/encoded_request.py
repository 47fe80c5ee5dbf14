"""One request as a wire format writes it: the bytes to send, and how to decode the answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from seqoria_runtime.models.errors import InvalidRequestError
from seqoria_runtime.providers._json import dump

from .answer import Answer
from .decoding import Decoder, Framing, StreamDecoder, WholeDecoder
from .lines import LineFraming
from .sse import SSEFraming


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRequest:
    """A request that can be sent any number of times.

    `path` is below the provider's base URL. With `trailer`, something of use, such as the usage,
    may follow the end mark of a streamed answer.
    """

    path: str
    body: bytes
    model: str
    answer: Callable[[], Answer]
    framing: Callable[[], Framing] = SSEFraming
    trailer: bool = False
    stream: bool

    def decoder(self, content_type: str) -> Decoder:
        """Return a new decoder for an answer of this media type; every attempt takes its own."""
        is_json = content_type.partition(";")[0].strip().lower() == "application/json"
        # A stream of lines may call itself JSON too, and its decoder reads a single object as well.
        if is_json and not (self.stream and self.framing is LineFraming):
            return WholeDecoder(self.answer())
        return StreamDecoder(self.answer(), self.framing(), trailer=self.trailer)


def write_body(body: Mapping[str, Any]) -> bytes:
    """Write a request's body. Raises `InvalidRequestError` for what JSON cannot hold."""
    try:
        return dump(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(f"the request cannot be written as JSON: {error}") from error
