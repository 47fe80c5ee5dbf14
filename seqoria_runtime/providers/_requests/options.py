"""Checks generation options by name, so that a misspelt one is an error and not silence."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from .option_values import OF_THE_REQUEST, checked_value
from .output import Place, with_output

CHAT_COMPLETIONS_OPTIONS = frozenset({
    *("output", "strict_output"),
    *("audio", "extra_body", "frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens"),
    *("max_tokens", "metadata", "modalities", "n", "parallel_tool_calls", "prediction"),
    *("presence_penalty", "prompt_cache_key", "prompt_cache_retention", "reasoning_effort"),
    *("response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream_options"),
    *("temperature", "top_logprobs", "top_p", "user", "verbosity", "web_search_options"),
})
"""What Chat Completions takes beside the request itself; `extra_body` holds what a server adds."""

MESSAGES_OPTIONS = frozenset({
    *("cache_control", "container", "context_management", "disable_parallel_tool_use", "extra_body"),
    *("inference_geo", "max_tokens", "mcp_servers", "metadata", "output", "output_config", "service_tier"),
    "speed",
    *("stop_sequences", "strict_tools", "temperature", "thinking", "top_k", "top_p"),
})
"""What Messages takes beside the request itself.

`disable_parallel_tool_use` goes into `tool_choice`; `strict_tools` marks the tools whose schemas
allow it.
"""

RESPONSES_OPTIONS = frozenset({
    *("output", "strict_output"),
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
    *("extra_body", "format", "keep_alive", "logprobs", "output", "think", "top_logprobs"),
})
"""What Ollama's chat takes beside the request itself, at the top of the body."""

OLLAMA_MODEL_OPTIONS = frozenset({
    *("frequency_penalty", "main_gpu", "min_p", "num_batch", "num_ctx", "num_gpu", "num_keep"),
    *("num_predict", "num_thread", "presence_penalty", "repeat_last_n", "repeat_penalty", "seed", "stop"),
    *("temperature", "top_k", "top_p", "typical_p", "use_mmap"),
})
"""What Ollama's chat takes inside `options`."""

# What the formats call the same, so that an option of another format gets the name that it has here.
_SAME = (
    ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict"),
    ("stop", "stop_sequences"),
    ("output", "response_format", "text", "output_config", "output_format", "format"),
    ("cache_control", "prompt_cache_key"),
    ("reasoning_effort", "reasoning", "thinking", "think"),
    ("parallel_tool_calls", "disable_parallel_tool_use"),
    ("user", "safety_identifier", "metadata"),
)


@dataclass(frozen=True, slots=True)
class OptionSet:
    """The options that one provider takes, and where its format has the place of `output`."""

    names: frozenset[str]
    place: Place

    def checked(self, given: Mapping[str, Any], owner: str) -> dict[str, Any]:
        return checked_options(given, self.names, owner)

    def placed(self, options: Mapping[str, Any], owner: str) -> dict[str, Any]:
        """Give checked options as the codec wants them. Raises `TypeError` or `ValueError`."""
        return with_output(options, self.place, owner)


def checked_options(given: Mapping[str, Any], known: frozenset[str], owner: str) -> dict[str, Any]:
    """Give the options that have a value; `None` means "not given".

    Raises `TypeError` that names each unknown option and what to give instead, or the option whose
    value is of a wrong kind and what it takes.
    """
    unknown = [name for name in given if name not in known]
    if unknown:
        raise TypeError(f"{owner}: " + "; ".join(_complaint(name, known) for name in unknown))
    chosen = {name: value for name, value in given.items() if value is not None}
    try:
        return {name: checked_value(name, value) for name, value in chosen.items()}
    except TypeError as error:
        raise TypeError(f"{owner}: {error}") from None


def _complaint(name: str, known: frozenset[str]) -> str:
    if name in OF_THE_REQUEST and not _same_as(name, known):
        return f"{name!r} comes with each request and is not an option"
    near = _same_as(name, known) or get_close_matches(name, sorted(known), n=3)
    hint = f" (near: {', '.join(near)})" if near else "; what only some servers take goes into 'extra_body'"
    return f"unknown option {name!r}{hint}"


def _same_as(name: str, known: frozenset[str]) -> list[str]:
    return [other for group in _SAME if name in group for other in group if other in known]
