"""The client, its settings, and the parameters that it fills in."""

from seqoria_runtime.execution.adaptive import AdaptiveLimit, LimitChange
from seqoria_runtime.execution.events import CallEvent

from ._client import AsyncAIClient
from ._stats import CapStats, ClientStats
from .settings import ClientSettings

__all__ = [
    "AdaptiveLimit",
    "AsyncAIClient",
    "CallEvent",
    "CapStats",
    "ClientSettings",
    "ClientStats",
    "LimitChange",
]
