"""Names the tools of all sources: a frozen snapshot, which is replaced as a whole."""

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
    """A tool under its public name, which is its own or, if an earlier tool has that, an alias."""

    name: str
    tool: Tool

    @property
    def names(self) -> tuple[str, ...]:
        """The names that `depends_on` and `blocked_tools` may use for it."""
        return (self.name,) if self.name == self.tool.name else (self.name, self.tool.name)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The tools that are not blocked, by public name, in the order of their sources."""

    entries: Mapping[str, CatalogueEntry] = field(default_factory=lambda: MappingProxyType({}))

    def __len__(self) -> int:
        return len(self.entries)

    def get(self, name: str) -> CatalogueEntry | None:
        return self.entries.get(name)


def build_catalogue(sources: Iterable[Iterable[Tool]], blocked: Iterable[str] = ()) -> Catalogue:
    """Name the tools of all sources, the first source first, and leave out the blocked ones.

    A tool with the name and schema of an earlier one is the same tool. One with the same name and another
    schema gets an alias: `name__` and eight hex digits of the SHA-256 of its schema. So does one whose name
    a provider would refuse. Tools are named before they are blocked, so that blocking one renames no other.
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
