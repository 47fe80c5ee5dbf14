"""Reads single values out of a server's JSON: strict where a wrong type would garble the answer.

Knows no wire format; what is only told in passing (a count, a detail) is `None` where it is odd.
"""

from collections.abc import Mapping
from typing import Any

from seqoria_runtime.models import LLMUsage
from seqoria_runtime.providers._json import whole

from .wire import MalformedAnswerError

_MAX_TOKENS = 1 << 53


def checked(value: Any, kind: type, what: str) -> Any:
    """Give a value that is of the kind. Raises `MalformedAnswerError` for another."""
    if not isinstance(value, kind):
        raise MalformedAnswerError(f"{what} is {type(value).__name__}, not {kind.__name__}")
    return value


def string(value: Any, what: str) -> str:
    """Give a text, empty for `None`. Raises `MalformedAnswerError` for anything else."""
    return "" if value is None else checked(value, str, what)


def word(value: Any) -> str:
    """Give an id or a name; one that is no text, or a number, tells nothing."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def member(value: Any, *path: str) -> Any:
    """Give what is at the end of a path of keys, `None` where it breaks off."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def count(value: Any) -> int | None:
    """Give a number of tokens, `None` for what can be none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < _MAX_TOKENS:
        return None
    return int(value)


def token_usage(
    *,
    prompt: Any,
    completion: Any,
    total: Any = None,
    cached: Any = None,
    reasoning: Any = None,
) -> LLMUsage | None:
    """Make the usage of what a server counted; `None` where it counted neither side."""
    sent, made, both = count(prompt), count(completion), count(total)
    if sent is None and made is None:
        return None
    return LLMUsage(
        prompt_tokens=sent or 0,
        completion_tokens=made or 0,
        total_tokens=(sent or 0) + (made or 0) if both is None else both,
        cached_tokens=count(cached),
        reasoning_tokens=count(reasoning),
    )


def whole_value(value: Any) -> Any:
    """Join the halves of surrogate pairs in every text of a JSON value."""
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, list):
        return [whole_value(item) for item in value]
    if isinstance(value, dict):
        return {whole(key): whole_value(item) for key, item in value.items()}
    return value
