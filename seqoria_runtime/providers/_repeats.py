"""Recognises an event that is an earlier one again, byte for byte, in all but its text.

Most deltas of most servers are that. Parsed, such an event would give the same object with another
text, so its text alone is read, at half the cost of a delta.
"""

_NEVER = b"\x00"
_MAX_MISSES = 16


class RepeatedText:
    """The bytes around the text of the last plain event; `key` is the JSON key that the text has."""

    __slots__ = ("_around", "_marks", "_misses", "_prefix", "_suffix")

    def __init__(self, key: str) -> None:
        self._marks = (f'"{key}":"'.encode(), f'"{key}": "'.encode())
        self._prefix = _NEVER
        self._suffix = b""
        self._around = 0
        self._misses = 0

    def match(self, data: bytes) -> str | None:
        """Give the text of an event that repeats the learnt one; `None` where it has to be parsed."""
        if not data.startswith(self._prefix) or not data.endswith(self._suffix) or len(data) <= self._around:
            return None
        written = data[len(self._prefix) : -len(self._suffix)]
        if b'"' in written or b"\\" in written:
            return None
        try:
            text = written.decode()
        except UnicodeDecodeError:
            return None
        self._misses = 0
        # A control character is an error in JSON, which the parser finds.
        return text if text.isprintable() else None

    def learn(self, data: bytes, text: str) -> None:
        """Take note of an event that held this text and nothing else that matters.

        A server that changes something else in each event (a counter, a random field) is given up
        on after a few.
        """
        if self._misses > _MAX_MISSES or sum(data.count(mark) for mark in self._marks) != 1:
            return
        mark = self._marks[0] if self._marks[0] in data else self._marks[1]
        before, _, rest = data.partition(mark)
        written = text.encode()
        if b'"' in written or not rest.startswith(written + b'"'):
            return
        self._misses += 1
        self._prefix, self._suffix = before + mark, rest[len(written) :]
        self._around = len(self._prefix) + len(self._suffix)
