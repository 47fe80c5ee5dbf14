"""What sets Chat Completions servers apart, as data.

The code asks a profile and never a server's name. A server that is not listed is `compatible`; an
application describes its own with `dataclasses.replace(PROFILES["compatible"], ...)`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from seqoria_runtime.providers._requests.wire_names import CallIdRule

ReasoningReplay: TypeAlias = Literal["never", "with_calls", "always"]
ReasoningField: TypeAlias = Literal["reasoning_content", "reasoning", "reasoning_details"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How one kind of server differs from the others. The defaults are what most servers take.

    `hosts` are the host names (or their ends, after a dot) that identify it in a base URL;
    `api_key_vars` the environment variables that may hold its key; `options` the generation
    options that it takes besides the common ones. `call_ids` is its grammar for ids.
    `named_tool_choice` says how one tool is forced: by its name, or, for a server that ignores
    that, by offering no other. `required_tool_choice` is its word for "some tool".
    `usage_in_streams` asks for usage with `stream_options`. `named_results` puts the tool's name on
    its result. `user_after_tool` is false if a user message may not follow a tool result.
    `replay_reasoning` says which responses send their reasoning back, under `reasoning_field`;
    `call_extras` are further fields of a call that have to go back as they came. `json_schemas` is
    false if `response_format` takes no schema, and `part_extras` are further fields of a user
    message's parts that the server reads.
    """

    name: str
    base_url: str | None = None
    hosts: tuple[str, ...] = ()
    api_key_vars: tuple[str, ...] = ("OPENAI_API_KEY",)
    key_required: bool = True
    options: frozenset[str] = frozenset()
    call_ids: CallIdRule = CallIdRule()  # noqa: RUF009  # frozen, so it is shared safely
    named_tool_choice: Literal["by_name", "alone"] = "by_name"
    required_tool_choice: str = "required"
    usage_in_streams: bool = True
    named_results: bool = False
    user_after_tool: bool = True
    replay_reasoning: ReasoningReplay = "never"
    reasoning_field: ReasoningField = "reasoning_content"
    call_extras: tuple[str, ...] = ()
    json_schemas: bool = True
    part_extras: tuple[str, ...] = ()


_SAMPLING = frozenset({"top_k", "min_p", "repetition_penalty"})

_VLLM_OPTIONS = _SAMPLING | {
    "chat_template_kwargs", "guided_json", "ignore_eos", "min_tokens", "stop_token_ids", "structured_outputs",
}  # fmt: skip
_LLAMA_CPP_OPTIONS = _SAMPLING | {
    "cache_prompt", "chat_template_kwargs", "grammar", "id_slot", "json_schema", "n_probs", "repeat_penalty",
}  # fmt: skip
_OPENROUTER_OPTIONS = _SAMPLING | {
    "models", "plugins", "provider", "reasoning", "route", "top_a", "transforms", "usage",
}  # fmt: skip

_ALL = (
    Profile(name="compatible"),
    Profile(name="openai", base_url="https://api.openai.com/v1", hosts=("api.openai.com",)),
    Profile(
        name="vllm",
        api_key_vars=("VLLM_API_KEY",),
        key_required=False,
        replay_reasoning="with_calls",
        reasoning_field="reasoning",
        options=_VLLM_OPTIONS,
    ),
    Profile(
        name="llama.cpp",
        base_url="http://localhost:8080/v1",
        api_key_vars=("LLAMA_API_KEY",),
        key_required=False,
        named_tool_choice="alone",
        replay_reasoning="with_calls",
        options=_LLAMA_CPP_OPTIONS,
    ),
    Profile(
        name="ollama",
        base_url="http://localhost:11434/v1",
        api_key_vars=("OLLAMA_API_KEY",),
        key_required=False,
        named_tool_choice="alone",
    ),
    Profile(
        name="groq",
        base_url="https://api.groq.com/openai/v1",
        hosts=("api.groq.com",),
        api_key_vars=("GROQ_API_KEY",),
        options=frozenset({"include_reasoning", "reasoning_format"}),
    ),
    Profile(
        name="deepseek",
        base_url="https://api.deepseek.com",
        hosts=("api.deepseek.com",),
        api_key_vars=("DEEPSEEK_API_KEY",),
        replay_reasoning="with_calls",
        json_schemas=False,
        options=frozenset({"thinking"}),
    ),
    Profile(
        name="mistral",
        base_url="https://api.mistral.ai/v1",
        hosts=("api.mistral.ai",),
        api_key_vars=("MISTRAL_API_KEY",),
        call_ids=CallIdRule(exactly=9),
        required_tool_choice="any",
        usage_in_streams=False,
        named_results=True,
        user_after_tool=False,
        options=frozenset({"prompt_mode", "random_seed", "safe_prompt"}),
    ),
    Profile(
        name="gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        hosts=("generativelanguage.googleapis.com",),
        api_key_vars=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        named_results=True,
        call_extras=("extra_content",),
    ),
    Profile(
        name="openrouter",
        base_url="https://openrouter.ai/api/v1",
        hosts=("openrouter.ai",),
        api_key_vars=("OPENROUTER_API_KEY",),
        replay_reasoning="always",
        reasoning_field="reasoning_details",
        part_extras=("cache_control",),
        options=_OPENROUTER_OPTIONS,
    ),
)

PROFILES: Mapping[str, Profile] = {profile.name: profile for profile in _ALL}


def find_profile(profile: "Profile | str | None", base_url: str | None) -> Profile:
    """Return the given or named profile, or the one that the base URL's host identifies.

    Raises `ValueError` for an unknown name and `TypeError` for anything else.
    """
    if isinstance(profile, Profile):
        return profile
    if profile is None:
        return PROFILES["openai"] if base_url is None else _by_host(base_url)
    if not isinstance(profile, str):
        raise TypeError(f"'profile' must be a Profile or the name of one, not {type(profile).__name__}")
    if profile not in PROFILES:
        raise ValueError(f"'profile' must be one of {', '.join(PROFILES)}, not {profile!r}")
    return PROFILES[profile]


def _by_host(base_url: str) -> Profile:
    try:
        host = urlsplit(base_url).hostname or ""
    except (ValueError, AttributeError):
        # The check of the URL itself reports what is wrong with it.
        host = ""
    for profile in _ALL:
        if any(host == known or host.endswith(f".{known}") for known in profile.hosts):
            return profile
    return PROFILES["compatible"]
