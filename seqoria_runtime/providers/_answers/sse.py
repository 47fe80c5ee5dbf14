"""Cuts a byte stream into server-sent events, however the bytes are cut.

Does no I/O and knows nothing of JSON. A line ends at LF, CR or CRLF only; data stays bytes, so
that its reader can insist on UTF-8.
"""

from typing import TypeAlias

_BOM = b"\xef\xbb\xbf"
_EMPTY = len(b"data: \n\n")
_MAX_EVENT_BYTES = 64 * 1024 * 1024


ServerSentEvent: TypeAlias = tuple[str, bytes]
"""The type of one event (its `event:` field, empty without one) and its data. A plain tuple, since
every delta makes one."""


class SSEFraming:
    """A `Framing` for server-sent events; comments and events without data are dropped."""

    __slots__ = ("_at_start", "_data", "_kind", "_line", "_size", "_skip_newline", "at_boundary")

    around = (b"data: ", b"\n\n")
    """The bytes around the data of an event without a type, as nearly all servers write it."""

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._kind = ""
        self._size = 0
        self._at_start = True
        self._skip_newline = False
        self.at_boundary = False

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Return the events that these bytes complete. Raises `ValueError` for one of over 64 MiB."""
        # Nearly every read is one complete event or several, and need not be cut into lines.
        if self.at_boundary and data.endswith(b"\n\n") and b"\r" not in data:
            if data.startswith(b"data: ") and data.find(b"\n") == len(data) - 2:
                return [("", data[6:-2])] if len(data) > _EMPTY else []
            return self._feed_blocks(data[:-2].split(b"\n\n"))
        return self._feed_lines(data)

    def _feed_blocks(self, blocks: list[bytes]) -> list[ServerSentEvent]:
        events: list[ServerSentEvent] = []
        for block in blocks:
            kind, _, rest = block.partition(b"\n") if block.startswith(b"event: ") else (b"", b"", block)
            if rest.startswith(b"data: ") and b"\n" not in rest:
                if rest != b"data: ":
                    events.append((kind[7:].decode("utf-8", "replace"), rest[6:]))
            else:
                events += self._feed_lines(block + b"\n\n")
        return events

    def close(self) -> list[ServerSentEvent]:
        """Return the last event if the input ends inside it."""
        return self._feed_lines(b"\n\n") if self._line or self._data else []

    def _feed_lines(self, data: bytes) -> list[ServerSentEvent]:
        if self._skip_newline and data:
            data = data.removeprefix(b"\n")
            self._skip_newline = False
        if b"\r" in data:
            self._skip_newline = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *rest = data.split(b"\n")
        self._line.append(first)
        self._size += len(data)
        events = []
        for piece in rest:
            line = b"".join(self._line)
            self._line = [piece]
            event = self._take_line(line)
            if event is not None:
                events.append(event)
        if self._size > _MAX_EVENT_BYTES:
            raise ValueError(f"an event of more than {_MAX_EVENT_BYTES} bytes")
        pending = self._data or self._kind or any(self._line)
        self.at_boundary = not (pending or self._skip_newline or self._at_start)
        return events

    def _take_line(self, line: bytes) -> ServerSentEvent | None:
        if self._at_start:
            line = line.removeprefix(_BOM)
            self._at_start = False
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            self._kind = value.removeprefix(b" ").decode("utf-8", "replace")
        return None

    def _dispatch(self) -> ServerSentEvent | None:
        kind, data = self._kind, b"\n".join(self._data)
        self._kind, self._data, self._size = "", [], 0
        return (kind, data) if data else None
