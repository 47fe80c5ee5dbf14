import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime._base.catalogue import alias, build_catalogue, canonical_schema

pytestmark = pytest.mark.clause("C104")

ACCEPTED = re.compile(r"[A-Za-z0-9_-]{1,64}")

INT = {"type": "object", "properties": {"value": {"type": "integer"}}}
TEXT = {"type": "object", "properties": {"value": {"type": "string"}}}


@dataclass(eq=False)
class Named:
    """The attributes of a tool that a catalogue uses."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=lambda: INT)


def build(*sources: list[Named], blocked: Any = ()) -> dict[str, Any]:
    catalogue = build_catalogue(sources, blocked)  # type: ignore[arg-type]
    assert len(catalogue) == len(catalogue.entries)
    return {name: entry.tool for name, entry in catalogue.entries.items()}


def test_tools_of_different_names_keep_them_in_the_order_of_their_sources() -> None:
    tools = [Named("b"), Named("a"), Named("c")]
    named = build(tools[:2], tools[2:])
    assert list(named.items()) == [("b", tools[0]), ("a", tools[1]), ("c", tools[2])]


def test_the_same_name_and_schema_again_is_the_same_tool_and_the_first_stays() -> None:
    first = Named("a")
    assert build([first], [Named("a", dict(reversed(INT.items())))], [Named("a")]) == {"a": first}


def test_the_same_name_with_another_schema_gets_an_alias() -> None:
    first, second = Named("a", INT), Named("a", TEXT)
    named = build([first], [second])
    assert list(named.values()) == [first, second]
    assert re.fullmatch(r"a__[0-9a-f]{8}", list(named)[1])


def test_a_variant_from_two_sources_is_listed_once_and_goes_to_the_first() -> None:
    tools = [Named("a", INT), Named("a", TEXT), Named("a", TEXT), Named("a", INT)]
    assert list(build([tools[0]], [tools[1]], [tools[2], tools[3]]).values()) == tools[:2]


def test_an_alias_is_the_same_wherever_and_whenever_it_is_made() -> None:
    schema = canonical_schema(Named("a", TEXT))  # type: ignore[arg-type]
    assert schema == '{"properties":{"value":{"type":"string"}},"type":"object"}'
    assert alias("a", schema) == "a__f0ed10c7"


def test_an_entry_is_known_by_its_alias_and_by_the_tools_own_name() -> None:
    entries = build_catalogue([[Named("a", INT)], [Named("a", TEXT)]]).entries  # type: ignore[list-item]
    first, second = entries.values()
    assert first.names == ("a",)
    assert second.names == (second.name, "a")
    assert second.name != "a"


@pytest.mark.parametrize("name", ["files.read", "get weather", "größe", "x" * 65, "", "a/b", "emoji 🎉"])
def test_a_name_that_providers_refuse_is_replaced_by_an_alias_that_they_accept(name: str) -> None:
    tool = Named(name)
    [(public, found)] = build([tool]).items()
    assert ACCEPTED.fullmatch(public)
    assert found is tool


def test_names_with_equal_aliases_are_distinguished() -> None:
    tools = [Named("files.read"), Named("files/read"), Named("files read"), Named("files_read")]
    named = build(tools)
    assert list(named.values()) == tools
    assert all(ACCEPTED.fullmatch(name) for name in named)
    assert "files_read" in named


def test_long_names_with_the_same_start_are_distinguished() -> None:
    tools = [Named("x" * 70 + ending) for ending in "abc"]
    assert list(build(tools).values()) == tools


def test_a_tool_with_the_name_of_another_tools_alias_is_not_lost() -> None:
    taken = alias("a", canonical_schema(Named("a", TEXT)))  # type: ignore[arg-type]
    tools = [Named(taken), Named("a", INT), Named("a", TEXT)]
    assert list(build(tools).values()) == tools


@pytest.mark.clause("C103")
def test_blocking_a_base_name_hides_its_variants_and_blocking_an_alias_hides_that_variant() -> None:
    tools = [Named("a", INT), Named("a", TEXT), Named("b")]
    names = list(build(tools))
    assert build(tools, blocked=["a"]) == {"b": tools[2]}
    assert build(tools, blocked=[names[1]]) == {"a": tools[0], "b": tools[2]}
    assert build(tools, blocked=["A", "c"]) == build(tools)


@pytest.mark.clause("C103")
def test_blocking_a_tool_renames_no_other() -> None:
    tools = [Named("a", INT), Named("b.c", INT), Named("b/c", INT), Named("a", TEXT)]
    names = list(build(tools))
    for blocked in names:
        assert list(build(tools, blocked=[blocked])) == [
            name for name in names if name != blocked and not (blocked == "a" and name.startswith("a__"))
        ]


def test_a_catalogue_cannot_be_changed() -> None:
    catalogue = build_catalogue([[Named("a")]])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        catalogue.entries["b"] = None  # type: ignore[index]
    with pytest.raises(AttributeError):
        catalogue.entries = {}  # type: ignore[misc]


names = st.text(alphabet="ab._é " + string.digits[:2], max_size=3) | st.just("a" * 70)
schemas = st.sampled_from([INT, TEXT, {}])


@given(st.lists(st.lists(st.builds(Named, names, schemas), max_size=6), max_size=3))
def test_every_tool_that_is_not_a_repetition_has_one_unique_accepted_name(
    sources: list[list[Named]],
) -> None:
    named = build(*sources)
    wanted: dict[tuple[str, str], Named] = {}
    for tool in (tool for source in sources for tool in source):
        wanted.setdefault((tool.name, str(tool.parameters)), tool)
    assert list(named.values()) == list(wanted.values())
    assert all(ACCEPTED.fullmatch(name) for name in named)
    for tool in named.values():
        first_of_name = next(other for other in wanted.values() if other.name == tool.name)
        if first_of_name is tool and ACCEPTED.fullmatch(tool.name) and tool.name not in aliases(named):
            assert named[tool.name] is tool


def aliases(named: Mapping[str, Named]) -> set[str]:
    return {name for name, tool in named.items() if name != tool.name}
