"""The client, its settings, and the parameters that it fills in."""

from seqoria_runtime.execution.adaptive import AdaptiveLimit, LimitChange

from ._client import AsyncAIClient
from ._stats import CapStats, ClientStats
from .settings import ClientSettings

__all__ = ["AdaptiveLimit", "AsyncAIClient", "CapStats", "ClientSettings", "ClientStats", "LimitChange"]
