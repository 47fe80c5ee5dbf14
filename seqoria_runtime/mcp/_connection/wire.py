"""The SDK's dispatcher, extended by what it does not do.

It raises `RequestFailed` for a request that the protocol did not answer, makes results acceptable to the
SDK's strict models, and never makes a cancelled caller wait until its server has been notified.
"""

from collections.abc import Mapping
from itertools import count
from typing import Any

import anyio
from anyio import get_cancelled_exc_class
from anyio.abc import TaskGroup
from mcp import MCPError
from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import REQUEST_TIMEOUT, RequestId

from seqoria_runtime.mcp._transport.connection_end import (
    ConnectionEnd,
    MessageState,
    call_headers,
    current_message,
)
from seqoria_runtime.mcp._transport.failures import RequestFailed

from .results import readable


class Wire(JSONRPCDispatcher):
    """The dispatcher over one transport's streams."""

    def __init__(self, read_stream: Any, write_stream: Any, end: ConnectionEnd) -> None:
        super().__init__(read_stream, write_stream)
        self._end = end
        self._ids = count(1)
        self._notices: TaskGroup | None = None

    async def run(self, *handlers: Any, **options: Any) -> None:
        """Read messages until the transport ends, and report its end."""
        async with anyio.create_task_group() as group:
            self._notices = group
            try:
                await super().run(*handlers, **options)
            finally:
                self._notices = None
                # The transports report a better cause if they know one; this is the last resort.
                self._end.report("closed the connection")
                group.cancel_scope.cancel("the connection has ended")

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **related: Any
    ) -> dict[str, Any]:
        """Send a request; raise `RequestFailed` if nothing of the protocol answered it."""
        if self._end.cause is not None:
            raise RequestFailed(self._end.cause, ran=False)
        # The SDK's own notice of a cancellation awaits the write: a caller that is cancelled because the
        # server reads no more would then hang in it. Ours is sent by a task of `run`.
        options: CallOptions = {"request_id": next(self._ids), **(opts or {}), "cancel_on_abandon": False}
        wanted = (opts or {}).get("cancel_on_abandon", True)
        state = MessageState(call_headers.get(), options["request_id"])
        token = current_message.set(state)
        try:
            result = await super().send_raw_request(method, params, options, **related)
        except get_cancelled_exc_class():
            self._abandon(options["request_id"], wanted=wanted)
            raise
        except RequestFailed:
            raise
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT and "timeout" in options:
                self._abandon(options["request_id"], wanted=wanted)
            raise self._failure_of(error, state) from None
        finally:
            current_message.reset(token)
        return readable(method, result)

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        **related: Any,
    ) -> None:
        """Send a message that expects no answer."""
        token = current_message.set(MessageState(call_headers.get(), notice=True))
        try:
            await super().notify(method, params, opts, **related)
        finally:
            current_message.reset(token)

    def _abandon(self, request: RequestId, *, wanted: bool) -> None:
        """Notify the server that this request was cancelled, without waiting for it."""
        if wanted and self._notices is not None:
            params = {"requestId": request, "reason": "the caller was cancelled"}
            self._notices.start_soon(self.notify, "notifications/cancelled", params)

    def _failure_of(self, error: MCPError, state: MessageState) -> MCPError:
        # The error may be a stand-in: the SDK reports a broken socket and a closed stream as error answers.
        # What the transport recorded for this message comes first, then the end of the connection.
        if state.failure is not None:
            return state.failure
        if self._end.cause is not None:
            return RequestFailed(self._end.cause, ran=True)
        return error
