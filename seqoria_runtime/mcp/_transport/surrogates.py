"""Owns the mending of halved surrogate pairs in a stream of JSON, whatever pieces it comes in.

Servers write them where they cut a text in the middle of a character, and strict JSON refuses all of the
message for it. Pure: knows nothing of messages.
"""

import re

_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<open>(?:\\u[dD][89abAB][0-9a-fA-F]{2})?\\(?:u[0-9a-fA-F]{0,3})?\Z|\\u[dD][89abAB][0-9a-fA-F]{2}\Z)"
    rb"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\.",
    re.DOTALL,
)
_SUSPECT = re.compile(rb"\\u[dD][89a-fA-F]")
_LONGEST_OPEN = 11
_REPLACEMENT = rb"\ufffd"


class Mender:
    """Replaces each half by U+FFFD; what may be the start of a pair waits for the next piece."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """The next piece, mended."""
        data = self._held + piece
        self._held = b""
        if b"\\" not in data[-_LONGEST_OPEN:] and not _SUSPECT.search(data):
            return data
        return _ESCAPE.sub(self._mended, data)

    def rest(self) -> bytes:
        """What was held back when the stream ended."""
        held, self._held = self._held, b""
        return held

    def _mended(self, escape: re.Match[bytes]) -> bytes:
        if escape["open"] is not None:
            self._held = escape[0]
            return b""
        return escape[0] if escape["half"] is None else _REPLACEMENT
