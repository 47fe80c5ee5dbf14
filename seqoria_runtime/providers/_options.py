"""Checks generation options by name, so that a misspelt one is an error and not silence."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

CHAT_COMPLETIONS_OPTIONS = frozenset({
    *("audio", "extra_body", "frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens"),
    *("max_tokens", "metadata", "modalities", "n", "parallel_tool_calls", "prediction"),
    *("presence_penalty", "prompt_cache_key", "prompt_cache_retention", "reasoning_effort"),
    *("response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream_options"),
    *("temperature", "top_logprobs", "top_p", "user", "verbosity", "web_search_options"),
})
"""What Chat Completions takes beside the request itself; `extra_body` holds what a server adds."""

_OF_THE_REQUEST = frozenset({
    *("function_call", "functions", "messages", "model", "stream", "tool_choice", "tools"),
})


def checked_options(given: Mapping[str, Any], known: frozenset[str], owner: str) -> dict[str, Any]:
    """Give the options that have a value; `None` means "not given".

    Raises `TypeError` that names each unknown option and its near matches.
    """
    unknown = [name for name in given if name not in known]
    if unknown:
        raise TypeError(f"{owner}: " + "; ".join(_complaint(name, known) for name in unknown))
    extra = given.get("extra_body")
    if extra is not None:
        _check_extra_body(extra, owner)
    return {name: value for name, value in given.items() if value is not None}


def _complaint(name: str, known: frozenset[str]) -> str:
    if name in _OF_THE_REQUEST:
        return f"{name!r} comes with each request and is not an option"
    near = get_close_matches(name, sorted(known), n=3)
    hint = f" (near: {', '.join(near)})" if near else "; what only some servers take goes into 'extra_body'"
    return f"unknown option {name!r}{hint}"


def _check_extra_body(extra: Any, owner: str) -> None:
    if not isinstance(extra, Mapping):
        raise TypeError(f"{owner}: 'extra_body' must be a mapping, not {type(extra).__name__}")
    taken = sorted(_OF_THE_REQUEST & set(extra))
    if taken:
        raise TypeError(f"{owner}: 'extra_body' cannot replace {', '.join(map(repr, taken))}")
