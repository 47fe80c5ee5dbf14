"""Owns the last word on requests and results between the SDK's session and its dispatcher.

Requests that failed below the protocol are told from answers, and results are put into a form that
the SDK's strict models take, so that an odd part of one does not cost the rest. A cancelled caller does
not wait until its server has heard of that.
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

from seqoria_runtime.mcp._transport.connection_end import Exchange, Link, call_headers, current_exchange
from seqoria_runtime.mcp._transport.failures import RequestFailed

from .results import readable


class Wire(JSONRPCDispatcher):
    """The SDK's dispatcher over one transport's streams."""

    def __init__(self, read_stream: Any, write_stream: Any, link: Link) -> None:
        super().__init__(read_stream, write_stream)
        self._link = link
        self._ids = count(1)
        self._notices: TaskGroup | None = None

    async def run(self, *handlers: Any, **options: Any) -> None:
        """Read messages until the transport ends, whichever it is, and say so."""
        async with anyio.create_task_group() as group:
            self._notices = group
            try:
                await super().run(*handlers, **options)
            finally:
                self._notices = None
                self._link.end("closed the connection")
                group.cancel_scope.cancel("the connection has ended")

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **related: Any
    ) -> dict[str, Any]:
        """Send a request; raises `RequestFailed` where nothing of the protocol answered it."""
        if self._link.lost is not None:
            raise RequestFailed(self._link.lost, ran=False)
        options: CallOptions = {"request_id": next(self._ids), **(opts or {}), "cancel_on_abandon": False}
        wanted = (opts or {}).get("cancel_on_abandon", True)
        exchange = Exchange(call_headers.get(), options["request_id"])
        token = current_exchange.set(exchange)
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
            raise self._failure_of(error, exchange) from None
        finally:
            current_exchange.reset(token)
        return readable(method, result)

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        **related: Any,
    ) -> None:
        """Send a message that nobody answers."""
        token = current_exchange.set(Exchange(call_headers.get(), notice=True))
        try:
            await super().notify(method, params, opts, **related)
        finally:
            current_exchange.reset(token)

    def _abandon(self, request: RequestId, *, wanted: bool) -> None:
        """Tell the server that nobody waits for this request any more, without waiting for it."""
        if wanted and self._notices is not None:
            params = {"requestId": request, "reason": "the caller was cancelled"}
            self._notices.start_soon(self.notify, "notifications/cancelled", params)

    def _failure_of(self, error: MCPError, exchange: Exchange) -> MCPError:
        if exchange.failure is not None:
            return exchange.failure
        if self._link.lost is not None:
            return RequestFailed(self._link.lost, ran=True)
        return error
