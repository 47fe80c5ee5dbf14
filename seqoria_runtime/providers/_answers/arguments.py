"""Reads the arguments of a tool call as models write them.

The rules: nothing, blank text and `null` are `{}`; text that holds an object as JSON once more is
unwrapped, once; whatever else is not a JSON object is kept as bounded raw text and never run.
"""

from typing import Any, NamedTuple

from seqoria_runtime._base.redaction import bounded
from seqoria_runtime.providers._json import dump, parse_strict

_MAX_RAW = 2000


class Arguments(NamedTuple):
    """`invalid` is the raw text, cut to 2,000 characters, where it was no JSON object."""

    values: dict[str, Any]
    invalid: str | None = None


def read_arguments(text: str) -> Arguments:
    if not text.strip():
        return Arguments({})
    value = _parsed(text)
    if isinstance(value, str):
        value = _parsed(value)
    if value is None:
        return Arguments({})
    if isinstance(value, dict):
        return Arguments(value)
    return Arguments({}, bounded(text, _MAX_RAW))


_BROKEN = object()


def _parsed(text: str) -> Any:
    try:
        value = parse_strict(text)
        # What cannot be written again (an infinite number) could not be replayed.
        dump(value)
    except ValueError:
        return _BROKEN
    return value
