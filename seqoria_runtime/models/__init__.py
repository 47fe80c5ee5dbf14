"""Messages, events and errors. Imports neither `httpx` nor `mcp`."""

from ._events import ToolCallStarted, ToolOutcome, ToolProgress
from ._messages import (
    UNNAMED_TOOL,
    AssistantMessage,
    ChatChunk,
    ChatMessage,
    ChatMessages,
    History,
    LLMUsage,
    SystemMessage,
    ToolCallError,
    ToolCallOutcome,
    ToolCallRequest,
    ToolCallRequestList,
    ToolCallResult,
    ToolErrorKind,
    ToolMessage,
    ToolMessages,
    UserMessage,
)
from .errors import CircuitOpenError, ToolRemoteError

__all__ = [
    "UNNAMED_TOOL",
    "AssistantMessage",
    "ChatChunk",
    "ChatMessage",
    "ChatMessages",
    "CircuitOpenError",
    "History",
    "LLMUsage",
    "SystemMessage",
    "ToolCallError",
    "ToolCallOutcome",
    "ToolCallRequest",
    "ToolCallRequestList",
    "ToolCallResult",
    "ToolCallStarted",
    "ToolErrorKind",
    "ToolMessage",
    "ToolMessages",
    "ToolOutcome",
    "ToolProgress",
    "ToolRemoteError",
    "UserMessage",
]
