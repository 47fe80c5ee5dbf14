"""Keeps the text and the reasoning of one answer, and makes the chunks that pass them on.

The chunks of an answer add up to its text and its reasoning.
"""

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import TypeAdapter

from seqoria_runtime.models import ChatChunk
from seqoria_runtime.providers._json import SurrogateJoiner
from seqoria_runtime.providers._protocol import ProviderEvent

NOTHING: tuple[ProviderEvent, ...] = ()
# About a third cheaper than calling the class, on the one path that runs for every delta.
_make_chunk: Callable[[dict[str, Any]], ChatChunk] = TypeAdapter(ChatChunk).validator.validate_python


class AnswerText:
    """The text and the reasoning of one answer so far."""

    def __init__(self) -> None:
        self._content: list[str] = []
        self._thinking: list[str] = []
        self._thinking_part: object = None
        self._joiners = (SurrogateJoiner(), SurrogateJoiner())
        self.has_surrogates = False

    @property
    def content(self) -> str:
        return "".join(self._content)

    @property
    def thinking(self) -> str:
        return "".join(self._thinking)

    def expect_surrogates(self) -> None:
        """Expect text that is cut inside a surrogate pair from now on."""
        self.has_surrogates = True

    def add(self, content: str = "", thinking: str = "", part: object = None) -> Sequence[ProviderEvent]:
        """Add a piece of the text, of the reasoning or of both, and return its chunk, if it has one.

        Reasoning that belongs to another `part` than the last piece starts a new paragraph.
        """
        if self.has_surrogates:
            content, thinking = self._joiners[0].join(content), self._joiners[1].join(thinking)
        if thinking:
            return self._add_thinking(content, thinking, part)
        if not content:
            return NOTHING
        self._content.append(content)
        return (_make_chunk({"content": content}),)

    def _add_thinking(self, content: str, thinking: str, part: object) -> Sequence[ProviderEvent]:
        if self._thinking and part != self._thinking_part:
            thinking = f"\n\n{thinking}"
        self._thinking_part = part
        self._thinking.append(thinking)
        self._content.append(content)
        return (_make_chunk({"content": content, "thinking": thinking}),)
