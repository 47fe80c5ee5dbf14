"""Owns the opening and closing of a client, and what it is made of while it is open.

Knows nothing of turns or calls: `AsyncAIClient` adds them.
"""

from types import TracebackType
from typing import Self

import anyio
from anyio import CancelScope
from anyio.lowlevel import EventLoopToken

from seqoria_runtime._base.catalogue import Catalogue
from seqoria_runtime._execution.batches.observing import guarded
from seqoria_runtime._execution.calls.runner import running_grant
from seqoria_runtime._execution.calls.settings import ExecutionSettings
from seqoria_runtime._execution.places.adaptive import (
    AdaptiveController,
    AdaptiveLimit,
    LimitChange,
    LimitFollower,
)
from seqoria_runtime._execution.places.places import Places
from seqoria_runtime.models.errors import ClientStateError

from ._root import Root
from ._servers import Servers
from ._session import Session
from ._settings import CheckedSettings
from ._stats import ClientStats, count
from ._tool_sources import ToolSources


class ClientLifecycle:
    """A client as something that is entered, left and looked at."""

    def __init__(self, settings: CheckedSettings) -> None:
        self._settings = settings
        self._servers = Servers(settings, self._tools_changed)
        self._tools = ToolSources(settings.toolboxes, settings.blocked_tools, lambda: self._servers.tools)
        self._session: Session | None = None
        self._entering = False
        self._places: tuple[EventLoopToken, Places] | None = None
        self._follower: LimitFollower | None = None

    async def __aenter__(self) -> Self:
        if self._session is not None or self._entering:
            raise ClientStateError("the client is open already: enter it once and share it")
        self._entering = True
        try:
            root = await Root.open()
            try:
                await self._servers.open(root)
                self._session = self._open_session(root)
            except BaseException as exc:
                await self._close(root, exc)
                raise
        finally:
            self._entering = False
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        session = self._session
        if session is None:
            raise ClientStateError("the client is not open: there is nothing to leave")
        _refuse_in_own_call(session)
        session.root.check_leaving()
        try:
            await self._close(session.root, exc)
        finally:
            self._session = None

    async def _close(self, root: Root, failure: BaseException | None) -> None:
        """End the work first, then the servers that it uses, then everything."""
        root.stop_work()
        try:
            # Closing servers is bounded; a cancelled scope around the client must not cut it short, nor
            # take the place of what the body raised.
            with CancelScope(shield=True):
                await self._servers.close()
        finally:
            try:
                await root.close(failure)
            finally:
                self._tools.clear()

    def _open_session(self, root: Root) -> Session:
        settings = self._settings
        # An asyncio loop's own clock is what anyio's function would look up at every call.
        clock = getattr(root.token.native_token, "time", anyio.current_time)
        if self._places is None or self._places[0] != root.token:
            limit = settings.max_concurrency
            self._places = (root.token, Places(limit if isinstance(limit, int) else limit.min, clock))
            if isinstance(limit, AdaptiveLimit):
                self._follower = LimitFollower(AdaptiveController(limit, clock()), self._places[1])
        execution = ExecutionSettings(
            places=self._places[1],
            now=clock,
            tool_timeout=settings.tool_timeout,
            abandoned_grace=settings.abandoned_grace,
            registry=settings.registry,
            allow_override=settings.allow_override,
            listeners=(
                *((self._follower.note,) if self._follower is not None else ()),
                *(guarded(observer, settings.logger) for observer in settings.observers),
            ),
        )
        self._tools.refresh()
        if not settings.toolboxes and not self._servers.configs:
            settings.logger.warning("The client has no tools: it is LLM-only")
        if settings.refresh_interval:
            root.start_soon(self._refresh_for_ever)
        return Session(root, settings.providers, lambda: self._tools.catalogue, execution)

    def _tools_changed(self) -> None:
        self._tools.refresh()

    async def _refresh_for_ever(self) -> None:
        while True:
            await anyio.sleep(self._settings.refresh_interval)
            try:
                await self._servers.refresh(may_ask=False)
                self._tools.refresh()
            except Exception:
                self._settings.logger.warning("Refreshing the tools failed", exc_info=True)

    def _require_session(self) -> Session:
        if self._session is None or self._session.root.closing:
            raise ClientStateError("the client is not open: use it inside 'async with client:'")
        grant = running_grant()
        if grant is not None:
            grant.require_live()
        return self._session

    def stats(self) -> ClientStats:
        """How many tool calls run, wait and are abandoned, by tool, and the limits. Awaits nothing."""
        limit = self._settings.max_concurrency
        least = limit if isinstance(limit, int) else limit.min
        places = self._places[1] if self._places is not None else None
        return count(
            self._session.batches if self._session is not None else (),
            self._tools.catalogue if self._session is not None else Catalogue(),
            places,
            limit=places.slots.limit if places is not None else least,
            timeout=self._settings.tool_timeout,
        )

    def limit_history(self) -> tuple[LimitChange, ...]:
        """How an `AdaptiveLimit` has changed, the present limit last; empty for a limit that is fixed."""
        return self._follower.controller.history if self._follower is not None else ()


def _refuse_in_own_call(session: Session) -> None:
    if session.runs(running_grant()):
        raise ClientStateError("a tool cannot close the client that runs it")
