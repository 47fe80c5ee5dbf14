"""Where a client's tools come from: its toolboxes, and its remote servers.

The room `mcp` is loaded when the first server is added, the SDK when there is one to connect.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from copy import deepcopy
from logging import Logger
from typing import TYPE_CHECKING, Any

from seqoria_runtime._base import checks as _checks
from seqoria_runtime._base.catalogue import Catalogue, build_catalogue
from seqoria_runtime._base.tools import Tool
from seqoria_runtime.toolbox import LocalToolbox

from ._root import Root
from ._settings import CheckedSettings, ServerLike

if TYPE_CHECKING:
    from seqoria_runtime.mcp import MCPServer, MCPServerConfig, ServerStatus
    from seqoria_runtime.mcp._server_set import ServerSet


class ToolSources:
    """The catalogue is empty while the client is closed, and replaced whole by `refresh`.

    `remote` returns the servers and the tools of each, which come after those of the toolboxes. A
    server that has a name keeps it while the client is open, even if one before it comes up later;
    only a toolbox's own tool takes it away.
    """

    def __init__(
        self,
        toolboxes: tuple[LocalToolbox, ...],
        blocked: frozenset[str],
        remote: Callable[[], tuple[Sequence[object], Sequence[Iterable[Tool]]]],
        logger: Logger,
    ) -> None:
        self._toolboxes = toolboxes
        self._remote = remote
        self._blocked = blocked
        self._logger = logger
        self._owners: dict[str, object] = {}
        self._reported: set[tuple[object, ...]] = set()
        self.catalogue = Catalogue()

    def refresh(self, *, final: bool = True) -> None:
        """Read the sources again; turns in flight keep the catalogue of their round.

        Unless it is `final`, the names that are new may change their owners once more.
        """
        servers, remote = self._remote()
        sources: list[object] = [*self._toolboxes, *servers]
        local = [toolbox.tools for toolbox in self._toolboxes]
        places = {id(source): place for place, source in enumerate(sources)}
        owners = {name: places[id(source)] for name, source in self._owners.items() if id(source) in places}
        for place, tools in reversed([*enumerate(local)]):
            owners |= {tool.name: place for tool in tools}
        self.catalogue = build_catalogue([*local, *remote], self._blocked, owners=owners)
        if final:
            # An owner that does not list its tool for a while keeps the name.
            kept = {**owners, **self.catalogue.owners}
            self._owners = {name: sources[place] for name, place in kept.items()}
            self._report(sources)

    def _report(self, sources: Sequence[object]) -> None:
        for name, *places in self.catalogue.duplicates:
            left_out, used = (sources[place] for place in places)
            if left_out is not used:
                self._warn_once(
                    "Tool %r of %s is left out: %s has one of the same name and schema",
                    name,
                    _described(left_out),
                    _described(used),
                )
        for name in sorted(self.catalogue.unmatched):
            self._warn_once("The blocked name %r matches no tool that is known now", name)

    def _warn_once(self, text: str, *details: str) -> None:
        if (text, *details) not in self._reported:
            self._reported.add((text, *details))
            self._logger.warning(text, *details)

    def clear(self) -> None:
        """Offer no tool, and forget who had which name."""
        self.catalogue = Catalogue()
        self._owners.clear()
        self._reported.clear()

    def set_blocked(self, names: Iterable[str]) -> None:
        """Block exactly these names."""
        self._blocked = _checks.names("names", names)

    def block(self, names: Iterable[str]) -> None:
        """Block these names too."""
        self._blocked |= _checks.names("names", names)

    def unblock(self, names: Iterable[str]) -> None:
        """Unblock these names."""
        self._blocked -= _checks.names("names", names)

    def listed(self) -> list[dict[str, Any]]:
        """Return the catalogue as tool definitions that the application may change."""
        return [
            {
                "type": "function",
                "function": {
                    "name": entry.name,
                    "description": entry.tool.description,
                    "parameters": deepcopy(dict(entry.tool.parameters)),
                },
            }
            for entry in self.catalogue.entries.values()
        ]


def _described(source: object) -> str:
    return "a toolbox" if isinstance(source, LocalToolbox) else f"server {getattr(source, 'name', source)!r}"


class Servers:
    """The servers in configured order. `on_tools_changed` is called whenever their tools change."""

    def __init__(self, settings: CheckedSettings, on_tools_changed: Callable[[], None]) -> None:
        self._settings = settings
        self._on_tools_changed = on_tools_changed
        self._server_set: ServerSet | None = None
        self._attempts = 0

    @property
    def connecting(self) -> bool:
        """Whether `add` or `refresh` waits for servers."""
        return self._attempts > 0

    @property
    def configs(self) -> "tuple[MCPServerConfig, ...]":
        return self._settings.mcp_servers if self._server_set is None else self._server_set.configs

    @property
    def tools(self) -> tuple[Sequence[object], Sequence[Sequence[Tool]]]:
        """The servers, and the tools of each as they are known now."""
        known = self._server_set
        return ((), ()) if known is None else (known.configs, known.tools())

    async def open(self, root: Root) -> None:
        """Connect all servers; raise `MCPConnectionError` if a required one fails.

        A cancelled caller has to close the client, which ends what was started.
        """
        if self.configs:
            await self._loaded().start(root.start_soon)

    async def close(self) -> None:
        """Close all connections; to be called under a shield."""
        if self._server_set is not None:
            await self._server_set.close()

    async def add(
        self, servers: ServerLike | Iterable[ServerLike], *, connect: bool, root: Root | None
    ) -> int:
        """Add servers and return how many were new; for a cancelled caller they are added all the same."""
        from seqoria_runtime.mcp._config.server_config import configs_of

        configs = configs_of(servers, option="servers")
        if not configs:
            return 0
        server_set = self._loaded()
        if root is not None and not server_set.started:
            await server_set.start(root.start_soon)
        with self._attempt():
            return await server_set.add(configs, connect=connect)

    async def remove(self, servers: ServerLike | Iterable[ServerLike], *, disconnect: bool) -> int:
        """Remove servers, given by name, URL or configuration, and return how many there were.

        They are removed for a cancelled caller too, who does not wait for their connections to close.
        """
        from seqoria_runtime.mcp import MCPServerConfig

        if isinstance(servers, (str, MCPServerConfig)) or not isinstance(servers, Iterable):
            servers = [servers]
        wanted = list(servers)
        for server in wanted:
            if not isinstance(server, (str, MCPServerConfig)):
                raise TypeError(
                    f"'servers' takes URLs and MCPServerConfig objects, not {type(server).__name__}"
                )
        return await self._loaded().remove(wanted, disconnect=disconnect) if self.configs else 0

    async def refresh(self, *, may_ask: bool = True) -> None:
        """Read all tool lists again; `may_ask=False` never starts an interactive login.

        A cancelled caller finds some lists read and the others as they were.
        """
        if self._server_set is not None:
            with self._attempt():
                await self._server_set.refresh(may_ask=may_ask)

    @contextmanager
    def _attempt(self) -> Generator[None, None, None]:
        self._attempts += 1
        try:
            yield
        finally:
            self._attempts -= 1

    def status(self) -> "tuple[ServerStatus, ...]":
        """Return the state of each server."""
        return self._loaded().status() if self.configs else ()

    def handle(self, server: ServerLike) -> "MCPServer":
        """Return one server's requests; raise `ValueError` if there is no such server."""
        if not self.configs:
            raise ValueError(f"there is no server {server!r}: the client has none")
        return self._loaded().server(server)

    def _loaded(self) -> "ServerSet":
        if self._server_set is None:
            from seqoria_runtime.mcp._connection.server_connection import ServerOptions
            from seqoria_runtime.mcp._server_set import ServerSet

            settings = self._settings
            options = ServerOptions(
                policy=settings.retry_policy,
                breaker_threshold=settings.breaker_threshold,
                breaker_reset_after=settings.breaker_reset_after,
            )
            self._server_set = ServerSet(
                settings.mcp_servers, options, on_tools_changed=self._on_tools_changed, logger=settings.logger
            )
        return self._server_set
