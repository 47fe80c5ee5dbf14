"""Checks the values of generation options that are read here or that are easily given in a wrong form.

The server checks all others.
"""

from collections.abc import Callable, Mapping
from typing import Any

from seqoria_runtime._base.checks import boolean

from .output import Output, bounded_repr

REQUEST_FIELDS = frozenset({
    "function_call", "functions", "input", "instructions", "messages", "model", "stream", "system",
    "tool_choice", "tools",
})  # fmt: skip
"""What comes with each request and is not an option, unless a format has an option of that name."""


def check_value(name: str, value: Any) -> Any:
    """Return an option's value, checked. Raises `TypeError` that names the option and what it takes."""
    if name == "output":
        return Output.of(value)
    if name in _FLAGS:
        return boolean(name, value)
    if name in _WANTED:
        fits, wanted = _WANTED[name]
        if not fits(value):
            raise TypeError(f"{name!r} must be {wanted}, not {bounded_repr(value)}")
    elif name == "extra_body":
        _check_extra_body(value)
    return value


def _check_extra_body(extra: Any) -> None:
    if not isinstance(extra, Mapping):
        raise TypeError(f"'extra_body' must be a mapping, not {type(extra).__name__}")
    taken = sorted(REQUEST_FIELDS & set(extra))
    if taken:
        raise TypeError(f"'extra_body' cannot replace {', '.join(map(repr, taken))}")


def has_type(value: Any) -> bool:
    """Whether the value is a mapping with a type, as most parts of requests are."""
    return isinstance(value, Mapping) and isinstance(value.get("type"), str)


def _are_definitions(tools: Any) -> bool:
    return isinstance(tools, (list, tuple)) and all(map(has_type, tools))


def _holds_a_format(value: Any) -> bool:
    return isinstance(value, Mapping) and has_type(value.get("format", {"type": ""}))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_a_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_json_or_schema(value: Any) -> bool:
    return value == "json" or isinstance(value, Mapping)


_FLAGS = frozenset({"cache_prompt", "disable_parallel_tool_use", "strict_output", "strict_tools"})
_MODEL = "; a pydantic model is given as 'output'"
_WITH_FORMAT = f"a mapping such as {{'format': {{'type': 'json_schema', ...}}}}{_MODEL}"
CACHE_CONTROL = "a mapping such as {'type': 'ephemeral'}"
_WANTED: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "cache_control": (has_type, CACHE_CONTROL),
    "format": (_is_json_or_schema, f"'json' or a JSON schema{_MODEL}"),
    "output_config": (_holds_a_format, _WITH_FORMAT),
    "prompt_cache_key": (_is_text, "a non-empty string"),
    "prompt_cache_options": (_is_a_mapping, "a mapping"),
    "prompt_cache_retention": (_is_text, "a string such as '24h'"),
    "response_format": (has_type, f"a mapping such as {{'type': 'json_object'}}{_MODEL}"),
    "text": (_holds_a_format, _WITH_FORMAT),
    "tools": (_are_definitions, "a list of definitions such as {'type': 'web_search'}"),
}
