"""Gives the parts of one response in the order in which they came, for formats that want them so.

Knows no wire format beyond the name of the one whose blocks are wanted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from seqoria_runtime.providers._json import dump

from .replay import AnsweredCall, Response


@dataclass(frozen=True, slots=True)
class PlacedCall:
    """A response's call, by its index, where it stood.

    `extras` are the fields of its block that go back as they came.
    """

    index: int
    call: AnsweredCall
    extras: Mapping[str, Any] = field(default_factory=dict)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments; none where they cannot be written as JSON."""
        try:
            dump(self.call.request.arguments)
        except (TypeError, ValueError):
            return {}
        return self.call.request.arguments


Part: TypeAlias = str | Mapping[str, Any] | PlacedCall
"""Text that has no block, a block as it came, or a call."""


def ordered_parts(response: Response, wire_format: str) -> Iterator[Part]:
    """Yield the parts. Without blocks of this format: the text, where it is not blank, and the calls."""
    left = dict(enumerate(response.calls))
    message = response.message
    if message is not None and message.wire_format == wire_format and message.blocks:
        for block in message.blocks:
            index = block.get("index")
            if block.get("type") != "tool_call":
                yield block
            elif isinstance(index, int) and index in left:
                extras = {key: block[key] for key in block if key not in {"type", "index"}}
                yield PlacedCall(index, left.pop(index), extras)
    elif response.text:
        yield response.text
    for index, call in left.items():
        yield PlacedCall(index, call)
