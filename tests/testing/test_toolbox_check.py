"""A check of a toolbox finds the faults of tools, and nothing in correct ones."""

import asyncio
import json
from dataclasses import replace
from typing import Annotated, Any

import anyio
import pytest

from seqoria_runtime import HIDDEN, LocalToolbox
from seqoria_runtime.models import ToolCallRequest
from seqoria_runtime.models.errors import ToolExecutionError
from seqoria_runtime.testing.toolbox_check import Finding, ToolboxReport, check_toolbox
from seqoria_runtime.testing.tools import ScriptedTool, ToolDag, blocks_thread, hangs, ignores_cancel, sleeps


async def fine(numbers: list[int], pause: Annotated[float, "seconds"] = 0.5) -> int:
    await anyio.sleep(abs(pause) % 2)
    return sum(numbers)


def fine_too(text: str) -> str:
    return text


async def divides(a: int, b: int) -> float:
    return a / b


async def opaque(number: int) -> Any:
    return object() if number > 3 else number


async def refuses(number: int) -> int:
    if number > 3:
        raise ToolExecutionError("at most 3", kind="failed")
    return number


async def hidden(user: Annotated[str, HIDDEN]) -> str:
    return user


def box(*functions: Any) -> LocalToolbox:
    made = LocalToolbox()
    for function in functions:
        made.add(function)
    return made


def check(toolbox: LocalToolbox, **options: Any) -> ToolboxReport:
    return check_toolbox(toolbox, **{"examples": 15, "seed": 1, "backends": ["asyncio"], **options})


@pytest.mark.clause("C120")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_nothing_is_found_where_nothing_is_wrong(backend: str) -> None:
    report = check(box(fine, fine_too, refuses), backends=[backend], examples=5)
    assert report.ok, str(report)
    assert str(report) == f"0 findings in 3 tools, 5 examples of each property, seed 1, on {backend}"


@pytest.mark.clause("C120")
def test_an_exception_is_found_with_the_simplest_arguments() -> None:
    finding = check(box(divides, refuses)).findings[0]
    assert (finding.name, finding.tool) == ("valid arguments", "divides")
    assert finding.message.startswith("fails with valid arguments: ZeroDivisionError")
    assert finding.calls[0].arguments == {"a": 0, "b": 0}
    assert eval(finding.program.removeprefix("await client.run_tool_calls("[:-1])) == list(finding.calls)


@pytest.mark.parametrize("name", ["ZeroDivisionError", "ArithmeticError"])
def test_an_exception_that_is_raised_on_purpose_is_none(name: str) -> None:
    assert check(box(divides), allow=[name], examples=5).ok


def test_a_result_that_cannot_be_written_is_found() -> None:
    [finding] = check(box(opaque)).findings
    assert "its result, of type object, cannot be serialized" in finding.message
    assert finding.calls[0].arguments == {"number": 4}


def scripted(behaviour: Any) -> LocalToolbox:
    return ToolDag(ScriptedTool("scripted", behaviour)).toolbox()


@pytest.mark.clause("C120")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_tool_that_ignores_its_cancellation_is_found(backend: str) -> None:
    [finding] = check(scripted(ignores_cancel(4)), backends=[backend], examples=3).findings
    assert finding.name == "cancellation"
    assert finding.message.startswith("went on for ")
    assert check(scripted(sleeps(4)), backends=[backend], examples=3).ok
    assert check(scripted(blocks_thread(4)), backends=[backend], examples=3).ok


def test_a_tool_that_never_ends_is_found_and_left_out_of_batches() -> None:
    [finding] = check(scripted(hangs()), examples=2).findings
    assert finding.tool == "scripted"
    assert "no timer and no thread can wake the tasks any more" in finding.message


def test_a_tool_that_leaves_a_task_behind_is_found() -> None:
    async def leaky() -> str:
        left_behind.append(asyncio.ensure_future(anyio.sleep(1e9)))
        return "done"

    left_behind: list[asyncio.Future[None]] = []
    finding = check(box(leaky), examples=1).findings[0]
    assert finding.tool == "leaky"
    assert "left behind:\n  the task " in finding.message


def test_a_tool_that_cannot_be_called_is_told_and_is_no_success() -> None:
    report = check(box(hidden), examples=2)
    assert not report.ok
    assert "Missing server-populated parameters for tool 'hidden': user" in report.not_checked["hidden"]
    assert check(box(hidden), examples=2, context={"user": "me"}).ok


def test_the_same_seed_finds_the_same() -> None:
    assert check(box(opaque), examples=10) == check(box(opaque), examples=10)


def test_a_report_is_json() -> None:
    finding = Finding("batches", "trio", "bad", (ToolCallRequest(id="c", name="t", arguments={"a": [1]}),))
    report = ToolboxReport(("t",), ("trio",), 5, 7, (finding,))
    plain = json.loads(json.dumps(report.as_json()))
    assert plain["ok"] is False
    assert plain["findings"][0]["calls"] == [{"id": "c", "name": "t", "arguments": {"a": [1]}}]
    assert (plain["seed"], plain["tools"], plain["backends"]) == (7, ["t"], ["trio"])
    assert json.loads(json.dumps(replace(report, findings=()).as_json()))["ok"] is True


@pytest.mark.parametrize("examples", [0, True, 1.5])
def test_a_number_of_examples_has_to_be_one(examples: Any) -> None:
    with pytest.raises(ValueError, match="'examples' must be a positive integer"):
        check(box(fine), examples=examples)
