"""The schema that a model sees, for every form of an annotation."""

import __future__

import dataclasses
import datetime
import enum
import functools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Optional, Protocol

import pytest
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import Doc, TypedDict

from seqoria_runtime._base.tools import Tool
from seqoria_runtime.toolbox import LocalToolbox

if TYPE_CHECKING:
    from decimal import Decimal


def tool_of(function: Callable[..., Any], **options: Any) -> Tool:
    tools = LocalToolbox()
    tools.add(function, **options)
    (tool,) = tools.tools
    return tool


def properties(function: Callable[..., Any], **options: Any) -> Any:
    return tool_of(function, **options).parameters["properties"]


ANNOTATIONS = '''
import functools
from typing import Annotated, Literal, Optional
from pydantic import BaseModel

class Node(BaseModel):
    """A tree."""
    value: int
    children: list["Node"] = []

class Service:
    class Inner(BaseModel):
        x: int

    def method(self, node: Node, inner: Inner, limit: int | None = None) -> str:
        return repr((node, inner, limit))

    def list(self, ids: list[int]) -> str:
        return repr(ids)

    def __call__(self, node: Optional[Node]) -> str:
        return repr(node)

def factory():
    class Local(BaseModel):
        x: int

    def local(
        item: Local,
        items: dict[str, list["Local"]],
        choice: Annotated[Literal["a", "b"], "doc"] = "a",
        maybe: Optional[Local] = None,
    ) -> str:
        return repr((item, items, choice, maybe))

    def decorator(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)
        return wrapper

    @decorator
    def decorated(item: Local, count: Annotated[int | None, "how many"] = None) -> str:
        return repr((item, count))

    service = Service()
    functions = [
        local, decorated, functools.partial(local, choice="b"), service.method, service.list, service,
        lambda x: x,
    ]
    for number, function in enumerate(functions):
        tools.add(function, name=f"tool_{number}")

factory()
'''


def registered(*, postponed: bool) -> tuple[Tool, ...]:
    tools = LocalToolbox()
    flags = __future__.annotations.compiler_flag if postponed else 0
    namespace = {"tools": tools, "__name__": __name__}
    exec(compile(ANNOTATIONS, "<annotations>", "exec", flags=flags, dont_inherit=True), namespace)
    return tools.tools


@pytest.mark.clause("C61")
@pytest.mark.case("H1")
def test_annotations_that_are_strings_make_the_same_tools_as_types() -> None:
    plain, postponed = registered(postponed=False), registered(postponed=True)
    assert [tool.parameters for tool in postponed] == [tool.parameters for tool in plain]
    arguments: list[dict[str, Any]] = [
        {"item": {"x": "1"}, "items": {"k": [{"x": 2}]}, "maybe": None},
        {"item": {"x": 1}, "count": None},
        {"item": {"x": 1}, "items": {}},
        {"node": {"value": 1, "children": [{"value": 2}]}, "inner": {"x": 3}},
        {"ids": ["1", 2]},
        {"node": None},
        {"x": [1]},
    ]
    results = [tool.call(tool.validate(given)) for tool, given in zip(plain, arguments, strict=True)]
    assert results == [
        "(Local(x=1), {'k': [Local(x=2)]}, 'a', None)",
        "(Local(x=1), None)",
        "(Local(x=1), {}, 'b', None)",
        "(Node(value=1, children=[Node(value=2, children=[])]), Inner(x=3), None)",
        "[1, 2]",
        "None",
        [1],
    ]
    assert results == [
        tool.call(tool.validate(given)) for tool, given in zip(postponed, arguments, strict=True)
    ]


@pytest.mark.clause("C61")
@pytest.mark.case("H1")
@pytest.mark.parametrize("optional", [Optional[int], int | None, Annotated[int | None, "x"]])  # noqa: UP045
def test_every_form_of_optional_takes_none_and_its_absence(optional: Any) -> None:
    def find(limit: Any = None) -> Any:
        return limit

    find.__annotations__["limit"] = optional
    tool = tool_of(find)
    schema = dict(tool.parameters["properties"]["limit"])
    schema.pop("description", None)
    assert schema == {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None, "title": "Limit"}
    assert "required" not in tool.parameters
    assert tool.call(tool.validate({"limit": None})) is None
    assert tool.call(tool.validate({})) is None
    assert tool.call(tool.validate({"limit": "3"})) == 3


@pytest.mark.clause("C61")
@pytest.mark.case("H1")
def test_an_annotation_that_names_nothing_is_refused_with_tool_and_parameter() -> None:
    def pay(amount: "int", price: "Decimal") -> None: ...
    def broken(amount: Any) -> None: ...
    def number(amount: 5) -> None: ...  # type: ignore[valid-type]

    broken.__annotations__["amount"] = "int +"
    tools = LocalToolbox()
    with pytest.raises(TypeError, match=r"Tool 'pay'.*'Decimal' of parameter 'price'.*not defined"):
        tools.tool(pay)
    with pytest.raises(TypeError, match=r"Tool 'broken'.*'amount' cannot be resolved"):
        tools.tool(broken)
    with pytest.raises(TypeError, match="Tool 'number': the type of parameter 'amount' cannot be used"):
        tools.tool(number)
    assert tools.tools == ()


class Handle:
    pass


class Reader(Protocol):
    def read(self) -> str: ...


@pytest.mark.clause("C61")
@pytest.mark.parametrize("unusable", [Handle, Callable[[int], int], Reader, Reader | None, list[Handle]])
def test_a_type_that_has_no_json_schema_is_refused_with_tool_and_parameter(unusable: Any) -> None:
    def use(count: int, handle: Any) -> None: ...

    use.__annotations__["handle"] = unusable
    tools = LocalToolbox()
    with pytest.raises(TypeError, match="Tool 'use': the type of parameter 'handle' cannot be used"):
        tools.tool(use)


class Address(BaseModel):
    """Where it is."""

    street: str
    code: str = Field(alias="zipCode", pattern="^[0-9]+$")


@dataclasses.dataclass
class Parcel:
    weight: float
    to: Address


class Labels(TypedDict):
    colour: str


class Speed(enum.Enum):
    SLOW = "slow"
    FAST = "fast"


def ship(  # type: ignore[no-untyped-def]
    parcel: Parcel,
    speed: Speed,
    labels: Labels,
    count: Annotated[int, Field(ge=1, le=9)] = 1,
    when: datetime.date | None = None,
    anything=None,  # noqa: ANN001
) -> str:
    """Ship a parcel.

    Args:
        parcel: What to ship.
        count: How many.
    """
    return repr((parcel, speed, labels, count, when, anything))


@pytest.mark.clause("C61", "C62")
def test_the_schema_is_pydantics_for_models_dataclasses_typed_dictionaries_and_enumerations() -> None:
    tool = tool_of(ship)
    assert json.loads(json.dumps(tool.parameters)) == {
        "title": "shipArguments",
        "type": "object",
        "additionalProperties": False,
        "required": ["parcel", "speed", "labels"],
        "properties": {
            "parcel": {"$ref": "#/$defs/Parcel", "description": "What to ship."},
            "speed": {"$ref": "#/$defs/Speed"},
            "labels": {"$ref": "#/$defs/Labels"},
            "count": {
                "title": "Count", "type": "integer", "minimum": 1, "maximum": 9, "default": 1,
                "description": "How many.",
            },
            "when": {
                "title": "When", "default": None,
                "anyOf": [{"type": "string", "format": "date"}, {"type": "null"}],
            },
            "anything": {"title": "Anything", "default": None},
        },
        "$defs": {
            "Parcel": {
                "title": "Parcel", "type": "object", "required": ["weight", "to"],
                "properties": {
                    "weight": {"title": "Weight", "type": "number"}, "to": {"$ref": "#/$defs/Address"},
                },
            },
            "Address": {
                "title": "Address", "type": "object", "description": "Where it is.",
                "required": ["street", "zipCode"],
                "properties": {
                    "street": {"title": "Street", "type": "string"},
                    "zipCode": {"title": "Zipcode", "type": "string", "pattern": "^[0-9]+$"},
                },
            },
            "Labels": {
                "title": "Labels", "type": "object", "required": ["colour"],
                "properties": {"colour": {"title": "Colour", "type": "string"}},
            },
            "Speed": {"title": "Speed", "type": "string", "enum": ["slow", "fast"]},
        },
    }  # fmt: skip


@pytest.mark.clause("C62")
def test_the_function_gets_values_of_the_declared_types() -> None:
    tool = tool_of(ship)
    prepared = tool.validate({
        "parcel": {"weight": "1.5", "to": {"street": "Main", "zipCode": "1"}},
        "speed": "fast",
        "labels": {"colour": "red"},
        "when": "2024-02-29",
        "anything": {"any": [1]},
    })  # fmt: skip
    assert prepared == {
        "parcel": Parcel(1.5, Address(street="Main", zipCode="1")),
        "speed": Speed.FAST,
        "labels": {"colour": "red"},
        "count": 1,
        "when": datetime.date(2024, 2, 29),
        "anything": {"any": [1]},
    }


@pytest.mark.clause("C61")
def test_parameters_may_be_called_what_they_like() -> None:
    def use(
        _x: int, model_config: int, schema: int, copy: int, json: int, __y: int, keys: int, items: int
    ) -> str:
        return f"{_x}{model_config}{schema}{copy}{json}{__y}{keys}{items}"

    tool = tool_of(use)
    names = ["_x", "model_config", "schema", "copy", "json", "__y", "keys", "items"]
    assert list(tool.parameters["properties"]) == tool.parameters["required"] == names
    assert tool.call(tool.validate({name: index for index, name in enumerate(names)})) == "01234567"


@pytest.mark.clause("C61")
def test_an_alias_is_the_name_that_the_model_uses() -> None:
    def find(from_: Annotated[str, Field(alias="from")]) -> str:
        return from_

    tool = tool_of(find)
    assert tool.parameters["required"] == ["from"]
    assert tool.call(tool.validate({"from": "Rome"})) == "Rome"


@pytest.mark.clause("C61")
def test_a_description_in_the_annotation_beats_the_docstring() -> None:
    def find(
        a: Annotated[int, Field(description="field a")],
        b: Annotated[int, "text b"],
        c: Annotated[int, Doc("doc c")],
        d: int = Field(4, description="default d", ge=1),
        e: Annotated[int, Field(description="field e"), "text e"] = 5,
        f: int = 6,
    ) -> list[int]:
        """Find.

        :param a: docstring
        :param b: docstring
        :param c: docstring
        :param d: docstring
        :param e: docstring
        :param f: docstring f
        """
        return [a, b, c, d, e, f]

    tool = tool_of(find)
    described = {name: schema["description"] for name, schema in tool.parameters["properties"].items()}
    assert described == {
        "a": "field a", "b": "text b", "c": "doc c", "d": "default d", "e": "field e", "f": "docstring f",
    }  # fmt: skip
    assert tool.parameters["required"] == ["a", "b", "c"]
    assert tool.call(tool.validate({"a": 1, "b": 2, "c": 3})) == [1, 2, 3, 4, 5, 6]


@pytest.mark.clause("C61")
def test_defaults_are_in_the_schema_if_json_has_them_and_are_used_either_way() -> None:
    marker = object()

    def find(a: int | Any = marker, b: list[int] = [], c: Annotated[int, Field(default=7)] = 8) -> Any:  # noqa: B006
        return a, b, c

    tool = tool_of(find)
    assert [schema.get("default", "none") for schema in tool.parameters["properties"].values()] == [
        "none",
        [],
        8,
    ]
    first, second = (tool.call(tool.validate({})) for _ in range(2))
    assert first == (marker, [], 8)
    assert first[1] is not second[1]


def test_a_default_in_the_annotation_alone_is_given() -> None:
    def find(a: Annotated[int, Field(default=7)]) -> int:
        return a

    tool = tool_of(find)
    assert "required" not in tool.parameters
    assert tool.call(tool.validate({})) == 7


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")
    x: int


def test_only_the_arguments_themselves_are_closed_not_the_types_in_them() -> None:
    def use(loose: Loose, parcel: Parcel, labels: Labels) -> Any:
        return loose, parcel, labels

    tool = tool_of(use)
    closed = {name: schema.get("additionalProperties") for name, schema in tool.parameters["$defs"].items()}
    assert closed == {"Loose": True, "Parcel": None, "Labels": None, "Address": None}


def test_a_tool_without_parameters_takes_an_empty_object() -> None:
    def now() -> str:
        return "now"

    tool = tool_of(now)
    assert tool.parameters == {
        "title": "nowArguments", "type": "object", "properties": {}, "additionalProperties": False,
    }  # fmt: skip
    assert tool.call(tool.validate({})) == "now"


def test_the_title_is_the_functions_name_whatever_the_tool_is_called() -> None:
    def find(x: int) -> None: ...

    assert tool_of(find, name="search").parameters["title"] == "findArguments"
    assert tool_of(functools.partial(find), name="search").parameters["title"] == "findArguments"


def test_a_class_local_to_the_function_around_is_found_though_one_of_its_name_is_global() -> None:
    class Handle(BaseModel):
        local: int

    def use(handle: "Handle") -> int:
        return handle.local

    def inside() -> Tool:
        class Handle(BaseModel):
            inner: int

        def use(handle: "Handle") -> int:
            return handle.inner

        return tool_of(use)

    assert "local" in json.dumps(tool_of(use).parameters)
    assert "inner" in json.dumps(inside().parameters)


def test_a_method_of_a_local_class_finds_the_classes_next_to_it() -> None:
    class Beside(BaseModel):
        x: int

    class Service:
        def use(self, beside: "Beside") -> int:
            return beside.x

    tool = tool_of(Service().use)
    assert tool.call(tool.validate({"beside": {"x": "3"}})) == 3


def test_a_name_from_the_closure_is_found_after_the_function_around_has_ended() -> None:
    def make() -> Callable[..., Any]:
        class Gone(BaseModel):
            x: int

        def use(gone: "Gone") -> Gone:
            return Gone(x=gone.x + 1)

        return use

    tool = tool_of(make())
    assert tool.call(tool.validate({"gone": {"x": 1}})).x == 2
