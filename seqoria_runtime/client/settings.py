"""The options of a client."""

from ._settings import ClientSettings

__all__ = ["ClientSettings"]
