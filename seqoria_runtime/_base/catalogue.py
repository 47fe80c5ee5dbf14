"""Owns the rule that gives each tool its public name: a frozen snapshot, replaced whole.

Pure: it is built from sources and a blocklist, and knows nothing of connections or calls.
"""

import hashlib
import json
import re
from collections.abc import Container, Iterable, Mapping, Sequence
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


class Duplicate(NamedTuple):
    """A tool that is left out, since the source `used` has one of the same name and schema."""

    name: str
    source: int
    used: int


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Public name → tool, for all tools that are not blocked, in the order of their sources.

    `owners` are the positions of the sources that have the names, blocked ones included; `unmatched`
    are the blocked names that no tool has.
    """

    entries: Mapping[str, CatalogueEntry] = field(default_factory=lambda: MappingProxyType({}))
    owners: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    duplicates: Sequence[Duplicate] = ()
    unmatched: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.entries)

    def get(self, name: str) -> CatalogueEntry | None:
        return self.entries.get(name)


class _Listed(NamedTuple):
    place: int
    source: int
    tool: Tool
    schema: str

    def rank(self, owners: Mapping[str, int]) -> int:
        """Return 0 for the owner of the plain name, 1 for that of the alias, 2 for a newcomer."""
        names = (self.tool.name, alias(self.tool.name, self.schema))
        return next((rank for rank, name in enumerate(names) if owners.get(name) == self.source), 2)


def build_catalogue(
    sources: Iterable[Iterable[Tool]], blocked: Iterable[str] = (), *, owners: Mapping[str, int] | None = None
) -> Catalogue:
    """Name the tools of all sources, the first source first, and leave out those that are blocked.

    A tool of the same name and schema as an earlier one is the same tool; one of the same name and
    another schema gets the alias `name__` and eight hex digits of the SHA-256 of its schema, and so
    does one whose name a provider would refuse. Names are given before blocking, so that blocking
    one tool renames no other. The sources that had names before, `owners`, keep them.
    """
    had = owners or {}
    tools = ((source, tool) for source, listed in enumerate(sources) for tool in listed)
    listed = [_Listed(place, *one, canonical_schema(one[1])) for place, one in enumerate(tools)]
    named: dict[str, _Listed] = {}
    used: dict[tuple[str, str], int] = {}
    duplicates: list[Duplicate] = []
    for one in sorted(listed, key=lambda one: one.rank(had)) if had else listed:
        name, variant = one.tool.name, (one.tool.name, one.schema)
        if variant in used:
            duplicates.append(Duplicate(name, one.source, used[variant]))
            continue
        used[variant] = one.source
        plain = name not in named and had.get(name, one.source) == one.source
        if not (plain and _ACCEPTED_NAME.fullmatch(name)):
            name = _unused_alias(name, one.schema, named)
        named[name] = one
    return _without(frozenset(blocked), named, duplicates)


def _without(
    blocked: frozenset[str], named: Mapping[str, _Listed], duplicates: Sequence[Duplicate]
) -> Catalogue:
    in_order = sorted(named.items(), key=lambda item: item[1].place)
    entries = [CatalogueEntry(name, one.tool) for name, one in in_order]
    return Catalogue(
        MappingProxyType({entry.name: entry for entry in entries if blocked.isdisjoint(entry.names)}),
        MappingProxyType({name: one.source for name, one in in_order}),
        duplicates,
        blocked.difference(*(entry.names for entry in entries)),
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
