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

MESSAGES_OPTIONS = frozenset({
    *("cache_control", "container", "context_management", "disable_parallel_tool_use", "extra_body"),
    *("inference_geo", "max_tokens", "mcp_servers", "metadata", "output_config", "service_tier", "speed"),
    *("stop_sequences", "strict_tools", "temperature", "thinking", "top_k", "top_p"),
})
"""What Messages takes beside the request itself.

`disable_parallel_tool_use` goes into `tool_choice`; `strict_tools` marks the tools whose schemas
allow it.
"""

RESPONSES_OPTIONS = frozenset({
    *("background", "context_management", "conversation", "extra_body", "include", "max_output_tokens"),
    *("max_tool_calls", "metadata", "parallel_tool_calls", "previous_response_id", "prompt"),
    *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning"),
    *("safety_identifier", "service_tier", "store", "stream_options", "strict_tools", "temperature"),
    *("text", "tools", "top_logprobs", "top_p", "truncation", "user"),
})
"""What Responses takes beside the request itself.

`tools` are those that run at the server; `strict_tools` marks the request's own whose schemas allow it.
"""

OLLAMA_BODY_OPTIONS = frozenset({
    *("extra_body", "format", "keep_alive", "logprobs", "think", "top_logprobs"),
})
"""What Ollama's chat takes beside the request itself, at the top of the body."""

OLLAMA_MODEL_OPTIONS = frozenset({
    *("frequency_penalty", "main_gpu", "min_p", "num_batch", "num_ctx", "num_gpu", "num_keep"),
    *("num_predict", "num_thread", "presence_penalty", "repeat_last_n", "repeat_penalty", "seed", "stop"),
    *("temperature", "top_k", "top_p", "typical_p", "use_mmap"),
})
"""What Ollama's chat takes inside `options`."""

_FLAGS = frozenset({"disable_parallel_tool_use", "strict_tools"})
_OF_THE_REQUEST = frozenset({
    *("function_call", "functions", "input", "instructions", "messages", "model", "stream", "system"),
    *("tool_choice", "tools"),
})


def checked_options(given: Mapping[str, Any], known: frozenset[str], owner: str) -> dict[str, Any]:
    """Give the options that have a value; `None` means "not given".

    Raises `TypeError` that names each unknown option and its near matches.
    """
    unknown = [name for name in given if name not in known]
    if unknown:
        raise TypeError(f"{owner}: " + "; ".join(_complaint(name, known) for name in unknown))
    chosen = {name: value for name, value in given.items() if value is not None}
    for name, value in chosen.items():
        _check_value(name, value, owner)
    return chosen


def _complaint(name: str, known: frozenset[str]) -> str:
    if name in _OF_THE_REQUEST:
        return f"{name!r} comes with each request and is not an option"
    near = get_close_matches(name, sorted(known), n=3)
    hint = f" (near: {', '.join(near)})" if near else "; what only some servers take goes into 'extra_body'"
    return f"unknown option {name!r}{hint}"


def _check_value(name: str, value: Any, owner: str) -> None:
    """Check the options that are read here; the others are the server's business."""
    if name == "extra_body":
        _check_extra_body(value, owner)
    elif name == "tools" and not _are_definitions(value):
        raise TypeError(f"{owner}: 'tools' must be a list of definitions such as {{'type': 'web_search'}}")
    elif name in _FLAGS and not isinstance(value, bool):
        raise TypeError(f"{owner}: {name!r} must be True or False, not {value!r}")


def _are_definitions(tools: Any) -> bool:
    listed = isinstance(tools, (list, tuple))
    return listed and all(isinstance(tool, Mapping) and isinstance(tool.get("type"), str) for tool in tools)


def _check_extra_body(extra: Any, owner: str) -> None:
    if not isinstance(extra, Mapping):
        raise TypeError(f"{owner}: 'extra_body' must be a mapping, not {type(extra).__name__}")
    taken = sorted(_OF_THE_REQUEST & set(extra))
    if taken:
        raise TypeError(f"{owner}: 'extra_body' cannot replace {', '.join(map(repr, taken))}")
