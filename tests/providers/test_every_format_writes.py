"""What all wire formats send alike."""

import copy
import json
from typing import Any

import pytest

from seqoria_runtime.models import (
    UNNAMED_TOOL,
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolCallError,
    ToolCallRequest,
    ToolCallResult,
    UserMessage,
)
from seqoria_runtime.models.errors import InvalidRequestError
from seqoria_runtime.providers import ToolDefinition
from tests.support.wire_formats import FORMATS, Messages, Ollama, Responses
from tests.support.wires import ADD, NOW, Stream

formats = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
own_formats = pytest.mark.parametrize("form", [Messages, Responses, Ollama], ids=lambda form: form.name)

USER = UserMessage(content="hi")
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": []}


def call(call_id: str = "c1", name: str = "add", response: str = "r", **fields: Any) -> ToolCallRequest:
    return ToolCallRequest(id=call_id, name=name, response_id=response, **fields)


def result(call_id: str = "c1", text: str = "3", response: str = "r") -> ToolCallResult:
    return ToolCallResult(tool_call_id=call_id, result=text, response_id=response)


@pytest.mark.case("B6")
@pytest.mark.clause("C91")
@formats
def test_results_go_back_in_the_order_of_the_calls(form: type[Stream]) -> None:
    body = form.body([
        USER,
        AssistantMessage(content="Three sums.", response_id="r"),
        call("a", arguments={"a": 1, "b": "é"}),
        call("b"),
        call("c"),
        result("c", "three"),
        result("a", "one"),
        ToolCallError(tool_call_id="b", name="add", error="boom", response_id="r"),
    ])
    assert form.called(body) == [("a", "add", {"a": 1, "b": "é"}), ("b", "add", {}), ("c", "add", {})]
    assert form.answered(body) == [("a", "one"), ("b", "boom"), ("c", "three")]


@pytest.mark.clause("C15")
@formats
def test_dictionaries_from_storage_go_out_as_the_models_do(form: type[Stream]) -> None:
    from seqoria_runtime.client._history.reading import to_messages

    history: list[ChatMessage] = [
        SystemMessage(content="Be brief."),
        USER,
        AssistantMessage(content="Sum.", thinking="hm", response_id="r"),
        call(arguments={"a": 1}),
        ToolCallError(tool_call_id="c1", error="boom", response_id="r"),
    ]
    stored = json.loads(json.dumps([message.model_dump(mode="json") for message in history]))
    assert form.body(to_messages(stored)) == form.body(history)


@pytest.mark.case("B5")
@formats
def test_duplicate_ids_of_one_response_go_out_as_two_on_call_and_result_alike(form: type[Stream]) -> None:
    body = form.body([USER, call("k0"), result("k0", "1"), call("k0"), result("k0", "2")])
    first, second = [sent for sent, _, _ in form.called(body)]
    assert first == "k0" != second
    assert form.answered(body) == [("k0", "1"), (second, "2")]


@pytest.mark.case("B5")
@own_formats
def test_ids_that_come_again_in_a_later_response_are_made_unique(form: type[Stream]) -> None:
    history: list[ChatMessage] = []
    for number in "123":
        history += [USER, call("k0", response=number), result("k0", number, response=number)]
    body = form.body(history)
    ids = [sent for sent, _, _ in form.called(body)]
    assert len(set(ids)) == 3
    assert ids[0] == "k0"
    assert form.answered(body) == list(zip(ids, "123", strict=True))
    earlier = form.body(history[:6])
    assert [sent for sent, _, _ in form.called(earlier)] == ids[:2]


@pytest.mark.case("I6")
@own_formats
def test_ids_of_other_providers_are_mapped_on_the_wire_alone(form: type[Stream]) -> None:
    foreign = ["call_abc-123", "toolu_01", "x" * 100, "x" * 99 + "y", "k0"]
    history: list[ChatMessage] = [
        USER,
        *(call(one) for one in foreign),
        *(result(one, one) for one in foreign),
    ]
    body = form.body(history)
    sent = [one for one, _, _ in form.called(body)]
    assert len(set(sent)) == len(foreign)
    assert all(len(one) <= 64 for one in sent)
    assert form.answered(body) == list(zip(sent, foreign, strict=True))
    assert (sent[0], sent[1], sent[4]) == ("call_abc-123", "toolu_01", "k0")


@pytest.mark.case("I6")
@pytest.mark.parametrize("form", [Messages, Responses], ids=lambda form: form.name)
@pytest.mark.parametrize("odd", ["functions.add:0", "é", "a b", "a/b"])
def test_an_id_goes_out_in_the_grammar_of_ids(form: type[Stream], odd: str) -> None:
    body = form.body([USER, call(odd), result(odd)])
    [(sent, _, _)] = form.called(body)
    assert sent.replace("_", "").replace("-", "").isalnum()
    assert sent.isascii()
    assert form.answered(body) == [(sent, "3")]


@pytest.mark.case("I5")
@formats
@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_result_becomes_a_short_text(form: type[Stream], text: str) -> None:
    body = form.body([USER, AssistantMessage(content=text, response_id="r"), call(), result(text=text)])
    assert form.answered(body) == [("c1", "(no output)")]


@pytest.mark.clause("C18")
@formats
def test_a_call_without_an_outcome_is_answered_on_the_wire(form: type[Stream]) -> None:
    assert form.answered(form.body([USER, call()])) == [("c1", "No result was recorded for this call.")]


@pytest.mark.case("G2")
@pytest.mark.clause("C18")
@formats
def test_arguments_that_were_broken_go_back_as_an_object(form: type[Stream]) -> None:
    broken = call("a", invalid_arguments='{"title":"x', truncated=True)
    nan = call("b", arguments={"x": float("nan")})
    cut = call("c", arguments={"title": "x"}, truncated=True)
    sent = [arguments for _, _, arguments in form.called(form.body([USER, broken, nan, cut]))]
    assert sent == [{}, {}, {"title": "x"}]


@pytest.mark.case("G1")
@formats
@pytest.mark.parametrize(
    "name", ["add<|x|>commentary", "files.read all", "é", "1st", "x" * 200, UNNAMED_TOOL, "-x"]
)
def test_a_name_that_the_model_made_up_goes_back_in_the_grammar_of_names(
    form: type[Stream], name: str
) -> None:
    [(_, sent, _)] = form.called(form.body([USER, call(name=name), result()]))
    assert sent.replace("_", "a").replace("-", "a").isalnum()
    assert sent.isascii()
    assert len(sent) <= 64


@pytest.mark.clause("C104")
@formats
def test_tools_are_offered_under_names_that_the_server_takes(form: type[Stream]) -> None:
    odd, odder = ToolDefinition("files.read", "", {}), ToolDefinition("files/read", "", {})
    body = form.body([USER, call(name="files.read")], tools=[odd, odder, ADD], tool_choice="auto")
    names = [name for name, _ in form.offered(body)]
    assert len(set(names)) == 3
    assert names[2] == "add"
    assert all(name.replace("_", "").isalnum() for name in names)
    assert form.called(body)[0][1] == names[0]


@pytest.mark.case("I5")
@formats
def test_without_tools_nothing_about_tools_goes_out(form: type[Stream]) -> None:
    option = {"messages": "disable_parallel_tool_use", "ollama": ""}.get(form.name, "parallel_tool_calls")
    options: dict[str, Any] = {option: False} if option else {}
    body = form.body([USER, call(), result()], tool_choice="auto", **options)
    assert not {"tools", "tool_choice", "parallel_tool_calls", "disable_parallel_tool_use"} & body.keys()


@formats
def test_a_choice_of_a_tool_that_is_not_offered_is_an_error(form: type[Stream]) -> None:
    with pytest.raises(InvalidRequestError, match="'nope'"):
        form.body(tools=[ADD], tool_choice="nope")


@formats
def test_what_json_cannot_hold_is_an_error_that_says_so(form: type[Stream]) -> None:
    with pytest.raises(InvalidRequestError, match="the request cannot be written as JSON"):
        form.body(temperature=float("nan"))


@formats
def test_a_tool_without_parameters_is_offered_with_an_object(form: type[Stream]) -> None:
    assert form.offered(form.body(tools=[NOW])) == [("now", {"type": "object", "properties": {}})]


@pytest.mark.case("H3")
@formats
def test_references_resolve_inside_the_schema_and_the_tools_own_schema_stays_as_it_is(
    form: type[Stream],
) -> None:
    schema = {
        "type": "object",
        "properties": {
            "node": {"$ref": "#/$defs/Node", "description": "where to begin"},
            "kinds": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/Kind"}, {"$ref": "#/nowhere"}]}},
            "again": {"$ref": "#/properties/kinds"},
            "far": {"$ref": "https://example.com/schema.json", "description": "elsewhere"},
            "$ref": {"type": "string"},
            "$defs": {"type": "integer"},
        },
        "$defs": {"Node": NODE, "Kind": {"enum": ["a", "b"]}},
        "additionalProperties": False,
    }
    before = copy.deepcopy(schema)
    [(_, sent)] = form.offered(form.body(tools=[ToolDefinition("walk", "", schema)]))
    assert schema == before
    assert sent["properties"]["node"]["description"] == "where to begin"
    assert sent["properties"]["far"] == {"description": "elsewhere"}
    assert sent["properties"]["$ref"] == {"type": "string"}
    assert sent["properties"]["$defs"] == {"type": "integer"}
    assert sent["additionalProperties"] is False
    text = json.dumps(sent)
    assert "nowhere" not in text
    if form is Ollama:
        assert '"$ref": "' not in text
        assert sent["properties"]["again"] == sent["properties"]["kinds"]
    else:
        assert sent["$defs"]["Node"] == NODE


@pytest.mark.clause("C91")
@formats
def test_blocks_of_another_wire_format_stay_at_home(form: type[Stream]) -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "text", "text": "not this"},
    ]
    foreign = AssistantMessage(content="Sum.", thinking="hm", wire_format="of_tomorrow", blocks=blocks)
    plain = AssistantMessage(content="Sum.")
    assert form.body([USER, foreign, USER]) == form.body([USER, plain, USER])


@formats
def test_a_blank_history_leaves_nothing_blank(form: type[Stream]) -> None:
    body = form.body([
        SystemMessage(content=" "),
        USER,
        AssistantMessage(content="\n"),
        AssistantMessage(content="", thinking="only thought"),
        USER,
    ])
    assert body == form.body([USER, USER])


@formats
def test_an_extra_body_is_merged_in_below_the_options(form: type[Stream]) -> None:
    if form is Ollama:
        body = form.body(extra_body={"truncate": True, "options": {"numa": 1, "seed": 1}}, seed=2)
        assert (body["truncate"], body["options"]) == (True, {"numa": 1, "seed": 2})
    else:
        body = form.body(extra_body={"of_this_server": 5, "temperature": 1}, temperature=0.5)
        assert (body["of_this_server"], body["temperature"]) == (5, 0.5)
    assert "extra_body" not in body
