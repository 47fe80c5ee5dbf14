"""The client, its settings, and the parameters that it fills in."""

from ._client import AsyncAIClient
from ._stats import ClientStats
from .settings import ClientSettings

__all__ = ["AsyncAIClient", "ClientSettings", "ClientStats"]
