"""Owns what a transport tells its connection beside messages, and one message's way over HTTP.

Knows no transport and no protocol.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass

from mcp_types import RequestId

from .failures import RequestFailed


class Link:
    """One connection's state as its transport sees it.

    `lost` tells why the connection has ended, `None` while it has not. `on_end` is called once, when
    it ends; `on_doubt` each time a socket of it failed though others may still work.
    """

    def __init__(self, on_end: Callable[[], None], on_doubt: Callable[[str], None]) -> None:
        self._on_end = on_end
        self._on_doubt = on_doubt
        self.lost: str | None = None

    def end(self, cause: str) -> None:
        """Say that the connection has ended; `cause` goes on the sentence that begins with the server's name.

        The first cause stands.
        """
        if self.lost is None:
            self.lost = cause
            self._on_end()

    def doubt(self, cause: str) -> None:
        """Say that the server may be gone."""
        if self.lost is None:
            self._on_doubt(cause)


@dataclass(slots=True)
class Exchange:
    """One message on its way: what HTTP has to add to it, and how it failed there, if it did.

    A notice is a message that nobody answers.
    """

    headers: Mapping[str, str] | None = None
    request: RequestId | None = None
    failure: RequestFailed | None = None
    notice: bool = False


call_headers: ContextVar[Mapping[str, str] | None] = ContextVar("call_headers", default=None)
"""The headers of the tool call that this code runs for; `None` outside of calls."""

current_exchange: ContextVar[Exchange | None] = ContextVar("current_exchange", default=None)
"""The message that this code runs for, in the caller's task and in those of the transport."""
