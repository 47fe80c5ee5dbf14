"""Keeps the text and the reasoning of one answer, and gives them out in chunks as they come.

Knows no wire format. The chunks of an answer add up to its text and its reasoning.
"""

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import TypeAdapter

from seqoria_runtime.models import ChatChunk
from seqoria_runtime.providers._json import HalfJoiner
from seqoria_runtime.providers._protocol import ProviderEvent

_NOTHING: tuple[ProviderEvent, ...] = ()
# About a third less than calling the class, on the one path that runs for every delta.
_make_chunk: Callable[[dict[str, Any]], ChatChunk] = TypeAdapter(ChatChunk).validator.validate_python


class AnswerText:
    """What one answer said and thought so far."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._thought: object = None
        self._joiners: tuple[HalfJoiner, HalfJoiner] | None = None

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def thinking(self) -> str:
        return "".join(self._thinking)

    @property
    def has_halves(self) -> bool:
        """Text may be cut inside a surrogate pair."""
        return self._joiners is not None

    def expect_halves(self) -> None:
        self._joiners = self._joiners or (HalfJoiner(), HalfJoiner())

    def add(self, text: str) -> Sequence[ProviderEvent]:
        """Add a piece of the text."""
        if self._joiners is not None:
            text = self._joiners[0].join(text)
        if not text:
            return _NOTHING
        self._text.append(text)
        return (_make_chunk({"content": text}),)

    def add_thinking(self, text: str, part: object) -> Sequence[ProviderEvent]:
        """Add a piece of the reasoning; one of another part than the last stands a line apart."""
        if self._joiners is not None:
            text = self._joiners[1].join(text)
        if not text:
            return _NOTHING
        if self._thinking and part != self._thought:
            text = f"\n\n{text}"
        self._thought = part
        self._thinking.append(text)
        return (_make_chunk({"thinking": text}),)
