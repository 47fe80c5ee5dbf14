"""Structured execution of tool-calling assistant turns, under trio and asyncio.

This public module is lazy: each name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import AdaptiveLimit, AsyncAIClient, ClientSettings, ClientStats
    from .client.parameters import ParameterRegistry
    from .toolbox import HIDDEN, LocalToolbox

    __version__: str

__all__ = [
    "HIDDEN",
    "AdaptiveLimit",
    "AsyncAIClient",
    "ClientSettings",
    "ClientStats",
    "LocalToolbox",
    "ParameterRegistry",
]


def __getattr__(name: str) -> Any:
    homes = {
        "HIDDEN": "toolbox",
        "AdaptiveLimit": "client",
        "AsyncAIClient": "client",
        "ClientSettings": "client",
        "ClientStats": "client",
        "LocalToolbox": "toolbox",
        "ParameterRegistry": "client.parameters",
    }
    if name == "__version__":
        from importlib.metadata import version

        return version("seqoria-runtime")
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{homes[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
