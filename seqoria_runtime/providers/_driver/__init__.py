"""The HTTP under all providers, and the only home of httpx. Knows no wire format."""

from ._connection import Connection, HTTPClient
from ._driver import HTTPDriver

__all__ = ["Connection", "HTTPClient", "HTTPDriver"]
