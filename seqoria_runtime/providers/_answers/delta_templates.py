"""Reads the text of an event that differs from an earlier one in nothing else, without parsing it.

Most deltas of most servers are such events, and this halves the cost of a delta.
"""

_NEVER = b"\x00"
_MAX_MISSES = 16


class Template:
    """Reads the text between bytes that stay the same; `used` is true once it has read one."""

    __slots__ = ("_end", "_prefix", "_shortest", "_start", "_suffix", "used")

    def __init__(self, prefix: bytes, suffix: bytes) -> None:
        self._prefix = prefix
        self._suffix = suffix
        self._start = len(prefix)
        self._end = -len(suffix)
        self._shortest = len(prefix) + len(suffix) + 1
        self.used = False

    def match(self, data: bytes) -> str | None:
        """Return the text in these bytes; `None` if they have to be parsed."""
        if not data.startswith(self._prefix) or not data.endswith(self._suffix) or len(data) < self._shortest:
            return None
        written = data[self._start : self._end]
        if b'"' in written or b"\\" in written:
            return None
        try:
            text = written.decode()
        except UnicodeDecodeError:
            return None
        self.used = True
        # A control character is an error in JSON, which the parser finds.
        return text if text.isprintable() else None


class DeltaTemplates:
    """The bytes around the text of the last plain event; `key` is the JSON key of that text.

    `in_event` matches the data of one event, `in_read` a read that is exactly one framed event.
    `around` are the bytes that the framing puts around the data.
    """

    __slots__ = ("_around", "_marks", "_misses", "in_event", "in_read")

    def __init__(self, key: str, around: tuple[bytes, bytes] = (b"", b"")) -> None:
        self._marks = (f'"{key}":"'.encode(), f'"{key}": "'.encode())
        self._around = around
        self._misses = 0
        self.in_event = self.in_read = Template(_NEVER, b"")

    def learn(self, data: bytes, text: str) -> None:
        """Learn from an event that held this text and nothing else that matters.

        A server that changes something else in each event (a counter, a random field) is given up
        on after a few events.
        """
        if self._misses > _MAX_MISSES or sum(data.count(mark) for mark in self._marks) != 1:
            return
        mark = self._marks[0] if self._marks[0] in data else self._marks[1]
        before, _, rest = data.partition(mark)
        written = text.encode()
        if b'"' in written or not rest.startswith(written + b'"'):
            return
        self._misses = 1 if self.in_event.used or self.in_read.used else self._misses + 1
        prefix, suffix = before + mark, rest[len(written) :]
        lead, tail = self._around
        self.in_event, self.in_read = Template(prefix, suffix), Template(lead + prefix, suffix + tail)
