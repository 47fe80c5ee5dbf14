"""Checks generation options by name, so that a misspelt option is an error."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from .option_values import REQUEST_FIELDS, check_value
from .output import Place, with_output

CHAT_COMPLETIONS_OPTIONS = frozenset({
    "audio", "extra_body", "frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens",
    "max_tokens", "metadata", "modalities", "n", "output", "parallel_tool_calls", "prediction",
    "presence_penalty", "prompt_cache_key", "prompt_cache_retention", "reasoning_effort",
    "response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream_options",
    "strict_output", "temperature", "top_logprobs", "top_p", "user", "verbosity", "web_search_options",
})  # fmt: skip
"""The options of Chat Completions; `extra_body` holds what a server adds."""

MESSAGES_OPTIONS = frozenset({
    "cache_control", "container", "context_management", "disable_parallel_tool_use", "extra_body",
    "inference_geo", "max_tokens", "mcp_servers", "metadata", "output", "output_config", "service_tier",
    "speed", "stop_sequences", "strict_tools", "temperature", "thinking", "top_k", "top_p",
})  # fmt: skip
"""The options of Messages.

`disable_parallel_tool_use` goes into `tool_choice`; `strict_tools` marks the tools whose schemas
allow it.
"""

RESPONSES_OPTIONS = frozenset({
    "background", "context_management", "conversation", "extra_body", "include", "max_output_tokens",
    "max_tool_calls", "metadata", "output", "parallel_tool_calls", "previous_response_id", "prompt",
    "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning",
    "safety_identifier", "service_tier", "store", "stream_options", "strict_output", "strict_tools",
    "temperature", "text", "tools", "top_logprobs", "top_p", "truncation", "user",
})  # fmt: skip
"""The options of Responses.

`tools` run at the server; `strict_tools` marks the request's own tools whose schemas allow it.
"""

OLLAMA_BODY_OPTIONS = frozenset({
    "extra_body", "format", "keep_alive", "logprobs", "output", "think", "top_logprobs",
})  # fmt: skip
"""The options of Ollama's chat at the top of the body."""

OLLAMA_MODEL_OPTIONS = frozenset({
    "frequency_penalty", "main_gpu", "min_p", "num_batch", "num_ctx", "num_gpu", "num_keep",
    "num_predict", "num_thread", "presence_penalty", "repeat_last_n", "repeat_penalty", "seed", "stop",
    "temperature", "top_k", "top_p", "typical_p", "use_mmap",
})  # fmt: skip
"""The options of Ollama's chat inside `options`."""

# Options that mean the same in several formats, so that an error can name the right one.
_SYNONYMS = (
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
    """The options that one provider takes, and the function that places `output` for its format."""

    names: frozenset[str]
    place: Place

    def check(self, given: Mapping[str, Any], owner: str) -> dict[str, Any]:
        return check_options(given, self.names, owner)

    def place_output(self, options: Mapping[str, Any], owner: str) -> dict[str, Any]:
        """Return checked options as they are sent. Raises `TypeError` or `ValueError`."""
        return with_output(options, self.place, owner)


def check_options(given: Mapping[str, Any], known: frozenset[str], owner: str) -> dict[str, Any]:
    """Return the options that have a value; `None` means "not given".

    Raises `TypeError` that names each unknown option and its likely name, or an option with a value
    of the wrong type and what it takes.
    """
    unknown = [name for name in given if name not in known]
    if unknown:
        raise TypeError(f"{owner}: " + "; ".join(_complaint(name, known) for name in unknown))
    chosen = {name: value for name, value in given.items() if value is not None}
    try:
        return {name: check_value(name, value) for name, value in chosen.items()}
    except TypeError as error:
        raise TypeError(f"{owner}: {error}") from None


def _complaint(name: str, known: frozenset[str]) -> str:
    if name in REQUEST_FIELDS and not _synonyms(name, known):
        return f"{name!r} comes with each request and is not an option"
    if name == "max_retries":  # of seqoria-agent and of the vendors' SDKs
        return "unknown option 'max_retries': use retry=RetryPolicy(max_attempts=...)"
    near = _synonyms(name, known) or get_close_matches(name, sorted(known), n=3)
    hint = f" (near: {', '.join(near)})" if near else "; what only some servers take goes into 'extra_body'"
    return f"unknown option {name!r}{hint}"


def _synonyms(name: str, known: frozenset[str]) -> list[str]:
    return [other for group in _SYNONYMS if name in group for other in group if other in known]
