"""Owns the rule that gives each tool its public name: a frozen snapshot, replaced whole.

Pure: it is built from sources and a blocklist, and knows nothing of connections or calls.
"""

import hashlib
import json
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from .tools import Tool

_ACCEPTED_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class CatalogueEntry(NamedTuple):
    """A tool under its public name: its own, or an alias where another tool came first."""

    name: str
    tool: Tool

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which other tools may depend on it, and by which it may be blocked."""
        return (self.name,) if self.name == self.tool.name else (self.name, self.tool.name)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Public name → tool, for all tools that are not blocked, in the order of their sources."""

    entries: Mapping[str, CatalogueEntry] = field(default_factory=lambda: MappingProxyType({}))

    def __len__(self) -> int:
        return len(self.entries)

    def get(self, name: str) -> CatalogueEntry | None:
        return self.entries.get(name)


def build_catalogue(sources: Iterable[Iterable[Tool]], blocked: Iterable[str] = ()) -> Catalogue:
    """Name the tools of all sources, the first source first, and leave out those that are blocked.

    A tool of the same name and schema as an earlier one is the same tool; one of the same name and
    another schema gets the alias `name__` and eight hex digits of the SHA-256 of its schema, and so
    does one whose name a provider would refuse. Names are given before blocking, so that blocking
    one tool renames no other.
    """
    named: dict[str, CatalogueEntry] = {}
    schemas: dict[str, set[str]] = {}
    for tool in (tool for source in sources for tool in source):
        schema = canonical_schema(tool)
        known = schemas.setdefault(tool.name, set())
        if schema in known:
            continue
        plain = tool.name not in named and _ACCEPTED_NAME.fullmatch(tool.name)
        name = tool.name if plain else _unused_alias(tool.name, schema, named)
        known.add(schema)
        named[name] = CatalogueEntry(name, tool)
    forbidden = frozenset(blocked)
    return Catalogue(
        MappingProxyType({name: entry for name, entry in named.items() if forbidden.isdisjoint(entry.names)})
    )


def canonical_schema(tool: Tool) -> str:
    """The tool's public schema as text that is the same on every machine."""
    return json.dumps(tool.parameters, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def alias(name: str, schema: str) -> str:
    """The name of a variant of a tool: at most 64 letters, digits, "_" and "-", as every provider accepts."""
    digest = hashlib.sha256(schema.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9_-]', '_', name)[:54]}__{digest}"


def _unused_alias(name: str, schema: str, used: Container[str]) -> str:
    # Names that differ only in what an alias cannot hold come out as one where their schemas are the same.
    text = schema
    while (candidate := alias(name, text)) in used:
        text += f"\n{name}"
    return candidate
