"""The client, its settings, and the parameters that it fills in."""

from ._client import AsyncAIClient
from ._stats import CapStats, ClientStats
from .settings import ClientSettings

__all__ = ["AsyncAIClient", "CapStats", "ClientSettings", "ClientStats"]
