"""The tools that a client offers: its toolboxes and servers, less the blocked names."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

from seqoria_runtime._base import checks as _checks
from seqoria_runtime._base.catalogue import Catalogue, build_catalogue
from seqoria_runtime._base.tools import Tool
from seqoria_runtime.toolbox import LocalToolbox


class ToolSources:
    """The catalogue is empty while the client is closed, and replaced whole by `refresh`.

    `remote` returns the tools of each server, which come after those of the toolboxes.
    """

    def __init__(
        self,
        toolboxes: tuple[LocalToolbox, ...],
        blocked: frozenset[str],
        remote: Callable[[], Iterable[Iterable[Tool]]],
    ) -> None:
        self._toolboxes = toolboxes
        self._remote = remote
        self._blocked = blocked
        self.catalogue = Catalogue()

    def refresh(self) -> None:
        """Read the sources again; turns in flight keep the catalogue of their round."""
        local = (toolbox.tools for toolbox in self._toolboxes)
        self.catalogue = build_catalogue(chain(local, self._remote()), self._blocked)

    def clear(self) -> None:
        """Offer no tool."""
        self.catalogue = Catalogue()

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
