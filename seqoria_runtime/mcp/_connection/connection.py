"""One connection to a server, from its opening to its end.

A connection is opened once; `server_connection` makes a new one when it is lost or its session is gone.
"""

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
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

from seqoria_runtime.mcp._config.server_config import MCPServerConfig
from seqoria_runtime.mcp._login.paused_deadlines import timed
from seqoria_runtime.mcp._transport.connection_end import ConnectionEnd, Log
from seqoria_runtime.mcp._transport.failures import RequestFailed, connect_failure, first_cause
from seqoria_runtime.mcp._transport.headers import headers_for
from seqoria_runtime.mcp._transport.transports import open_transport

from .negotiation import negotiate
from .wire import Wire

T = TypeVar("T")

_RELISTEN_SECONDS = 1.0
_CLOSE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ConnectionEvents:
    """The callbacks of a connection. It counts as open when `opening` has returned; `opening` may raise."""

    opening: Callable[[ClientSession], Awaitable[None]]
    list_changed: Callable[[], None]
    suspicious: Callable[["SingleConnection", str], None]


class SingleConnection:
    """One connection, which lives while `run` runs.

    `opened` is set when it is open or has a `failure`, `unusable` when it takes no more requests.
    """

    def __init__(
        self,
        config: MCPServerConfig,
        events: ConnectionEvents,
        *,
        protocol: str,
        auth: httpx2.Auth | None,
        log: Log,
    ) -> None:
        self._config = config
        self._events = events
        self._protocol = protocol
        self._auth = auth
        self._log = log
        self._over = Event()
        self._end = ConnectionEnd(self._on_end, lambda cause: events.suspicious(self, cause))
        self._limit = CancelScope()
        self._retired = Event()
        self._retired_for: str | None = None
        self._closed_while_opening: str | None = None
        self._idle = Event()
        self._in_flight = 0
        self._session: ClientSession | None = None
        self.opened: Event = Event()
        self.unusable: Event = Event()
        self.failure: RequestFailed | None = None
        self.died_in_handshake: bool = False
        """Whether the transport ended by itself before the handshake was complete."""

    @property
    def lost(self) -> str | None:
        """Why the connection takes no more requests; `None` while it does."""
        return self._retired_for or self._end.cause

    @property
    def usable(self) -> bool:
        """Whether the connection is open and takes new requests."""
        return self._session is not None and not self.unusable.is_set()

    @property
    def session(self) -> ClientSession | None:
        """The SDK's session while it is open."""
        return self._session

    @property
    def protocol_version(self) -> str | None:
        return None if self._session is None else self._session.protocol_version

    async def run(self) -> None:
        """Open the connection, hold it until it is lost or closed, and close it.

        Raises none of its failures. If the caller is cancelled, the connection is closed.
        """
        try:
            await self._open_and_hold()
        except Exception as exc:  # noqa: BLE001 - whatever the SDK's tasks raise, it ends only this connection
            self._fail(connect_failure(exc))
        except BaseExceptionGroup as group:
            # The client is cancelled while the transport breaks: the group then holds both. Only the
            # cancellation may leave, bare, or the caller's scope would not recognize it.
            cancelled = group.subgroup(get_cancelled_exc_class())
            raise group if cancelled is None else first_cause(cancelled) from None
        finally:
            self._session = None
            # A cancelled `run` never opened: whoever waits for `opened` must not wait for ever.
            self._fail(RequestFailed(self._end.cause or "could not be connected", ran=False))

    def close(self, cause: str) -> None:
        """End the connection; requests in flight fail at once, with this cause if it is the first one."""
        self._end.report(cause)
        if not self.opened.is_set():
            # Before it is open, `_hold` does not yet wait for the end. A server that is removed while it
            # is silent would keep its process until the time-out.
            self._closed_while_opening = self._closed_while_opening or cause
            self._limit.cancel(cause)

    def retire(self, cause: str) -> None:
        """Take no more requests, for this reason, and end when those in flight have ended."""
        self._retired_for = self._retired_for or cause
        self._retired.set()
        self.unusable.set()
        if not self._in_flight:
            self._idle.set()

    async def request(self, ask: Callable[[ClientSession], Awaitable[T]]) -> T:
        """Await `ask(session)`; a cancelled caller has its request cancelled at the server.

        Raises `RequestFailed` if the connection is not open, or ends meanwhile.
        """
        session = self._session
        if session is None or not self.usable:
            raise RequestFailed(self.lost or "is not connected", ran=False)
        self._in_flight += 1
        try:
            return await ask(session)
        finally:
            self._in_flight -= 1
            if self._retired.is_set() and not self._in_flight:
                self._idle.set()

    async def _open_and_hold(self) -> None:
        timeout = self._config.timeout
        # One scope for opening and for closing: its deadline is the time-out first, nothing while the
        # connection is held, and the limit for closing at the end. `timed` stops it during a login.
        with CancelScope(deadline=anyio.current_time() + timeout) as self._limit, timed(self._limit):
            # Closed before this task first ran: do not start a process for it.
            if self._over.is_set():
                return
            headers = await headers_for(self._config.headers, {})
            transport = open_transport(
                self._config, headers=headers, auth=self._auth, end=self._end, log=self._log
            )
            async with transport as streams, self._session_over(*streams) as session:
                try:
                    await negotiate(session, self._protocol, timeout)
                    await self._events.opening(session)
                except BaseException as exc:
                    self._fail_early(exc)
                    raise
                self._limit.deadline = math.inf
                await self._hold(session)
        if self._limit.cancelled_caught:
            self._fail(self._overrun())

    def _session_over(self, read_stream: Any, write_stream: Any) -> ClientSession:
        config = self._config
        callbacks: dict[str, Any] = {
            "sampling_callback": config.sampling,
            "elicitation_callback": config.elicitation,
            "list_roots_callback": config.roots,
            "logging_callback": config.logging,
        }
        return ClientSession(
            dispatcher=Wire(read_stream, write_stream, self._end),
            **callbacks,
            # Servers of the newer era send log messages only for a requested level.
            log_level="debug" if config.logging is not None else None,
            message_handler=self._on_message,
            client_info=Implementation(name="seqoria_runtime", version=version("seqoria-runtime")),
        )

    async def _hold(self, session: ClientSession) -> None:
        self._session = session
        self.opened.set()
        async with anyio.create_task_group() as group:
            group.start_soon(self._end_when_retired)
            if _needs_subscription(session):
                group.start_soon(self._listen, session)
            await self._over.wait()
            self._session = None
            # A transport whose cleanup hangs would otherwise keep the client from closing.
            self._limit.deadline = anyio.current_time() + _CLOSE_SECONDS
            group.cancel_scope.cancel("the connection has ended")

    async def _end_when_retired(self) -> None:
        await self._retired.wait()
        # Calls in flight may still get their answers, but one that never ends must not keep a connection
        # whose session or socket is gone.
        with anyio.move_on_after(self._config.timeout):
            await self._idle.wait()
        self._end.report("was replaced by a new connection")

    async def _listen(self, session: ClientSession) -> None:
        """Subscribe to changes of the tool list, as the newer era requires."""
        try:
            while True:
                with suppress(SubscriptionLost):
                    await self._listen_once(session)
                await anyio.sleep(_RELISTEN_SECONDS)
        except (MCPError, RuntimeError) as exc:
            self._log.debug("does not report changes of its list: %s", exc)

    async def _listen_once(self, session: ClientSession) -> None:
        async with listen(session, tools_list_changed=True) as changes:
            # A change between the reading of the list and the subscription was not reported.
            self._events.list_changed()
            async for _ in changes:
                self._events.list_changed()

    async def _on_message(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._events.list_changed()

    def _on_end(self) -> None:
        self._over.set()
        self.unusable.set()

    def _fail_early(self, exc: BaseException) -> None:
        """Report a failed handshake before the transport closes, which may take seconds."""
        self.died_in_handshake = self._end.cause is not None
        if isinstance(exc, Exception):
            self._fail(connect_failure(exc))
        elif self._limit.cancel_called:
            self._fail(self._overrun())

    def _overrun(self) -> RequestFailed:
        # Not `self._end.cause`: when this scope is cancelled, the transport may report first that it was
        # closed, and the user would not read that the server timed out.
        cause = self._closed_while_opening or f"did not answer within {self._config.timeout:g} s"
        return RequestFailed(cause, ran=False)

    def _fail(self, failure: RequestFailed) -> None:
        if not self.opened.is_set():
            self.failure = failure
            self._end.report(failure.cause)
            self.opened.set()


def _needs_subscription(session: ClientSession) -> bool:
    capabilities = session.server_capabilities
    tools = None if capabilities is None else capabilities.tools
    return (
        session.protocol_version in MODERN_PROTOCOL_VERSIONS
        and tools is not None
        and bool(tools.list_changed)
    )
