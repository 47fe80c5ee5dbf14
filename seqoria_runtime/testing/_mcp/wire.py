"""Owns the SDK's classes of messages on their way to and from the kit's MCP server.

Loaded only when such a server is connected.
"""

from typing import Any

from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter


def read(item: Any) -> dict[str, Any]:
    """A message as JSON."""
    message: dict[str, Any] = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
    return message


def written(message: dict[str, Any]) -> SessionMessage:
    """JSON as a message."""
    return SessionMessage(jsonrpc_message_adapter.validate_python(message))
