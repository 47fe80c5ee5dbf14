"""How the value that a tool returns becomes text."""

import dataclasses
import datetime
import decimal
import enum
import gc
import itertools
import json
import math
import pathlib
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, model_serializer

from seqoria_runtime._base.tools import ToolFailure
from seqoria_runtime.toolbox import LocalToolbox


def make() -> None: ...


TOOLS = LocalToolbox()
TOOLS.tool(make)
(TOOL,) = TOOLS.tools


class Colour(enum.Enum):
    RED = "red"
    ONE = 1


class Word(enum.StrEnum):
    YES = "yes"


class Weather(BaseModel):
    degrees: float = Field(alias="temperature")
    sky: str | None = None


@dataclasses.dataclass
class Place:
    name: str
    weather: Weather | None = None


class Point(NamedTuple):
    x: int
    y: int


class Loud(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "LOUD"


@pytest.mark.clause("C64")
@pytest.mark.case("L1")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n<b>&</b>", "as it is\n<b>&</b>"),
        ("", ""),
        ("größe 😀", "größe 😀"),
        (Loud("quiet"), "quiet"),
        (Word.YES, "yes"),
        (Colour.RED, "red"),
        (Colour.ONE, "1"),
        (None, "null"),
        (True, "true"),
        (10**30, "1" + "0" * 30),
        (math.nan, "null"),
        (-math.inf, "null"),
        ([], "[]"),
        ([1, "é"], '[\n  1,\n  "é"\n]'),
        ({"a": {"b": math.nan}}, '{\n  "a": {\n    "b": null\n  }\n}'),
        (
            {1: "a", None: 2, 1.5: 3, Colour.RED: 4},
            '{\n  "1": "a",\n  "None": 2,\n  "1.5": 3,\n  "red": 4\n}',
        ),
        ({3}, "[\n  3\n]"),
        (frozenset({"x"}), '[\n  "x"\n]'),
        (Point(1, 2), "[\n  1,\n  2\n]"),
        (datetime.datetime(2024, 2, 29, 1, 2, tzinfo=datetime.UTC), '"2024-02-29T01:02:00Z"'),
        (datetime.timedelta(seconds=90), '"PT1M30S"'),
        (decimal.Decimal("1.10"), '"1.10"'),
        (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (pathlib.Path("/a/b"), '"/a/b"'),
        (b"bytes", '"bytes"'),
        (Weather(temperature=1.5), '{\n  "temperature": 1.5,\n  "sky": null\n}'),
        (
            [Place("Rome", Weather(temperature=math.nan))],
            '[\n  {\n    "name": "Rome",\n'
            '    "weather": {\n      "temperature": null,\n      "sky": null\n    }\n  }\n]',
        ),
        ({"ai_message": "hi", "metadata": {}}, '{\n  "ai_message": "hi",\n  "metadata": {}\n}'),
    ],
    ids=repr,
)
def test_a_string_passes_as_it_is_and_everything_else_as_json(value: Any, text: str) -> None:
    rendered = TOOL.render(value)
    assert rendered == text
    assert type(rendered) is str


def generate() -> Iterator[int]:
    yield 1


async def generate_later() -> AsyncIterator[int]:
    yield 1


async def compute() -> int:
    return 1


def circle() -> list[Any]:
    items: list[Any] = [1]
    items.append({"again": items})
    return items


def deep() -> list[Any]:
    items: list[Any] = []
    for _ in range(100_000):
        items = [items]
    return items


class Broken(BaseModel):
    @model_serializer
    def _fail(self) -> str:
        raise ValueError("cannot")


@pytest.mark.clause("C64", "C42")
@pytest.mark.case("L1")
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (lambda: b"\xff\x00", "bytes"),
        (lambda: int, "type"),
        (object, "object"),
        (lambda: compute, "function"),
        (lambda: ValueError("x"), "ValueError"),
        (generate, "generator"),
        (generate_later, "async_generator"),
        (compute, "coroutine"),
        (itertools.count, "count"),
        (lambda: map(str, [1]), "map"),
        (lambda: [1, {"deep": (itertools.count(),)}], "list"),
        (lambda: {"a": [compute(), compute()]}, "dict"),
        (lambda: [{compute()}, generate()], "list"),
        (circle, "list"),
        (deep, "list"),
        (lambda: "\ud800", "str"),
        (lambda: ["fine", "\ud800"], "list"),
        (lambda: {"\udfff": 1}, "dict"),
        (Broken, "Broken"),
    ],
)
def test_what_has_no_text_is_that_calls_error_with_tool_and_type(value: Callable[[], Any], kind: str) -> None:
    with pytest.raises(ToolFailure) as caught:
        TOOL.render(value())
    gc.collect()  # a coroutine that was not closed warns here, and fails the test
    assert caught.value.kind == "failed"
    text = str(caught.value)
    assert text.startswith(f"Tool 'make' failed: its result, of type {kind}, cannot be serialized: ")
    assert len(text) <= 2_000
    text.encode()


def test_an_object_in_two_places_is_not_a_cycle() -> None:
    shared = {"x": [1]}
    assert json.loads(TOOL.render([shared, shared])) == [shared, shared]


@pytest.mark.clause("C64")
@pytest.mark.case("L1")
def test_a_text_over_the_bound_is_cut_and_says_so() -> None:
    small = LocalToolbox(max_result_chars=10)
    small.tool(make)
    (tool,) = small.tools
    assert tool.render("x" * 10) == "x" * 10
    assert tool.render("x" * 11) == "x" * 10 + "\n[cut: the first 10 of 11 characters]"
    assert tool.render(["é" * 20]) == '[\n  "' + "é" * 5 + "\n[cut: the first 10 of 28 characters]"


@pytest.mark.case("L1")
def test_the_bound_is_a_million_characters_unless_there_is_none() -> None:
    text = "x" * 5_000_000
    assert TOOL.render(text) == "x" * 1_000_000 + "\n[cut: the first 1000000 of 5000000 characters]"
    boundless = LocalToolbox(max_result_chars=None)
    boundless.tool(make)
    assert boundless.tools[0].render(text) == text


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)


VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@given(VALUES.filter(lambda value: not isinstance(value, str)))
def test_a_json_value_can_be_read_back_from_its_text(value: Any) -> None:
    assert json.loads(TOOL.render(value)) == value


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_every_text_is_given_as_it_is_or_refused_for_its_surrogates(text: str) -> None:
    try:
        assert TOOL.render(text) == text
    except ToolFailure:
        assert any("\ud800" <= character <= "\udfff" for character in text)
    else:
        text.encode()
