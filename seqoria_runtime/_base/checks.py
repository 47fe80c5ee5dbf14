"""Checks of options: each returns the checked value, or raises an error that names the option."""

import math
from typing import Any


def positive_int(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name!r} must be a positive integer, not {value!r}")
    return value


def positive_seconds(name: str, value: Any) -> float:
    seconds = _number(value)
    if seconds is None or seconds <= 0:
        raise ValueError(f"{name!r} must be a positive, finite number of seconds, not {value!r}")
    return seconds


def non_negative_seconds(name: str, value: Any) -> float:
    seconds = _number(value)
    if seconds is None or seconds < 0:
        raise ValueError(f"{name!r} must be a finite number of seconds, zero or more, not {value!r}")
    return seconds


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def names(name: str, value: Any) -> frozenset[str]:
    """Check a collection of names. A string is refused: its letters would be read as names."""
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{name!r} must be a collection of names, not the single string {value!r}")
    try:
        items = tuple(value)
    except TypeError:
        raise TypeError(f"{name!r} must be a collection of names, not {type(value).__name__}") from None
    for item in items:
        if not isinstance(item, str) or not item:
            raise TypeError(f"{name!r} must hold non-empty names, not {item!r}")
    return frozenset(items)


def boolean(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name!r} must be True or False, not {value!r}")
    return value
