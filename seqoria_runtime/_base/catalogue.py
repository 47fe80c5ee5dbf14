"""Names the tools of all sources: a frozen snapshot, which is replaced as a whole."""

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
    """A tool under its public name, which is its own or, if an earlier tool has that, an alias."""

    name: str
    tool: Tool

    @property
    def names(self) -> tuple[str, ...]:
        """The names that `depends_on` and `blocked_tools` may use for it."""
        return (self.name,) if self.name == self.tool.name else (self.name, self.tool.name)


class Duplicate(NamedTuple):
    """A tool that is left out, since the source `used` has one of the same name and schema."""

    name: str
    source: int
    used: int


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The tools that are not blocked, by public name, in the order of their sources.

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
    """Name the tools of all sources, the first source first, and leave out the blocked ones.

    A tool with the name and schema of an earlier one is the same tool. One with the same name and another
    schema gets an alias: `name__` and eight hex digits of the SHA-256 of its schema. So does one whose name
    a provider would refuse. Tools are named before they are blocked, so that blocking one renames no other.
    The sources that had names before, `owners`, keep them.
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
    """Return the tool's schema as text that is the same on every machine."""
    return json.dumps(tool.parameters, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def alias(name: str, schema: str) -> str:
    """Return an alias that every provider accepts: at most 64 letters, digits, "_" and "-"."""
    digest = hashlib.sha256(schema.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9_-]', '_', name)[:54]}__{digest}"


def _unused_alias(name: str, schema: str, used: Container[str]) -> str:
    # `a.b` and `a:b` with equal schemas would both get the alias `a_b__` and the same digits.
    text = schema
    while (candidate := alias(name, text)) in used:
        text += f"\n{name}"
    return candidate
