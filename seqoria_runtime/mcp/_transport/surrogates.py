"""Replaces lone surrogates in a stream of JSON, wherever the stream is split.

A server that cuts a text inside a character writes half of a surrogate pair; strict JSON then rejects the
whole message.
"""

import re

_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<open>(?:\\u[dD][89abAB][0-9a-fA-F]{2})?\\(?:u[0-9a-fA-F]{0,3})?\Z|\\u[dD][89abAB][0-9a-fA-F]{2}\Z)"
    rb"|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\.",
    re.DOTALL,
)
_SUSPECT = re.compile(rb"\\u[dD][89a-fA-F]")
_LONGEST_OPEN = 11
_REPLACEMENT = rb"\ufffd"


class SurrogateFixer:
    """Replaces each lone surrogate by U+FFFD, and holds back what may be the start of a pair."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """Return the next piece, fixed."""
        data = self._held + piece
        self._held = b""
        if b"\\" not in data[-_LONGEST_OPEN:] and not _SUSPECT.search(data):
            return data
        return _ESCAPE.sub(self._fixed, data)

    def finish(self) -> bytes:
        """Return what was held back when the stream ended."""
        held, self._held = self._held, b""
        return held

    def _fixed(self, escape: re.Match[bytes]) -> bytes:
        if escape["open"] is not None:
            self._held = escape[0]
            return b""
        return escape[0] if escape["lone"] is None else _REPLACEMENT
