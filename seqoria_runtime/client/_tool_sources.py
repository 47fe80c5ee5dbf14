"""The tools that a client offers: its toolboxes and servers, less the blocked names."""

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from logging import Logger
from typing import Any

from seqoria_runtime._base import checks as _checks
from seqoria_runtime._base.catalogue import Catalogue, build_catalogue
from seqoria_runtime._base.tools import Tool
from seqoria_runtime.toolbox import LocalToolbox


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
