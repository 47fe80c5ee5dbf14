"""The client, its settings and statistics, and the streams that it returns."""

from seqoria_runtime._execution.places.adaptive import AdaptiveLimit, LimitChange
from seqoria_runtime._execution.streams.stream import Stream
from seqoria_runtime.models import CallEvent

from ._capacity import CapStats, ClientStats
from ._client import AsyncAIClient
from ._settings import ClientSettings

__all__ = [
    "AdaptiveLimit",
    "AsyncAIClient",
    "CallEvent",
    "CapStats",
    "ClientSettings",
    "ClientStats",
    "LimitChange",
    "Stream",
]
