"""The arguments that a model sent become values for the function, or an error text."""

import copy
import dataclasses
import datetime
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, Strict, field_validator

from seqoria_runtime._base.tools import Tool, ToolFailure
from seqoria_runtime.toolbox import LocalToolbox
from seqoria_runtime.toolbox._tool import failed


def tool_of(function: Callable[..., Any], **options: Any) -> Tool:
    tools = LocalToolbox()
    tools.add(function, **options)
    (tool,) = tools.tools
    return tool


def refusal(tool: Tool, arguments: Mapping[str, Any]) -> str:
    with pytest.raises(ToolFailure) as caught:
        tool.validate(arguments)
    assert caught.value.kind == "invalid_arguments"
    return str(caught.value)


def add(a: int, b: int = 2) -> int:
    return a + b


@pytest.mark.clause("C62")
def test_arguments_become_values_of_the_declared_types_or_defaults() -> None:
    tool = tool_of(add)
    assert tool.validate({"a": "5"}) == {"a": 5, "b": 2}
    assert tool.call(tool.validate({"a": 5.0, "b": True})) == 6
    assert tool.hidden == ()
    assert tool.missing(tool.validate({"a": 5})) == ()
    assert tool.complete({"a": 5}, {"b": 7}) == {"a": 5}


@pytest.mark.clause("C62", "C42")
def test_a_refusal_names_the_tool_the_argument_and_the_reason_in_pydantics_words_without_the_value() -> None:
    text = refusal(tool_of(add), {"a": "s3cret", "c": "s3cret"})
    assert text == (
        "Tool 'add' failed: 2 validation errors for addArguments\n"
        "a\n  Input should be a valid integer, unable to parse string as an integer [type=int_parsing]\n"
        "c\n  Extra inputs are not permitted [type=extra_forbidden]"
    )
    assert refusal(tool_of(add), {}) == (
        "Tool 'add' failed: 1 validation error for addArguments\na\n  Field required [type=missing]"
    )


@pytest.mark.clause("C62")
@pytest.mark.parametrize("extra", ["A", "a ", "_a", "self", "args", "kwargs"])
def test_an_argument_that_is_not_declared_is_refused(extra: str) -> None:
    assert f"\n{extra}\n  Extra inputs are not permitted" in refusal(tool_of(add), {"a": 1, extra: 1})


@pytest.mark.clause("C42")
def test_a_refusal_is_bounded_however_many_and_long_the_faults_are() -> None:
    def use(numbers: list[int]) -> None: ...

    text = refusal(tool_of(use), {"numbers": ["x"] * 500, "y" * 10_000: 1})
    assert len(text) <= 2_000
    assert text.startswith("Tool 'use' failed: 501 validation errors")
    assert text.endswith("and 491 more")
    long = refusal(tool_of(use), {"numbers": [], "y" * 10_000: 1})
    assert len(long) < 300


def shout(value: str) -> str:
    raise ValueError(f"{value} " * 10_000)


def crash(value: str) -> str:
    raise KeyError(value)


def test_the_message_of_an_applications_validator_is_bounded_and_redacted() -> None:
    def use(word: Annotated[str, AfterValidator(shout)]) -> None: ...

    text = refusal(tool_of(use), {"word": "api_key=abc"})
    assert text.startswith(
        "Tool 'use' failed: 1 validation error for useArguments\nword\n  Value error, api_key=[REDACTED]"
    )
    assert len(text) < 600


def test_a_validator_that_crashes_is_that_calls_error_with_only_its_class() -> None:
    def use(word: Annotated[str, AfterValidator(crash)]) -> None: ...

    assert refusal(tool_of(use), {"word": "s3cret"}) == (
        "Tool 'use' failed: its arguments could not be checked: KeyError"
    )


@pytest.mark.case("L1")
def test_a_refusal_can_always_be_stored_as_utf8() -> None:
    refusal(tool_of(add), {"\ud800": 1}).encode()
    failed("add", "\ud800").encode()


class Box(BaseModel):
    items: list[Any]


class Account(BaseModel):
    user_id: int


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


def spoil(value: Any) -> Any:
    """Change everything that can be changed in a value."""
    if isinstance(value, (Box, Open)):
        spoil(value.__dict__)
        spoil(value.__pydantic_extra__)
    elif isinstance(value, dict):
        for item in value.values():
            spoil(item)
        value["spoilt"] = True
    elif isinstance(value, list):
        for item in value:
            spoil(item)
        value.append("spoilt")
    return value


@pytest.mark.clause("C62")
@pytest.mark.parametrize("hidden", ["nothing", "a parameter", "a field"])
@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (None, {"a": [1]}),
        (Any, [{"a": []}]),
        (object, [{"a": []}]),
        (dict, {"a": {"b": [1]}}),
        (list, [[1], {"a": 1}]),
        (dict[str, Any], {"a": {"b": [1]}}),
        (list[dict[str, Any]] | dict[str, list[Any]], {"a": [[1], {}]}),
        (Sequence[Any], [[1], {"a": 1}]),
        (Mapping[str, Any], {"a": {"b": [1]}}),
        (Box, {"items": [[1], {"a": 1}]}),
        (Open, {"more": {"a": [1]}}),
        (Annotated[list[int], PlainValidator(lambda value: value)], [1, [2]]),
    ],
    ids=[f"annotation {number}" for number in range(12)],
)
def test_a_tool_may_change_its_arguments_and_the_request_stays_as_it_was(
    annotation: Any, value: Any, hidden: str
) -> None:
    def use(value, user_id=None, account=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        spoil(value)

    if hidden == "a field":
        use.__annotations__["account"] = Account
    if annotation is not None:
        use.__annotations__["value"] = annotation
    tool = tool_of(use, server_populated=() if hidden == "nothing" else ["user_id"])
    request = {"value": value} | ({"account": {}} if hidden == "a field" else {})
    before = copy.deepcopy(request)
    prepared = tool.validate(request)
    tool.call(tool.complete(prepared, {"user_id": 1}))
    assert request == before


class Visit(BaseModel):
    model_config = ConfigDict(strict=True)

    day: datetime.date
    id: uuid.UUID
    span: tuple[int, int]


@pytest.mark.clause("C62")
def test_a_strict_model_takes_what_json_has_for_its_types_and_refuses_the_rest() -> None:
    def book(visit: Visit, number: int) -> str:
        return repr((visit.day, visit.span, number))

    def plan(day: Annotated[datetime.date, Strict()]) -> Any:
        return day

    tool = tool_of(book)
    arguments = {"visit": {"day": "2024-02-29", "id": str(uuid.UUID(int=1)), "span": [1, 2]}, "number": 3}
    assert tool.call(tool.validate(arguments)) == "(datetime.date(2024, 2, 29), (1, 2), 3)"
    assert "visit.span.0" in refusal(tool, json.loads(json.dumps(arguments).replace("[1,", '["1",')))
    plan_tool = tool_of(plan)
    assert plan_tool.call(plan_tool.validate({"day": "2024-02-29"})) == datetime.date(2024, 2, 29)
    assert "day\n" in refusal(plan_tool, {"day": 3})


class Order(BaseModel):
    amount: int = Field(gt=0)
    note: str = ""

    @field_validator("note")
    @classmethod
    def _no_shouting(cls, note: str) -> str:
        return note.lower()


@dataclasses.dataclass
class Pair:
    left: Order
    right: Order | None = None


@pytest.mark.clause("C62")
def test_nested_models_reach_the_function_as_instances_that_their_validators_have_seen() -> None:
    def use(pair: Pair, orders: dict[str, Order]) -> Any:
        return pair, orders

    tool = tool_of(use)
    given_ = {"pair": {"left": {"amount": "1", "note": "HI"}}, "orders": {"k": {"amount": 2}}}
    assert tool.call(tool.validate(given_)) == (Pair(Order(amount=1, note="hi")), {"k": Order(amount=2)})
    assert "pair.left.amount\n  Input should be greater than 0" in refusal(
        tool, {"pair": {"left": {"amount": 0}}, "orders": {}}
    )


@given(st.dictionaries(st.sampled_from("abcd"), st.integers() | st.text() | st.none() | st.floats()))
def test_arguments_are_refused_or_exactly_what_the_signature_says(arguments: dict[str, Any]) -> None:
    tool = tool_of(add)
    try:
        prepared = tool.validate(arguments)
    except ToolFailure:
        return
    assert prepared.keys() == {"a", "b"}
    assert arguments.keys() <= prepared.keys()
    assert all(type(value) is int for value in prepared.values())
