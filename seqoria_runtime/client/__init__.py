"""The client, its settings, and the parameters that it fills in."""

from seqoria_runtime._execution.places.adaptive import AdaptiveLimit, LimitChange
from seqoria_runtime.models import CallEvent

from ._client import AsyncAIClient
from ._settings import ClientSettings
from ._stats import CapStats, ClientStats

__all__ = [
    "AdaptiveLimit",
    "AsyncAIClient",
    "CallEvent",
    "CapStats",
    "ClientSettings",
    "ClientStats",
    "LimitChange",
]
