"""Opens and closes a client."""

import anyio
from anyio import CancelScope

from seqoria_runtime._base.catalogue import Catalogue
from seqoria_runtime._execution.batches.observing import guarded
from seqoria_runtime._execution.calls.runner import running_grant
from seqoria_runtime._execution.calls.settings import ExecutionSettings
from seqoria_runtime.models.errors import ClientStateError

from ._capacity import ClientPlaces, ClientStats
from ._root import Root
from ._session import Session
from ._settings import CheckedSettings
from ._tool_sources import Servers, ToolSources
from ._turn import Services


class Lifecycle:
    """What a client is made of: its servers and tools, and its session while it is open."""

    def __init__(self, settings: CheckedSettings) -> None:
        self.tools = ToolSources(
            settings.toolboxes, settings.blocked_tools, lambda: self.servers.tools, settings.logger
        )
        self.servers = Servers(settings, self.refresh_tools)
        self.capacity = ClientPlaces(settings.max_concurrency, settings.tool_timeout)
        self.session: Session | None = None
        self._settings = settings
        self._entering = False

    async def enter(self) -> None:
        """Open the client in the caller's task; what was opened is closed again if this fails."""
        if self.session is not None or self._entering:
            raise ClientStateError("the client is open already: enter it once and share it")
        self._entering = True
        try:
            root = await Root.open()
            try:
                await self.servers.open(root)
                self.session = self._open_session(root)
            except BaseException as exc:
                await self._close(root, exc)
                raise
        finally:
            self._entering = False

    async def leave(self, failure: BaseException | None) -> None:
        """Close the client, whose body raised `failure`; a cancelled caller finds everything ended."""
        session = self.session
        if session is None:
            raise ClientStateError("the client is not open: there is nothing to leave")
        if session.runs_this_code():
            raise ClientStateError("a tool cannot close the client that runs it")
        session.root.check_leaving()
        try:
            await self._close(session.root, failure)
        finally:
            self.session = None

    async def _close(self, root: Root, failure: BaseException | None) -> None:
        """End the work first, then the servers that it uses, then everything."""
        root.stop_work()
        try:
            # Closing servers is bounded in time. A cancelled scope around the client must neither cut
            # it short nor replace what the body raised.
            with CancelScope(shield=True):
                await self.servers.close()
        finally:
            try:
                await root.close(failure)
            finally:
                self.tools.clear()

    def _open_session(self, root: Root) -> Session:
        settings = self._settings
        # An asyncio loop's own clock is what anyio's function would look up at every call.
        clock = getattr(root.token.native_token, "time", anyio.current_time)
        places = self.capacity.places(root.token, clock)
        observers = (guarded(observer, settings.logger) for observer in settings.observers)
        execution = ExecutionSettings(
            places=places,
            now=clock,
            tool_timeout=settings.tool_timeout,
            abandoned_grace=settings.abandoned_grace,
            registry=settings.registry,
            allow_override=settings.allow_override,
            listeners=(*self.capacity.listeners, *observers),
        )
        self.tools.refresh()
        if not settings.toolboxes and not self.servers.configs:
            settings.logger.warning("The client has no tools: it is LLM-only")
        if settings.refresh_interval:
            root.start_soon(self._refresh_for_ever)
        return Session(root, Services(settings.providers, lambda: self.tools.catalogue, execution))

    async def _refresh_for_ever(self) -> None:
        while True:
            await anyio.sleep(self._settings.refresh_interval)
            try:
                await self.servers.refresh(may_ask=False)
                self.refresh_tools()
            except Exception:
                self._settings.logger.warning("Refreshing the tools failed", exc_info=True)

    def require_session(self) -> Session:
        """Return the session; raise where the client cannot be used, or the calling tool call has ended."""
        if self.session is None or self.session.root.closing:
            raise ClientStateError("the client is not open: use it inside 'async with client:'")
        grant = running_grant()
        if grant is not None:
            grant.require_live()
        return self.session

    def refresh_tools(self) -> None:
        """Rebuild the catalogue from what is known now, if the client is open."""
        if self.session is not None:
            # Of servers that connect together, the configuration says which comes first.
            self.tools.refresh(final=not self.servers.connecting)

    def stats(self) -> ClientStats:
        """Count the calls of this moment."""
        if self.session is None:
            return self.capacity.stats((), Catalogue())
        return self.capacity.stats(self.session.services.live_batches, self.tools.catalogue)
