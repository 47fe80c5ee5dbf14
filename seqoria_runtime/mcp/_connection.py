"""Owns one connection to a server, in a task of its own, from its opening to its end.

A connection is opened once: a server that comes back gets a new one. Knows nothing of tools, retries
or breakers.
"""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, TypeVar

import anyio
import httpx2
from anyio import CancelScope, Event, get_cancelled_exc_class
from mcp import ClientSession, MCPError
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp_types import Implementation, ToolListChangedNotification
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ._config import MCPServerConfig
from ._failures import RequestFailed, connect_failure, describe, first_cause
from ._headers import connection_headers
from ._link import Link
from ._negotiation import negotiate
from ._transports import Log, open_transport
from ._wire import Wire

T = TypeVar("T")

_RELISTEN_SECONDS = 1.0
