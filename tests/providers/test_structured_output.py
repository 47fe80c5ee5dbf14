"""The option `output`: a class or a schema, put where each API expects it, and the answer read back."""

import json
from dataclasses import dataclass
from typing import Any, Literal

import httpx
import pytest
from pydantic import BaseModel, Field, RootModel
from typing_extensions import TypedDict

from seqoria_runtime.models import AssistantMessage, UserMessage
from seqoria_runtime.providers import AsyncOpenAICompatibleProvider, ModelRequest
from tests.support.wire_formats import FORMATS, Chat, Messages, Ollama, Responses
from tests.support.wires import Body, Stream

all_formats = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)


class Place(BaseModel):
    city: str = Field(min_length=1)
    zip_code: str | None = None


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int = Field(default=0, ge=0)
    home: Place
    role: Literal["user", "admin"] = "user"


@dataclass
class Point:
    x: int
    y: int = 0


class Options(TypedDict):
    fast: bool


class Node(BaseModel):
    name: str
    inside: "list[Node]" = []


class Tagged(BaseModel):
    tags: dict[str, int]


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Owner(BaseModel):
    pet: Cat | Dog = Field(discriminator="kind")
    second: Cat | None = Field(default=None, description="the other")


async def sent(form: type[Stream], options: dict[str, Any] | None = None, /, **settings: Any) -> Body:
    """Make a provider of these settings, ask it once, and give the body that went out."""
    bodies: list[Body] = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        stream = form().start().text("ok").end()
        return httpx.Response(200, content=stream.data, headers={"content-type": form.content_type})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        provider = form.provider("m", base_url="http://localhost:1", http_client=client, **settings)
        async for _ in provider.stream(ModelRequest([UserMessage(content="hi")], options=options or {})):
            pass
    return bodies[0]


def make(form: type[Stream], **settings: Any) -> None:
    form.provider("m", base_url="http://localhost:1", **settings)


def wanted(form: type[Stream], body: Body) -> Any:
    """The schema in a request."""
    if form is Chat:
        assert body["response_format"]["type"] == "json_schema"
        return body["response_format"]["json_schema"]["schema"]
    if form is Ollama:
        return body["format"]
    told = body["text" if form is Responses else "output_config"]["format"]
    assert told["type"] == "json_schema"
    return told["schema"]


@all_formats
async def test_a_model_class_becomes_the_apis_own_form_of_a_schema(form: type[Stream]) -> None:
    for body in (await sent(form, output=Person), await sent(form, {"output": Person})):
        schema = wanted(form, body)
        assert schema["type"] == "object"
        assert schema["properties"]["home"] == {"$ref": "#/$defs/Place"}
        assert set(schema["properties"]) == {"name", "age", "home", "role"}
        assert not {"output", "strict_output"} & body.keys()


async def test_what_is_wanted_has_a_name_where_the_api_asks_for_one() -> None:
    class Boxed(RootModel[Person]):
        pass

    for given, name in ((Person, "Person"), (Boxed, "Boxed"), (Boxed.model_json_schema(), "Boxed")):
        assert (await sent(Chat, output=given))["response_format"]["json_schema"]["name"] == name
        assert (await sent(Responses, output=given))["text"]["format"]["name"] == name
    unnamed = {"type": "object", "properties": {"a": {}}}
    assert (await sent(Chat, output=unnamed))["response_format"]["json_schema"]["name"] == "output"
    odd = unnamed | {"title": "A person, or two"}
    name = (await sent(Chat, output=odd))["response_format"]["json_schema"]["name"]
    assert name.startswith("A_person__or_two_")


@all_formats
@pytest.mark.parametrize("given", [Point, Options, Node, Node.model_json_schema()], ids=lambda given: "x")
async def test_other_classes_and_plain_schemas_do_as_well(form: type[Stream], given: Any) -> None:
    if form is Messages and given not in (Point, Options):  # a schema is not hashable
        with pytest.raises(
            ValueError, match=r"AsyncAnthropicProvider: 'output' \(Node\) holds a schema that refers"
        ):
            make(form, output=given)
        return
    schema = wanted(form, await sent(form, output=given))
    assert schema["type"] == "object"
    assert schema["properties"]


@all_formats
@pytest.mark.parametrize(
    "given",
    [
        *(int, str, list, "Person", 5, [Person], list[Person]),
        *({"type": "array", "items": {}}, {"type": "json_schema", "json_schema": {}}, {}),
        Person(name="a", home=Place(city="b")),
        RootModel[list[int]],
        object,
        {"type": "object", "properties": {"a": {"enum": {1, 2}}}},
    ],
    ids=repr,
)
def test_what_has_no_named_fields_is_refused(form: type[Stream], given: Any) -> None:
    with pytest.raises(
        TypeError, match="'output' must be a pydantic model, another class with named fields, or"
    ):
        make(form, output=given)


@all_formats
async def test_the_given_schema_is_not_changed(form: type[Stream]) -> None:
    schema = Owner.model_json_schema()
    before = json.dumps(schema)
    await sent(form, output=schema, **({"strict_output": True} if form in {Chat, Responses} else {}))
    assert json.dumps(schema) == before


@pytest.mark.parametrize(
    ("form", "option", "place"),
    [
        (Chat, {"response_format": {"type": "json_object"}}, "response_format"),
        (Responses, {"text": {"format": {"type": "text"}}}, "text"),
        (Messages, {"output_config": {"format": {"type": "json_schema", "schema": {}}}}, "output_config"),
        (Ollama, {"format": "json"}, "format"),
    ],
)
async def test_an_output_together_with_the_apis_own_option_is_refused(
    form: type[Stream], option: dict[str, Any], place: str
) -> None:
    words = f"'output' and .*{place}.* mean the same: give one of them"
    with pytest.raises(TypeError, match=words):
        make(form, output=Person, **option)
    with pytest.raises(TypeError, match=words):
        await sent(form, option, output=Person)
    assert option.items() <= (await sent(form, **option)).items()


async def test_an_output_leaves_what_else_its_place_holds() -> None:
    text = (await sent(Responses, {"output": Person}, text={"verbosity": "low"}))["text"]
    assert (text["verbosity"], text["format"]["name"]) == ("low", "Person")
    config = (await sent(Messages, {"output": Person}, output_config={"effort": "low"}))["output_config"]
    assert (config["effort"], config["format"]["type"]) == ("low", "json_schema")


async def test_an_output_of_the_request_goes_before_that_of_the_provider() -> None:
    body = await sent(Chat, {"output": Point}, output=Person)
    assert body["response_format"]["json_schema"]["name"] == "Point"


async def test_only_who_asks_for_strictness_gets_it() -> None:
    plain = (await sent(Chat, output=Person))["response_format"]["json_schema"]
    assert "strict" not in plain
    assert plain["schema"]["required"] == ["name", "home"]
    assert (await sent(Responses, output=Person))["text"]["format"]["strict"] is False
    for one in (
        (await sent(Chat, output=Person, strict_output=True))["response_format"]["json_schema"],
        (await sent(Responses, output=Person, strict_output=True))["text"]["format"],
    ):
        assert one["strict"] is True
        schema = one["schema"]
        assert schema["required"] == ["name", "age", "home", "role"]
        assert schema["additionalProperties"] is False
        assert schema["$defs"]["Place"]["required"] == ["city", "zip_code"]
        assert schema["$defs"]["Place"]["additionalProperties"] is False
        assert "default" not in json.dumps(schema)


async def test_strictness_keeps_the_keywords_next_to_a_reference_and_writes_unions_as_such() -> None:
    schema = wanted(Chat, await sent(Chat, output=Owner, strict_output=True))
    pet, second = schema["properties"]["pet"], schema["properties"]["second"]
    assert pet == {"anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}], "title": "Pet"}
    assert second["description"] == "the other"
    described = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A", "description": "d"}}}
    schema = wanted(Chat, await sent(Chat, output=described | {"$defs": {"A": {}}}, strict_output=True))
    assert schema["properties"]["a"] == {"anyOf": [{"$ref": "#/$defs/A"}], "description": "d"}
    recursive = wanted(Chat, await sent(Chat, output=Node, strict_output=True))
    assert recursive["properties"]["inside"]["items"] == {"$ref": "#/$defs/Node"}


async def test_messages_gets_no_ranges_and_closed_objects() -> None:
    class Ranges(BaseModel):
        count: int = Field(ge=1, le=9, multiple_of=2)
        word: str = Field(min_length=1, max_length=5, pattern="^a")
        some: list[int] = Field(min_length=1, max_length=3)
        two: list[Place] = Field(min_length=2)

    schema = wanted(Messages, await sent(Messages, output=Ranges))
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["Place"]["additionalProperties"] is False
    assert schema["properties"] == {
        "count": {"title": "Count", "type": "integer"},
        "word": {"title": "Word", "type": "string"},
        "some": {"items": {"type": "integer"}, "minItems": 1, "title": "Some", "type": "array"},
        "two": {"items": {"$ref": "#/$defs/Place"}, "title": "Two", "type": "array"},
    }
    union = wanted(Messages, await sent(Messages, output=Owner))["properties"]["pet"]
    assert union == {"anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}], "title": "Pet"}


async def test_a_property_that_is_called_like_a_keyword_stays() -> None:
    class Odd(BaseModel):
        pattern: str
        minimum: int
        default: int

    for form, more in ((Messages, {}), (Chat, {"strict_output": True})):
        schema = wanted(form, await sent(form, output=Odd, **more))
        assert list(schema["properties"]) == schema["required"] == ["pattern", "minimum", "default"]


@pytest.mark.parametrize(("form", "more"), [(Messages, {}), (Chat, {"strict_output": True})])
def test_an_object_of_any_keys_is_refused_where_the_api_has_none(
    form: type[Stream], more: dict[str, Any]
) -> None:
    words = r"'output' \(Tagged\) holds an object that takes any properties \('Tags'\), which this API"
    with pytest.raises(ValueError, match=words):
        make(form, output=Tagged, **more)


async def test_an_object_of_any_keys_goes_where_nothing_forbids_it() -> None:
    for form in (Chat, Responses, Ollama):
        tags = wanted(form, await sent(form, output=Tagged))["properties"]["tags"]
        assert tags["additionalProperties"] == {"type": "integer"}


@pytest.mark.parametrize("form", [Chat, Responses])
def test_strictness_without_an_output_is_an_error(form: type[Stream]) -> None:
    with pytest.raises(TypeError, match="'strict_output' needs 'output', which is not given"):
        make(form, strict_output=True)
    with pytest.raises(TypeError, match="'strict_output' must be True or False, not 'yes'"):
        make(form, output=Person, strict_output="yes")


def test_a_server_that_takes_no_schemas_says_so_at_once() -> None:
    with pytest.raises(ValueError, match=r"'output' \(Person\) has no place here.*'json_object'"):
        AsyncOpenAICompatibleProvider("m", profile="deepseek", api_key="k", output=Person)
    AsyncOpenAICompatibleProvider(
        "m", profile="deepseek", api_key="k", response_format={"type": "json_object"}
    )


@all_formats
@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_is_read_back_as_the_class_that_was_asked_for(
    form: type[Stream], stream: bool
) -> None:
    text = '{"name": "Ada é漢", "home": {"city": "Oslo"}}'
    message = form().start().text(*text).end().read().message
    stored = AssistantMessage.model_validate(json.loads(message.model_dump_json()))
    for one in (message, stored):
        person = one.parsed(Person)
        assert (person.name, person.age, person.home.city) == ("Ada é漢", 0, "Oslo")
