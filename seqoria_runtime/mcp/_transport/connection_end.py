"""What a transport and its connection share besides messages: why the connection ended, and the HTTP state
of the message being sent.
"""

import logging
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeAlias

from mcp_types import RequestId

from .failures import RequestFailed

Log: TypeAlias = logging.Logger | logging.LoggerAdapter[logging.Logger]


class ConnectionEnd:
    """Why a connection ended; `cause` is `None` while it has not.

    Causes are predicates: they are appended to `server 'x' `. `on_end` is called once, at the end;
    `on_suspicion` each time a socket failed although others may still work.
    """

    def __init__(self, on_end: Callable[[], None], on_suspicion: Callable[[str], None]) -> None:
        self._on_end = on_end
        self._on_suspicion = on_suspicion
        self.cause: str | None = None

    def report(self, cause: str) -> None:
        """Report that the connection has ended. The first cause is kept."""
        if self.cause is None:
            self.cause = cause
            self._on_end()

    def suspect(self, cause: str) -> None:
        """Report that the server may be gone."""
        if self.cause is None:
            self._on_suspicion(cause)


@dataclass(slots=True)
class MessageState:
    """The HTTP state of one message: the headers to add, and how it failed, if it did.

    `request` is the id of a request; a `notice` expects no answer.
    """

    headers: Mapping[str, str] | None = None
    request: RequestId | None = None
    failure: RequestFailed | None = None
    notice: bool = False


call_headers: ContextVar[Mapping[str, str] | None] = ContextVar("call_headers", default=None)
"""The headers of the tool call that this code runs for; `None` outside of calls."""

current_message: ContextVar[MessageState | None] = ContextVar("current_message", default=None)
"""The message that this code sends, both in the caller's task and in the transport's tasks."""
