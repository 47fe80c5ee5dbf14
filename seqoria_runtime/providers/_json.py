"""Reads and writes JSON as model servers do, lone UTF-16 surrogates included.

A server may cut text between the two escapes of a surrogate pair. Each half is valid in a JSON
escape but not in UTF-8, so it is kept until the other half arrives.
"""

import json
from typing import Any

from pydantic_core import from_json

parse_strict = from_json
"""Parse UTF-8 JSON without lone surrogates. Raises `ValueError` for anything else."""


def parse_with_surrogates(data: bytes) -> Any:
    """Parse UTF-8 JSON whose strings may hold lone surrogates. Raises `ValueError`."""
    try:
        return json.loads(data.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def dump(value: Any) -> bytes:
    """Write JSON as UTF-8. Raises `TypeError` or `ValueError` for what JSON cannot hold."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def join_surrogates(text: str) -> str:
    """Join the halves of surrogate pairs; a lone half becomes U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class SurrogateJoiner:
    """Joins surrogate pairs in text that arrives in pieces."""

    __slots__ = ("_half",)

    def __init__(self) -> None:
        self._half = ""

    def join(self, piece: str) -> str:
        text = self._half + piece
        self._half = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._half = text[-1]
            text = text[:-1]
        return join_surrogates(text)
