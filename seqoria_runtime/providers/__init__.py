"""Model providers, and the protocol by which an application adds its own.

What needs HTTP is loaded when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._protocol import AsyncBaseProvider, ModelRequest, ModelResponse, ProviderEvent, ToolDefinition

if TYPE_CHECKING:
    from ._anthropic import AsyncAnthropicProvider
    from ._http_options import HTTPOptions
    from ._ollama import AsyncOllamaProvider
    from ._openai import AsyncOpenAIProvider
    from ._openai_compatible import AsyncOpenAICompatibleProvider
    from ._profiles import PROFILES, Profile
    from ._retry import RetryPolicy

__all__ = [
    "PROFILES",
    "AsyncAnthropicProvider",
    "AsyncBaseProvider",
    "AsyncOllamaProvider",
    "AsyncOpenAICompatibleProvider",
    "AsyncOpenAIProvider",
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
        "AsyncAnthropicProvider": "_anthropic",
        "AsyncOllamaProvider": "_ollama",
        "AsyncOpenAIProvider": "_openai",
        "AsyncOpenAICompatibleProvider": "_openai_compatible",
        "HTTPOptions": "_http_options",
        "PROFILES": "_profiles",
        "Profile": "_profiles",
        "RetryPolicy": "_retry",
    }
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{homes[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
