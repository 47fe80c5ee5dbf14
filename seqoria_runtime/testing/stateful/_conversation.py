"""Owns what is known of one conversation in a client's random life."""

from dataclasses import dataclass, field
from typing import Any

from seqoria_runtime._execution.streams.stream import Stream


@dataclass(eq=False)
class Conversation:
    """A history and the turn that is live on it, if one is."""

    name: str
    history: list[Any] = field(default_factory=list)
    turn: Stream[Any] | None = None
    streams: bool = False
    told: int = 0
    """How many outcomes of the live turn's round were told so far."""
    begun: bool = False
    answered: bool = False
    """Whether the live turn has told its last event, so that another one may follow it."""
    closing: bool = False

    def __repr__(self) -> str:
        return self.name
