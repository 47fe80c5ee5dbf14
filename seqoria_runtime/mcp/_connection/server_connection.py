"""Keeps one configured server connected: opens a new connection when one is lost or must be renewed.

One task, `run`, keeps the server; each connection is a child task.
"""

import random
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio import CancelScope, Event
from anyio.abc import TaskGroup

from seqoria_runtime._base.retry_policy import RetryPolicy
from seqoria_runtime.mcp._config.oauth_config import TokenStorage
from seqoria_runtime.mcp._config.server_config import MCPServerConfig
from seqoria_runtime.mcp._config.status import ServerState, ServerStatus
from seqoria_runtime.mcp._login.login import auth_for
from seqoria_runtime.mcp._transport.connection_end import Log
from seqoria_runtime.mcp._transport.failures import RequestFailed

from .breaker import Breaker
from .connection import ConnectionEvents, SingleConnection
from .tool_list import ToolList

_FIRST_DELAY = 0.5
_LONGEST_DELAY = 30.0
# A connection that is lost sooner counts as a failed attempt. Otherwise a server that exits right after the
# handshake would be restarted without a pause, for ever.
_STEADY_SECONDS = 10.0
_NOT_STARTED = "is not connected: refresh_tools() connects it"


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The options that all servers of a client share. Times are seconds; `wall` returns Unix time."""

    policy: RetryPolicy = field(default_factory=RetryPolicy)
    breaker_threshold: int = 5
    breaker_reset_after: float = 60.0
    random: Callable[[], float] = random.random
    wall: Callable[[], float] = time.time


class ServerConnection:
    """A server that stays connected while `run` runs; `closed` is set when everything is closed.

    `storage` keeps the tokens of a login, unless the configuration has a storage.
    """

    def __init__(
        self,
        config: MCPServerConfig,
        options: ServerOptions,
        storage: TokenStorage,
        *,
        on_tools_changed: Callable[[], None],
        log: Log,
    ) -> None:
        self.config = config
        self.storage = storage
        self.list: ToolList = ToolList(config.timeout, on_tools_changed, log)
        self.breaker: Breaker = Breaker(options.breaker_threshold, options.breaker_reset_after)
        self.closed: Event = Event()
        self.started: bool = False
        self._options = options
        self._auth = auth_for(config, storage)
        self._log = log
        self._protocol = config.protocol
        self._current: SingleConnection | None = None
        self._live: set[SingleConnection] = set()
        self._keeping = CancelScope()
        self._wake = Event()
        self._attempt_over = Event()
        self._failures = 0
        self._stop_cause: str | None = None
        self._error: str | None = None
        self._failure = RequestFailed(_NOT_STARTED, ran=False)
        self._state: ServerState = "closed"
        self._since = options.wall()

    @property
    def name(self) -> str:
        return self.config.name

    def status(self) -> ServerStatus:
        """Return how the server is now."""
        connection = self._current
        return ServerStatus(
            name=self.name,
            transport=self.config.target.transport,
            state=self._state,
            since=self._since,
            error=self._error or self.list.error,
            protocol=None if connection is None else connection.protocol_version,
            tools=len(self.list.tools),
            breaker=self.breaker.state(anyio.current_time()) if self.started else "closed",
        )

    def start(self, spawn: Callable[[Callable[[], Coroutine[Any, Any, None]]], object]) -> None:
        """Have `spawn` start a task for `run`; do nothing the second time."""
        if not self.started and self._stop_cause is None:
            self.started = True
            spawn(self.run)

    async def run(self) -> None:
        """Connect, and connect again whenever the connection is lost, until `stop` is called.

        If the caller is cancelled, everything is closed.
        """
        try:
            async with anyio.create_task_group() as group:
                # Cancels only the keeping: the connections close by themselves, so that a process gets the
                # end of its input and an HTTP server the end of its session.
                with self._keeping:
                    await self._keep_connected(group)
                for connection in tuple(self._live):
                    connection.close(self._stop_cause or "was closed")
        finally:
            self._current = None
            self._failure = RequestFailed(self._stop_cause or "was closed", ran=False)
            self._set_state("closed")
            self._end_attempt()
            self.closed.set()

    def stop(self, cause: str) -> None:
        """Make `run` close everything and return; calls in flight fail at once, with this cause."""
        if self._stop_cause is None:
            self._stop_cause = cause
            for connection in self._live:
                connection.close(cause)
            self._keeping.cancel(cause)
        if not self.started:
            self.closed.set()

    async def attempted(self) -> RequestFailed | None:
        """Wait until the server is connected or an attempt has failed, and return the failure.

        Starts an attempt if none is running. A cancelled caller leaves the attempt running.
        """
        if self._current is not None and self._current.usable:
            return None
        if self._stop_cause is not None or not self.started:
            return self._failure if self._stop_cause is None else RequestFailed(self._stop_cause, ran=False)
        if self._state != "connecting":
            self._wake.set()
        # The event of this attempt: `_end_attempt` sets it and makes another one for the next.
        await self._attempt_over.wait()
        return None if self._current is not None else self._failure

    async def connected(self) -> SingleConnection:
        """Return the open connection; wait for an attempt as `attempted` does. Raises `RequestFailed`."""
        failure = await self.attempted()
        if failure is not None:
            raise failure.unsent()
        assert self._current is not None
        return self._current

    def renew(self, connection: SingleConnection) -> None:
        """Renew the session: replace this connection by a new one; its calls in flight continue.

        Ten calls may find at the same time that their session is gone. `retire` is idempotent, and the
        keeper opens one new connection for all of them.
        """
        connection.retire("no longer knows this session")

    async def refresh(self, *, may_ask: bool = True) -> None:
        """Read the list of tools again, or connect; a failure is in the status afterwards.

        `may_ask=False`: do not start a login. A cancelled caller leaves the list as it was.
        """
        connection = self._current
        if connection is not None and connection.usable:
            await self.list.refresh(connection)
        elif may_ask or self._failure.about != "login":
            await self.attempted()

    async def _keep_connected(self, group: TaskGroup) -> None:
        while True:
            connection = await self._attempt(group)
            if connection is not None:
                opened = anyio.current_time()
                async with anyio.create_task_group() as following:
                    following.start_soon(self.list.follow, connection)
                    await connection.unusable.wait()
                    following.cancel_scope.cancel("the connection takes no more requests")
                self._current = None
                self._note_loss(connection, lived=anyio.current_time() - opened)
            if self._failures:
                await self._pause()

    async def _attempt(self, group: TaskGroup) -> SingleConnection | None:
        """Try once to connect; return the open connection, or `None`."""
        self._set_state("connecting")
        # From here on this attempt answers whoever waits; a wish from before must not cause another one.
        self._wake = Event()
        connection = await self._open(group, self._protocol)
        if connection.failure is not None and self._died_of_the_probe(connection):
            self._protocol = "legacy"
            connection = await self._open(group, self._protocol)
        failure = connection.failure
        if failure is None:
            self._current = connection
            self._error = None
            self._set_state("connected")
        else:
            # The server that died of the probe may come back as a newer version.
            self._protocol = self.config.protocol
            self._note_failure(failure)
        self._end_attempt()
        return None if failure is not None else connection

    async def _open(self, group: TaskGroup, protocol: str) -> SingleConnection:
        events = ConnectionEvents(self.list.read, self.list.changed, self._suspect)
        connection = SingleConnection(self.config, events, protocol=protocol, auth=self._auth, log=self._log)
        self._live.add(connection)
        group.start_soon(self._hold, connection)
        await connection.opened.wait()
        return connection

    async def _hold(self, connection: SingleConnection) -> None:
        try:
            await connection.run()
        finally:
            self._live.discard(connection)

    async def _pause(self) -> None:
        """Wait before the next attempt, longer after each failure, or until a call needs the server."""
        if self._failure.about == "login":
            # A user who closed the login page must not see it open again every 30 seconds.
            await self._wake.wait()
            return
        longest = min(_FIRST_DELAY * 2.0 ** min(self._failures - 1, 16), _LONGEST_DELAY)
        # Jitter: the clients of a restarted server must not all come back in the same moment.
        with anyio.move_on_after(longest * (0.5 + 0.5 * self._options.random())):
            await self._wake.wait()

    def _died_of_the_probe(self, connection: SingleConnection) -> bool:
        """Return whether the probe of the newer era ended the server, as it ends some of the older era."""
        return (
            self._protocol == "auto"
            and self.config.target.transport == "stdio"
            and connection.died_in_handshake
        )

    def _suspect(self, connection: SingleConnection, cause: str) -> None:
        # One broken socket does not prove that the server is gone: requests on other sockets may still get
        # their answers, so the connection is retired and not closed.
        if connection is self._current:
            connection.retire(cause)

    def _note_loss(self, connection: SingleConnection, *, lived: float) -> None:
        self._failures = 0 if lived >= _STEADY_SECONDS else self._failures + 1
        self._error = connection.lost or "was lost"
        self._failure = RequestFailed(self._error, ran=False)
        self._set_state("down")
        self._log.info("lost the connection: %s", self._failure.cause)

    def _note_failure(self, failure: RequestFailed) -> None:
        self._failures += 1
        self._failure = failure
        self._error = failure.cause
        self._set_state("down")
        self._log.warning("%s", failure.cause)

    def _end_attempt(self) -> None:
        self._attempt_over.set()
        self._attempt_over = Event()

    def _set_state(self, state: ServerState) -> None:
        if state != self._state:
            self._state = state
            self._since = self._options.wall()
