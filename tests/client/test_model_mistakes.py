import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from seqoria_runtime.models import UNNAMED_TOOL, ToolCallError, ToolCallResult, UserMessage
from seqoria_runtime.testing import broken_call, call, calls, says
from seqoria_runtime.toolbox import LocalToolbox
from tests.support.histories import check_history, loaded
from tests.support.talk import Talk


def adding_tools(added: list[int]) -> LocalToolbox:
    tools = LocalToolbox()

    @tools.tool()
    async def add(a: int = 0, b: int = 0) -> int:
        added.append(a + b)
        return a + b

    return tools


@pytest.mark.clause("C50")
@pytest.mark.case("B5")
@pytest.mark.parametrize("stored", [False, True])
async def test_call_ids_that_repeat_confuse_nothing(stored: bool) -> None:
    added: list[int] = []
    script = [
        *(calls(call("add", a=1, b=2).with_id("k0")), says("3")),
        *(calls(call("add", a=3, b=4).with_id("k0")), says("7")),
        calls(call("add", a=5, b=6).with_id("k0"), call("add", a=7, b=8).with_id("k0")),
        says("11 and 15"),
    ]
    talk = Talk(*script, tools=adding_tools(added))
    for query in ("one", "two", "three"):
        await talk.chat(query)
        if stored:
            talk.history[:] = [json.loads(message.model_dump_json()) for message in loaded(talk.history)]
    assert added == [3, 7, 11, 15]
    exchanges = check_history(talk.history)
    results = [outcome.result for exchange in exchanges for _, outcome in exchange.responses[0].pairs]  # type: ignore[union-attr]
    assert results == ["3", "7", "11", "15"]
    assert len(talk.model.requests[-1].messages) == 4 + 4 + 5


@pytest.mark.clause("C42", "C55")
@pytest.mark.case("G1")
@pytest.mark.parametrize("name", ["ad", "", "add<|x|>commentary", "ADD", " add", "x" * 500])
async def test_a_made_up_tool_name_is_an_error_that_the_model_can_mend(name: str) -> None:
    added: list[int] = []
    talk = Talk(
        calls(call("add", a=1, b=2), call(name, a=1)),
        calls(call("add", a=2, b=2)),
        says("done"),
        tools=adding_tools(added),
    )
    [first, second, answer] = await talk.chat()
    assert added == [3, 4]
    assert first[1].result == "3"
    assert first[3].kind == "unknown_tool"
    assert "Available tools: add" in first[3].error
    assert len(first[3].error) <= 2000
    assert first[2].name == (name or UNNAMED_TOOL)
    assert second[1].result == "4"
    assert answer.content == "done"
    check_history(talk.history)


@pytest.mark.case("G1")
async def test_a_batch_of_unknown_tools_only_is_answered_too() -> None:
    talk = Talk(calls(call("nothing"), call("nobody")), says("sorry"))
    [messages, answer] = await talk.chat()
    assert [outcome.kind for outcome in messages[1::2]] == ["unknown_tool"] * 2
    assert answer.content == "sorry"
    assert len(check_history(talk.history)[0].responses) == 2


@pytest.mark.clause("C42", "C82")
@pytest.mark.case("G4")
async def test_one_call_with_arguments_of_a_wrong_kind_leaves_its_siblings_alone() -> None:
    added: list[int] = []
    batch = calls(
        broken_call("add", "[1]"),
        broken_call("add", '{"a":'),
        broken_call("add", "x" * 5000),
        broken_call("add", '{"a": 1', truncated=True),
        call("add", a="many"),
        call("add", c=3),
        call("add", a=1, b=2),
    )
    talk = Talk(batch, says("done"), tools=adding_tools(added))
    [messages, _] = await talk.chat()
    assert added == [3]
    assert [type(outcome) for outcome in messages[1::2]] == [ToolCallError] * 6 + [ToolCallResult]
    errors = [outcome for outcome in messages[1::2] if isinstance(outcome, ToolCallError)]
    assert {error.kind for error in errors} == {"invalid_arguments"}
    assert "[1]" in errors[0].error
    assert "output limit" in errors[3].error
    assert all(len(error.error) <= 2000 for error in errors)
    check_history(talk.history)


@pytest.mark.clause("C42", "C82")
@pytest.mark.case("F5", "G4")
async def test_null_is_no_arguments_for_a_tool_that_takes_none_and_wrong_for_any_other() -> None:
    ran: list[str] = []
    tools = LocalToolbox()

    @tools.tool(server_populated=["user_id"])
    async def now(user_id: str) -> str:
        ran.append(f"now for {user_id}")
        return "noon"

    @tools.tool()
    async def wipe(folder: str = "/") -> None:
        ran.append(f"wiped {folder}")

    talk = Talk(calls(broken_call("now", "null"), broken_call("wipe", "null")), says("done"), tools=tools)
    [messages, _] = await talk.chat(context={"user_id": "ada"})
    assert ran == ["now for ada"]
    assert isinstance(messages[1], ToolCallResult)
    assert isinstance(messages[3], ToolCallError)
    assert messages[3].kind == "invalid_arguments"
    assert "not a JSON object: null" in messages[3].error


@dataclass
class Point:
    x: int


class Odd:
    """Something that has no JSON form."""


def odd_results() -> tuple[LocalToolbox, dict[str, str]]:
    """A tool per result, and what the call shall say; "" for an error."""
    tools = LocalToolbox()
    said: dict[str, str] = {}
    loop: list[Any] = []
    loop.append(loop)
    results: dict[str, tuple[Any, str]] = {
        "moment": (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
        "record": (Point(3), '"x"'),
        "numbers": ({1: 2}, '"1"'),
        "nothing": (None, "null"),
        "long": ("x" * 100_000, "xxx"),
        "raw": (b"\xff\x00", ""),
        "type": (Odd, ""),
        "thing": (Odd(), ""),
        "loop": (loop, ""),
        "generator": ((number for number in [1]), ""),
    }
    for name, (value, part) in results.items():
        said[name] = part
        tools.add(_without_parameters(value), name=name)
    return tools, said


def _without_parameters(value: Any) -> Any:
    async def give() -> Any:
        return value

    return give


@pytest.mark.clause("C64")
@pytest.mark.case("L1")
async def test_a_result_that_cannot_be_text_is_the_error_of_its_call_and_never_of_the_next_request() -> None:
    tools, said = odd_results()
    talk = Talk(calls(*(call(name) for name in said)), says("done"), tools=tools)
    [messages, answer] = await talk.chat()
    assert answer.content == "done"
    for request, outcome in zip(messages[::2], messages[1::2], strict=True):
        if part := said[request.name]:
            assert part in outcome.result, request.name
        else:
            assert outcome.kind == "failed", request.name
            assert request.name in outcome.error
    json.dumps([message.model_dump(mode="json") for message in talk.history])


@pytest.mark.case("L1")
async def test_a_lone_surrogate_in_a_result_does_not_spoil_the_history() -> None:
    tools = LocalToolbox()
    tools.add(_without_parameters("half a pair: \ud83d"), name="half")
    talk = Talk(calls(call("half")), says("done"), tools=tools)
    await talk.chat()
    stored = [message.model_dump_json() for message in talk.history]
    assert len(stored) == 4
    assert talk.history[0] == UserMessage(content="q")
