"""Model providers, and the protocol with which an application adds its own.

A name that needs HTTP is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._protocol import AsyncBaseProvider, ModelRequest, ModelResponse, ProviderEvent, ToolDefinition

if TYPE_CHECKING:
    from ._anthropic.provider import AsyncAnthropicProvider
    from ._chat.profiles import PROFILES, Profile
    from ._chat.provider import AsyncOpenAICompatibleProvider
    from ._http.options import HTTPOptions
    from ._http.retry import RetryPolicy
    from ._ollama.provider import AsyncOllamaProvider
    from ._requests.wire_names import CallIdRule
    from ._responses.provider import AsyncOpenAIProvider

__all__ = [
    "PROFILES",
    "AsyncAnthropicProvider",
    "AsyncBaseProvider",
    "AsyncOllamaProvider",
    "AsyncOpenAICompatibleProvider",
    "AsyncOpenAIProvider",
    "CallIdRule",
    "HTTPOptions",
    "ModelRequest",
    "ModelResponse",
    "Profile",
    "ProviderEvent",
    "RetryPolicy",
    "ToolDefinition",
]


def __getattr__(name: str) -> Any:
    homes = {
        "AsyncAnthropicProvider": "_anthropic.provider",
        "AsyncOllamaProvider": "_ollama.provider",
        "AsyncOpenAIProvider": "_responses.provider",
        "AsyncOpenAICompatibleProvider": "_chat.provider",
        "CallIdRule": "_requests.wire_names",
        "HTTPOptions": "_http.options",
        "PROFILES": "_chat.profiles",
        "Profile": "_chat.profiles",
        "RetryPolicy": "_http.retry",
    }
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{homes[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
