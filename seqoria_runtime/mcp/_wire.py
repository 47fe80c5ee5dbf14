"""Owns the last word on requests and results between the SDK's session and its dispatcher.

Requests that failed below the protocol are told from answers, and results are put into a form that
the SDK's strict models take, so that an odd part of one does not cost the rest.
"""

from collections.abc import Mapping
from typing import Any

from mcp import MCPError
from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

from ._failures import RequestFailed
from ._link import Exchange, Link, call_headers, current_exchange
from ._results import readable


class Wire(JSONRPCDispatcher):
    """The SDK's dispatcher over one transport's streams."""

    def __init__(self, read_stream: Any, write_stream: Any, link: Link) -> None:
        super().__init__(read_stream, write_stream)
        self._link = link

    async def run(self, *handlers: Any, **options: Any) -> None:
        """Read messages until the transport ends, whichever it is, and say so."""
        try:
            await super().run(*handlers, **options)
        finally:
            self._link.end("closed the connection")

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **related: Any
    ) -> dict[str, Any]:
        """Send a request; raises `RequestFailed` where nothing of the protocol answered it."""
        if self._link.lost is not None:
            raise RequestFailed(self._link.lost, ran=False)
        exchange = Exchange(call_headers.get())
        token = current_exchange.set(exchange)
        try:
            result = await super().send_raw_request(method, params, opts, **related)
        except RequestFailed:
            raise
        except MCPError as error:
            raise self._failure_of(error, exchange) from None
        finally:
            current_exchange.reset(token)
        return readable(method, result)

    def _failure_of(self, error: MCPError, exchange: Exchange) -> MCPError:
        if exchange.failure is not None:
            return exchange.failure
        if self._link.lost is not None:
            return RequestFailed(self._link.lost, ran=True)
        return error
