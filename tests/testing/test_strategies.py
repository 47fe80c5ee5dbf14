"""The strategies generate what they promise, and it shrinks to something readable."""

import subprocess
import sys
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from types import ModuleType
from typing import Annotated, Any, Literal
from uuid import UUID
from zlib import crc32

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import Phase, find, given, seed, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from seqoria_runtime import AsyncAIClient, LocalToolbox, models, testing
from seqoria_runtime.models import ToolCallRequest
from seqoria_runtime.testing import (
    FixedSchedule,
    Reply,
    Schedule,
    ScriptedProvider,
    check_history,
    run_virtual,
)
from seqoria_runtime.testing.strategies import (
    INVALID,
    Invalid,
    batches,
    fault_plans,
    histories,
    json_values,
    provider_scripts,
    schedules,
    tool_arguments,
    tool_dags,
    toolboxes,
)
from seqoria_runtime.testing.tools import FaultPlan, ToolDag, sleeps


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Node(BaseModel):
    weight: Annotated[int, Field(gt=0, le=10)]
    children: list["Node"] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    name: Annotated[str, Field(min_length=2, max_length=5)]


def everything() -> LocalToolbox:
    """Tools whose schemas have most of what pydantic writes."""
    box = LocalToolbox()

    @box.tool()
    async def times(day: date, at: datetime, when: time, length: timedelta) -> None: ...

    @box.tool()
    async def scalars(
        whole: Annotated[int, Field(multiple_of=5, gt=5, lt=100)],
        part: Annotated[float, Field(ge=0, lt=1)],
        name: Annotated[str, Field(pattern="^[a-z]+-[0-9]{2}$")],
        money: Decimal,
        key: UUID,
        on: bool = False,
    ) -> None: ...

    @box.tool()
    async def containers(
        pairs: list[tuple[int, str]],
        counts: dict[str, int],
        different: Annotated[set[int], Field(min_length=1, max_length=3)],
        anything: Any,
        colour: Colour | None = None,
    ) -> None: ...

    @box.tool()
    async def models(tree: Node, pet: Annotated[Cat | Dog, Field(discriminator="kind")]) -> None: ...

    @box.tool()
    def nothing() -> None: ...

    return box


def small() -> LocalToolbox:
    box = LocalToolbox()

    @box.tool()
    async def nothing() -> None: ...

    @box.tool()
    async def pair(number: int, text: str = "") -> None: ...

    return box


BOX = everything()
SMALL = small()
TOOLS = {tool.name: tool for tool in BOX.tools}
FAST = settings(
    max_examples=1000,
    database=None,
    derandomize=True,
    phases=[Phase.generate, Phase.shrink],
    print_blob=False,
)


@pytest.mark.clause("C120")
@pytest.mark.parametrize("name", TOOLS)
@given(data=st.data())
def test_arguments_for_a_schema_are_arguments_that_its_tool_takes(name: str, data: st.DataObject) -> None:
    tool = TOOLS[name]
    # Without the filter of `tool_arguments`, which would hide mistakes of the schema's reader.
    if name != "scalars":  # a decimal's schema allows any text
        tool.validate(data.draw(json_values(tool.parameters)))
    tool.validate(data.draw(tool_arguments(tool)))


@pytest.mark.clause("C120")
@given(batches(BOX, invalid=INVALID))
@settings(max_examples=20)
def test_a_batch_with_an_invalid_call_has_one_that_is_refused(calls: list[ToolCallRequest]) -> None:
    async def main() -> list[str]:
        async with AsyncAIClient([ScriptedProvider([])], local_toolbox=BOX) as client:
            return [getattr(outcome, "kind", "result") for outcome in await client.run_tool_calls(calls)]

    kinds = run_virtual(main)
    assert sum(kind in {"invalid_arguments", "unknown_tool"} for kind in kinds) == 1
    assert [call.id for call in calls] == [f"call-{number}" for number in range(1, len(calls) + 1)]


@pytest.mark.parametrize("way", INVALID)
def test_a_way_to_be_invalid_is_what_it_is_called(way: Invalid) -> None:
    [call] = find(batches(SMALL, max_calls=1, invalid=way), lambda calls: True, settings=FAST)
    known = {tool.name: tool for tool in SMALL.tools}
    assert (call.name not in known) is (way == "unknown tool")
    assert (call.invalid_arguments is not None) is (way == "not an object")
    assert call.truncated is (way == "cut off")
    if way in {"missing argument", "wrong type"}:
        assert ("number" in call.arguments) is (way == "wrong type")
    if call.name in known:
        extra = call.arguments.keys() - known[call.name].parameters["properties"]
        assert bool(extra) is (way == "unknown argument")


def test_a_way_that_a_tool_has_not_is_refused() -> None:
    with pytest.raises(ValueError, match="arguments of the tool 'nothing' cannot be invalid as 'missing"):
        tool_arguments(TOOLS["nothing"], "missing argument")
    with pytest.raises(ValueError, match=r"'invalid' takes 'missing argument', .*, not 'odd'"):
        batches(BOX, invalid="odd")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has no tools"):
        batches(LocalToolbox())


@given(batches(BOX, repeat_ids=True, min_calls=3))
@settings(max_examples=10)
def test_ids_repeat_where_they_may(calls: list[ToolCallRequest]) -> None:
    assert len({call.id for call in calls}) < len(calls)


@pytest.mark.clause("C120")
@given(histories())
def test_every_history_is_one_that_providers_accept(history: list[Any]) -> None:
    check_history(history)


@given(histories(stored=True), histories(stored=False))
@settings(max_examples=10)
def test_histories_are_stored_or_not(stored: list[Any], models: list[Any]) -> None:
    assert all(isinstance(message, dict) for message in stored)
    assert not any(isinstance(message, dict) for message in models)


@given(provider_scripts(BOX, max_rounds=3))
@settings(max_examples=10)
def test_a_script_runs_to_its_end(script: list[Reply]) -> None:
    async def main() -> None:
        with ScriptedProvider(script) as model:
            async with (
                AsyncAIClient([model], local_toolbox=BOX) as client,
                client.chat("q", history=[]) as turn,
            ):
                assert [event async for event in turn]

    run_virtual(main)


@pytest.mark.parametrize("sign", ["ProviderConnectionError", "CUT", "STALL"])
@pytest.mark.parametrize("output", [True, False])
def test_a_failing_script_fails_in_every_way(sign: str, output: bool) -> None:
    failing = provider_scripts(SMALL, max_rounds=0, failing=True)
    found = find(
        failing,
        lambda script: sign in repr(script[-1].ending) and bool(script[-1].events) is output,
        settings=FAST,
    )
    assert len(found) == 1


@given(st.data())
@settings(max_examples=20)
def test_toolboxes_have_the_tools_of_their_graph_in_any_order(data: st.DataObject) -> None:
    dag = data.draw(tool_dags())
    box = data.draw(toolboxes(dag))
    assert {tool.name: tool.depends_on for tool in box.tools} == {
        tool.name: frozenset(tool.after) for tool in dag
    }


@given(fault_plans(["a", "b"], max_faults=2, max_number=2))
@settings(max_examples=20)
def test_fault_plans_stay_within_their_bounds(plan: FaultPlan) -> None:
    assert len(plan.faults) <= 2
    assert {(name in "ab", number in {1, 2}) for name, number in plan.faults} <= {(True, True)}


@given(tool_dags(max_tools=4))
def test_graphs_without_cycles_depend_on_what_comes_before(dag: ToolDag) -> None:
    for place, tool in enumerate(dag):
        assert set(tool.after) <= set(dag.names[:place])


@pytest.mark.clause("C120")
@pytest.mark.parametrize(
    ("wanted", "tools"),
    [
        (lambda dag: any(len(tool.after) > 1 for tool in dag), 3),
        (lambda dag: "hangs" in repr(dag) and len(dag) > 1, 2),
        (lambda dag: any("sleeps(3" in repr(tool) and tool.after for tool in dag), 2),
    ],
)
def test_graphs_shrink_to_small_ones(wanted: Callable[[ToolDag], bool], tools: int) -> None:
    found = find(tool_dags(), wanted, settings=FAST)
    assert len(found) == tools
    assert repr(found).count("after") <= 1


WORDS: dict[str, tuple[st.SearchStrategy[Any], list[ModuleType]]] = {
    "json_values": (json_values(TOOLS["scalars"].parameters), []),
    "tool_arguments": (tool_arguments(TOOLS["containers"]), []),
    "batches": (batches(SMALL, invalid=INVALID), [models]),
    "histories": (histories(), [models]),
    "provider_scripts": (provider_scripts(SMALL, invalid=INVALID, failing=True), [models.errors, testing]),
    "tool_dags": (tool_dags(cycles=True), [testing.tools]),
    "toolboxes": (tool_dags().flatmap(toolboxes), [testing.tools]),
    "fault_plans": (fault_plans(BOX), [testing.tools]),
    "schedules": (schedules(), [testing]),
}
"""Each strategy, and the modules that have the words of its programs."""


@pytest.mark.clause("C120")
@pytest.mark.parametrize("name", WORDS)
def test_a_failing_example_prints_as_a_program_that_makes_it_again(name: str) -> None:
    strategy, modules = WORDS[name]
    namespace = {word: thing for module in modules for word, thing in vars(module).items()}
    for number in range(4):
        program, example = example_that_is_printed(strategy, number)
        made = eval(program, namespace | {"show": lambda x: x})
        assert repr(made) == repr(example)
        # Errors are equal to themselves only, and so are toolboxes.
        assert made == example or "Error(" in program or name == "toolboxes"


def example_that_is_printed(strategy: st.SearchStrategy[Any], number: int) -> tuple[str, Any]:
    """What Hypothesis prints for a failing test, for any example that it draws."""
    failed: list[Any] = []

    @seed(number)
    @settings(FAST, phases=[Phase.generate], report_multiple_bugs=False)
    @given(x=strategy)
    def show(x: Any) -> None:
        if crc32(repr(x).encode()) % 4 == number:
            failed.append(x)
            raise ValueError("seen")

    with pytest.raises(ValueError, match="seen") as failure:
        show()
    text = "\n".join(failure.value.__notes__)
    return text[text.index("show(") :].partition("\nExplanation:")[0], failed[-1]


def test_the_simplest_examples_are_short_programs() -> None:
    @FAST
    @given(dag=tool_dags(behaviour=st.just(sleeps(1))), calls=batches(SMALL), script=provider_scripts(SMALL))
    def fails(dag: ToolDag, calls: list[ToolCallRequest], script: list[Reply]) -> None:
        raise ValueError("seen")

    with pytest.raises(ValueError, match="seen") as failure:
        fails()
    text = "".join(failure.value.__notes__)
    assert "dag=ToolDag(ScriptedTool('a', sleeps(1)))" in text
    assert "calls=[ToolCallRequest(id='call-1', name='nothing', arguments={})]" in text
    assert "script=[says('done', chunks=1)]" in text


def test_without_hypothesis_the_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "import seqoria_runtime.testing\n"
        "try: import seqoria_runtime.testing.strategies\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "needs hypothesis: pip install 'seqoria-runtime[testing]'" in done.stdout


@given(schedules())
@settings(max_examples=20)
def test_a_schedule_runs_what_it_is_given_to(schedule: Schedule) -> None:
    async def main() -> list[str]:
        seen: list[str] = []

        async def task(name: str) -> None:
            for _ in range(2):
                await checkpoint()
                seen.append(name)

        async with anyio.create_task_group() as group:
            for name in "abc":
                group.start_soon(task, name)
        return seen

    assert sorted(run_virtual(main, schedule=schedule)) == sorted("abc" * 2)
    assert run_virtual(main, schedule=schedule) == run_virtual(main, schedule=schedule)


def test_orders_shrink_to_few_delays() -> None:
    def overtaken(schedule: Schedule) -> bool:
        async def main() -> bool:
            order: list[str] = []

            async def task(name: str) -> None:
                await checkpoint()
                order.append(name)

            async with anyio.create_task_group() as group:
                group.start_soon(task, "a")
                group.start_soon(task, "b")
            return order == ["b", "a"]

        return isinstance(schedule, FixedSchedule) and run_virtual(main, schedule=schedule)

    found = find(schedules(), overtaken, settings=FAST)
    assert isinstance(found, FixedSchedule)
    assert len(found.delays) == 1
