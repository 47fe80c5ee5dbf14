"""Reads and writes JSON as model servers do, halves of surrogate pairs included.

A server may cut text between the two halves of an escaped surrogate pair. Such a half is valid in
a JSON escape but not in UTF-8, so it is kept until the other half comes.
"""

import json
from typing import Any

from pydantic_core import from_json

parse_strict = from_json
"""Reads UTF-8 JSON without lone surrogates. Raises `ValueError` for anything else."""


def parse_with_halves(data: bytes) -> Any:
    """Read UTF-8 JSON in which a string may hold half a surrogate pair. Raises `ValueError`."""
    try:
        return json.loads(data.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def dump(value: Any) -> bytes:
    """Write JSON as UTF-8. Raises `TypeError` or `ValueError` for what JSON cannot hold."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def whole(text: str) -> str:
    """Join the halves of surrogate pairs; a half that stands alone becomes U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class HalfJoiner:
    """Makes whole text of pieces that may be cut inside a surrogate pair."""

    __slots__ = ("_half",)

    def __init__(self) -> None:
        self._half = ""

    def join(self, piece: str) -> str:
        text = self._half + piece
        self._half = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._half = text[-1]
            text = text[:-1]
        return whole(text)
