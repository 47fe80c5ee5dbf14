"""Turns the value that a tool returns into text."""

from collections import deque
from collections.abc import Coroutine
from enum import Enum
from typing import Any, Final

from pydantic_core import to_json

_SCALARS: Final = frozenset({bool, bytes, float, int, str, type(None)})
_CONTAINER_TYPES: Final = (dict, list, tuple, set, frozenset, deque)
_CONTAINERS: Final = frozenset(_CONTAINER_TYPES)


class UnserializableError(Exception):
    """A value has no text; the message names its type and the reason."""


def text_of(value: Any, *, max_chars: int | None) -> str:
    """Return a string as it is, an enumeration's member as its value, and anything else as JSON.

    A text longer than `max_chars` is cut there, with a mark. Raises `UnserializableError`.
    """
    try:
        text = _full_text(value.value if isinstance(value, Enum) else value)
    except Exception as error:
        kind = type(value).__qualname__
        raise UnserializableError(f"its result, of type {kind}, cannot be serialized: {error}") from error
    if max_chars is None or len(text) <= max_chars:
        return text
    return f"{text[:max_chars]}\n[cut: the first {max_chars} of {len(text)} characters]"


def _full_text(value: Any) -> str:
    if isinstance(value, str):
        if not value.isascii():
            value.encode()  # a lone surrogate would break the next request to a model
        return str.__str__(value)  # noqa: PLC2801 - a subclass may say something else
    if type(value) not in _SCALARS:
        _refuse_unfinished(value)
    return to_json(value, indent=2, inf_nan_mode="null").decode()


def _refuse_unfinished(value: Any) -> None:
    """Refuse iterators, which pydantic would run, perhaps forever, and close coroutines not yet awaited."""
    waiting, seen, refused = [value], set[int](), None
    while waiting:
        item = waiting.pop()
        kind = type(item)
        if kind in _CONTAINERS or isinstance(item, _CONTAINER_TYPES):
            if id(item) not in seen:
                seen.add(id(item))
                waiting += _items(item)
        elif isinstance(item, Coroutine):
            item.close()
            refused = kind
        elif hasattr(kind, "__next__"):
            refused = kind
    if refused is not None:
        raise TypeError(f"a {refused.__qualname__} is not a finished value")


def _items(container: Any) -> list[Any]:
    items = container.values() if isinstance(container, dict) else container
    return [item for item in items if type(item) not in _SCALARS]
