"""Reads single values from a server's JSON, strictly where a wrong type would garble the answer.

Details and counts of a wrong type are dropped.
"""

from collections.abc import Mapping
from typing import Any

from seqoria_runtime.models import LLMUsage
from seqoria_runtime.providers._json import join_surrogates

_MAX_TOKENS = 1 << 53


class MalformedAnswerError(Exception):
    """Raised for a part of an answer that its format does not have; the text says what was found."""


def expect_type(value: Any, kind: type, what: str) -> Any:
    """Return a value of this type. Raises `MalformedAnswerError` for any other."""
    if not isinstance(value, kind):
        raise MalformedAnswerError(f"{what} is {type(value).__name__}, not {kind.__name__}")
    return value


def expect_text(value: Any, what: str) -> str:
    """Return text, empty for `None`. Raises `MalformedAnswerError` for anything else."""
    return "" if value is None else expect_type(value, str, what)


def str_or_empty(value: Any) -> str:
    """Return an id, a name or another detail as text; empty for what is neither text nor an integer."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def dig(value: Any, *path: str) -> Any:
    """Return what is at the end of a path of keys; `None` if the path breaks off."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def token_count(value: Any) -> int | None:
    """Return a number of tokens; `None` for what cannot be one."""
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
    """Make the usage from a server's counts; `None` if it counted neither prompt nor completion."""
    sent, made, both = token_count(prompt), token_count(completion), token_count(total)
    if sent is None and made is None:
        return None
    return LLMUsage(
        prompt_tokens=sent or 0,
        completion_tokens=made or 0,
        total_tokens=(sent or 0) + (made or 0) if both is None else both,
        cached_tokens=token_count(cached),
        reasoning_tokens=token_count(reasoning),
    )


def join_surrogates_in(value: Any) -> Any:
    """Join the surrogate pairs in every text of a JSON value."""
    if isinstance(value, str):
        return join_surrogates(value)
    if isinstance(value, list):
        return [join_surrogates_in(item) for item in value]
    if isinstance(value, dict):
        return {join_surrogates(key): join_surrogates_in(item) for key, item in value.items()}
    return value
