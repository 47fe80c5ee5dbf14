"""`AssistantMessage.parsed`: a value of the answer's text, or an error that says what the model sent."""

from dataclasses import dataclass

import pytest
from pydantic import BaseModel

from seqoria_runtime.models import AssistantMessage
from seqoria_runtime.models.errors import SeqoriaError, StructuredOutputError


class Person(BaseModel):
    name: str
    age: int


@dataclass
class Point:
    x: int


def failure(
    text: str, finish_reason: str | None = "stop", *, interrupted: bool = False
) -> StructuredOutputError:
    message = AssistantMessage(content=text, finish_reason=finish_reason, interrupted=interrupted)
    with pytest.raises(StructuredOutputError) as caught:
        message.parsed(Person)
    return caught.value


def test_text_is_read_as_any_kind_that_pydantic_validates() -> None:
    assert AssistantMessage(content=' {"name": "a", "age": 3}\n').parsed(Person) == Person(name="a", age=3)
    assert AssistantMessage(content='{"x": 1}').parsed(Point) == Point(1)
    assert AssistantMessage(content='{"x": [1, null]}').parsed(dict) == {"x": [1, None]}
    assert AssistantMessage(content="[1, 2]").parsed(list[int]) == [1, 2]


def test_an_answer_that_does_not_fit_is_reported_with_its_fields_and_its_text() -> None:
    error = failure('{"name": "a", "age": "old"}')
    assert str(error) == (
        "the answer is not a valid Person (age: Input should be a valid integer, unable to parse string"
        " as an integer):"
        ' the model sent \'{"name": "a", "age": "old"}\''
    )
    assert error.text == '{"name": "a", "age": "old"}'
    assert isinstance(error, SeqoriaError)
    assert isinstance(error, ValueError)
    assert error.__cause__ is None
    assert error.__context__ is None


def test_text_that_is_not_json_is_reported_as_such() -> None:
    assert "(Invalid JSON: expected value at line 1 column 1)" in str(failure("Here you are: {}"))
    assert "the model sent no text" in str(failure("  "))


@pytest.mark.parametrize(
    ("finish_reason", "words"),
    [
        ("length", "(it was cut by the output limit; Invalid JSON"),
        ("refusal", "(the model refused; Invalid JSON"),
        ("turn_limit", "(the turn ended at its limit; Invalid JSON"),
        ("stop", "(Invalid JSON"),
        (None, "(Invalid JSON"),
    ],
)
def test_an_early_end_is_named(finish_reason: str | None, words: str) -> None:
    error = failure('{"name": "a', finish_reason)
    assert words in str(error)
    assert error.finish_reason == finish_reason


def test_an_interrupted_answer_is_named() -> None:
    assert "(it was not received in full; " in str(failure('{"name', None, interrupted=True))


def test_what_is_shown_is_bounded_and_holds_no_credential() -> None:
    error = failure('{"name": "' + "a" * 100_000)
    assert len(str(error)) < 1200
    assert len(error.text) == 10_000
    fields = {f"f{number}" for number in range(50)}

    class Wide(BaseModel):
        a: int
        b: int
        c: int
        d: int
        e: int

    with pytest.raises(StructuredOutputError, match=r"a: .*; b: .*; c: Field required; and 2 more\)"):
        AssistantMessage(content=str(dict.fromkeys(fields, 1)).replace("'", '"')).parsed(Wide)
    assert "s3cret" not in str(failure('{"api_key": "s3cret-s3cret"}'))
