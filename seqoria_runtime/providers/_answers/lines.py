"""Cuts a byte stream into lines, each a JSON object, however the bytes are cut.

Does no I/O and knows nothing of JSON. A line ends at LF only; blank lines are dropped.
"""

from .sse import ServerSentEvent

_MAX_LINE_BYTES = 64 * 1024 * 1024


class LineFraming:
    """A `Framing` for newline-delimited JSON, whose events have no type."""

    __slots__ = ("_pieces", "_size", "at_boundary")

    around = (b"", b"\n")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self.at_boundary = True

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Return the lines that these bytes complete. Raises `ValueError` for one of over 64 MiB."""
        first, *rest = data.split(b"\n")
        self._pieces.append(first)
        self._size += len(first)
        lines = []
        for piece in rest:
            lines.append(b"".join(self._pieces))
            self._pieces, self._size = [piece], len(piece)
        if self._size > _MAX_LINE_BYTES:
            raise ValueError(f"a line of more than {_MAX_LINE_BYTES} bytes")
        self.at_boundary = not self._size
        return [("", line) for line in lines if line.strip()]

    def close(self) -> list[ServerSentEvent]:
        """Return the last line if it has no line end."""
        last = b"".join(self._pieces)
        self._pieces = []
        return [("", last)] if last.strip() else []
