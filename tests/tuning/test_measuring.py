"""Sweeps over toolboxes and synthetic resources, and the parts of a sweep."""

from random import Random
from typing import Any

import anyio
import pytest

from seqoria_runtime import HIDDEN, AdaptiveLimit, LocalToolbox
from seqoria_runtime.tuning import (
    CallsFileError,
    Durations,
    Percentiles,
    PlannedCall,
    Progress,
    ResourceSpec,
    Spread,
    SyntheticWorkload,
    ToolboxWorkload,
    measure_adaptive,
    measure_limits,
    read_calls,
)
from seqoria_runtime.tuning._resource import open_resource
from seqoria_runtime.tuning._svg import svg_of

pytestmark = pytest.mark.clause("C121")


def toolbox() -> LocalToolbox:
    tools = LocalToolbox()

    @tools.tool()
    async def work(seconds: float = 1.0) -> None:
        await anyio.sleep(seconds)

    @tools.tool()
    async def broken() -> None:
        raise ValueError("broken")

    return tools


async def test_every_call_is_made_once_in_each_run_and_told_of() -> None:
    told: list[Progress] = []
    work = ToolboxWorkload(toolbox(), [PlannedCall("work", {}), [("work", {}), ("broken", {})]] * 4)  # type: ignore[list-item]
    report = await measure_limits(work, limits=[4, 1], repetitions=2, refine=False, on_progress=told.append)
    assert [(one.done, one.planned, one.run.limit) for one in told] == [
        (1, 4, 1),
        (2, 4, 4),
        (3, 4, 1),
        (4, 4, 4),
    ]
    rows = report.rows
    assert [(row.limit, row.runs, row.calls, row.failed) for row in rows] == [(1, 2, 24, 8), (4, 2, 24, 8)]
    assert rows[0].latency.p50 == 1.0
    assert rows[0].throughput == Spread(1.0, 1.0, 1.0)
    assert rows[1].wait.p95 < rows[0].wait.p95


async def test_calls_that_time_out_are_counted_on_their_own() -> None:
    work = ToolboxWorkload(toolbox(), [[PlannedCall("work", {"seconds": 5.0}), PlannedCall("broken", {})]])
    report = await measure_limits(work, limits=[1, 2], repetitions=1, tool_timeout=2.0)
    assert [(row.timeouts, row.failed) for row in report.rows] == [(1, 1), (1, 1)]
    assert report.rows[0].latency.p99 <= 2.0


async def test_calls_that_take_no_time_are_not_counted_for_more_than_the_limit() -> None:
    work = ToolboxWorkload(toolbox(), [[PlannedCall("work", {"seconds": 0.0})] * 20])
    report = await measure_limits(work, limits=[1, 2], repetitions=1)
    assert [row.work.median for row in report.rows] == [1.0, 2.0]


async def test_a_workload_of_failures_is_said_to_be_one() -> None:
    work = ToolboxWorkload(toolbox(), [PlannedCall("broken", {})] * 10)
    report = await measure_limits(work, limits=[1, 2], repetitions=1)
    assert report.reason == "No call gave a result under any limit, so there is nothing to compare."
    assert report.recommended is None


async def test_limits_above_the_number_of_calls_are_left_out() -> None:
    work = ToolboxWorkload(toolbox(), [PlannedCall("work", {})] * 5)
    report = await measure_limits(work, limits=[1, 4, 8, 16], repetitions=1, refine=False)
    assert [row.limit for row in report.rows] == [1, 4]


async def test_hidden_parameters_are_filled_from_the_context() -> None:
    tools, seen = LocalToolbox(), []

    async def whose(user: Any) -> None:
        seen.append(user)

    whose.__annotations__["user"] = __import__("typing").Annotated[str, HIDDEN]
    tools.add(whose)
    work = ToolboxWorkload(tools, [PlannedCall("whose", {})], {"user": "me"})
    await measure_limits(work, limits=[1], repetitions=1)
    assert seen == ["me"]


async def test_a_cancelled_sweep_has_told_of_what_it_measured() -> None:
    told: list[Progress] = []
    work = ToolboxWorkload(toolbox(), [PlannedCall("work", {})] * 10)
    with anyio.move_on_after(12):
        await measure_limits(work, limits=[1, 2], on_progress=told.append)
    assert [one.run.limit for one in told] == [1]


async def test_the_history_of_an_adaptive_limit_begins_at_zero() -> None:
    await anyio.sleep(100)
    work = SyntheticWorkload(Durations.parse("constant,value=1s"), ResourceSpec("sharing", 8), calls=200)
    history = await measure_adaptive(work, AdaptiveLimit(1, 64), repetitions=2)
    assert history[0] == (0.0, 1)
    assert max(change.limit for change in history) >= 8


async def test_limits_are_checked() -> None:
    work = ToolboxWorkload(toolbox(), [PlannedCall("work", {})])
    with pytest.raises(ValueError, match="'limits' must be a positive integer, not 0"):
        await measure_limits(work, limits=[1, 0])
    with pytest.raises(ValueError, match="'limits' must hold at least one"):
        await measure_limits(work, limits=[])
    with pytest.raises(ValueError, match="'repetitions'"):
        await measure_limits(work, repetitions=0)


def test_a_workload_is_checked() -> None:
    with pytest.raises(ValueError, match="the toolbox has no tool 'nobody'"):
        ToolboxWorkload(toolbox(), [PlannedCall("nobody", {})])
    with pytest.raises(ValueError, match="at least one call"):
        ToolboxWorkload(toolbox(), [])
    with pytest.raises(TypeError, match="'toolbox' must be a LocalToolbox, not int"):
        ToolboxWorkload(3, [])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'calls'"):
        SyntheticWorkload(Durations.parse("constant,value=1s"), calls=0)
    with pytest.raises(ValueError, match="'capacity'"):
        ResourceSpec("sharing", 0)
    with pytest.raises(ValueError, match="'model' must be sharing, queueing or thrashing"):
        ResourceSpec("magic")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "load", "seconds"),
    [
        ("sharing", 4, 1.0), ("sharing", 8, 2.0), ("queueing", 4, 1.0), ("queueing", 8, 2.0),
        ("thrashing", 4, 1.0), ("thrashing", 16, 8.0),
    ],
)  # fmt: skip
async def test_a_resource_serves_its_capacity_at_full_speed(model: Any, load: int, seconds: float) -> None:
    async with open_resource(ResourceSpec(model, 4)) as resource, anyio.create_task_group() as group:
        for _ in range(load):
            group.start_soon(resource.use, 1.0)
    assert anyio.current_time() == pytest.approx(seconds)


async def test_a_resource_ends_what_takes_longer_than_the_clock_is_exact() -> None:
    async with open_resource(ResourceSpec("sharing", 2)) as resource, anyio.create_task_group() as group:
        for seconds in (1e26, 1e26, 3e25, 1.0):
            group.start_soon(resource.use, seconds)
    assert anyio.current_time() == pytest.approx(1.15e26)


@pytest.mark.parametrize("model", ["sharing", "queueing", "thrashing"])
async def test_a_cancelled_call_leaves_the_resource_to_the_others(model: Any) -> None:
    async with open_resource(ResourceSpec(model, 1)) as resource:
        async with anyio.create_task_group() as group:
            group.start_soon(resource.use, 2.0)
            await anyio.sleep(0)
            with anyio.move_on_after(0.5):
                await resource.use(50.0)
        before = anyio.current_time()
        await resource.use(1.0)
        assert anyio.current_time() - before == pytest.approx(1.0)
    assert 2.0 <= before <= 2.5


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("constant,value=50ms", 0.05, 0.05), ("uniform,low=1s,high=2s", 1.0, 2.0),
        ("exponential,mean=1m", 0.0, 2000.0), ("lognormal,median=50ms,p99=2s", 0.0, 500.0),
    ],
)  # fmt: skip
def test_distributions_are_read(text: str, low: float, high: float) -> None:
    durations, random = Durations.parse(text), Random(1)
    assert all(low <= durations.draw(random) <= high for _ in range(500))


def test_a_lognormal_has_the_median_and_the_percentile_that_were_asked_for() -> None:
    durations, random = Durations.parse("lognormal,median=50ms,p99=2s"), Random(1)
    found = Percentiles.of(durations.draw(random) for _ in range(20_000))
    assert found.p50 == pytest.approx(0.05, rel=0.05)
    assert found.p99 == pytest.approx(2.0, rel=0.15)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gamma,mean=1s", "there is no distribution 'gamma'; there are constant, uniform"),
        ("constant", "'constant' must be of the form constant,value=..."),
        ("constant,value=soon", "'soon' is not a duration such as 50ms"),
        ("constant,50ms", "constant: '50ms' must be NAME=DURATION"),
        ("lognormal,median=2s,p99=1s", "'median' must be above zero and at most 'p99'"),
        ("uniform,low=2s,high=1s", "'low' must be at most 'high'"),
        ("exponential,mean=0", "'mean' must be above zero"),
        ("constant,value=-1", "not a duration"),
        ("constant,value=1s,value=2s", "constant: 'value' is given twice"),
    ],
)
def test_a_bad_distribution_is_told(text: str, words: str) -> None:
    with pytest.raises(ValueError) as told:  # noqa: PT011 - the text is compared below
        Durations.parse(text)
    assert words in str(told.value)


def test_a_file_of_calls_is_read() -> None:
    lines = ['{"name": "a", "arguments": {"x": 1}}', "", '[{"name": "a"}, {"name": "b", "repeat": 2}]']
    assert read_calls(lines, {"a", "b"}) == (
        (PlannedCall("a", {"x": 1}),),
        (PlannedCall("a", {}), PlannedCall("b", {}), PlannedCall("b", {})),
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 2: is not JSON"),
        ("[" * 100_000, "line 2: is not JSON"),
        ("[]", "line 2: is a batch of no calls"),
        ("3", "line 2: a call must be an object with the name of a tool, not 3"),
        ('{"name": "z"}', "line 2: there is no tool 'z'; there are a"),
        ('{"arguments": {}}', "line 2: there is no tool None"),
        ('{"name": "a", "args": {}}', "line 2: a call has no 'args'; it has name, arguments, repeat"),
        ('{"name": "a", "arguments": [1]}', "line 2: 'arguments' must be an object, not [1]"),
        (
            '{"name": "a", "repeat": true}',
            "line 2: 'repeat' must be a positive integer of at most 1000000, not true",
        ),
        ('{"name": "a", "repeat": 100000000000}', "line 2: 'repeat' must be a positive integer of at most"),
    ],
)
def test_a_bad_line_is_told_by_its_number(line: str, words: str) -> None:
    with pytest.raises(CallsFileError) as told:
        read_calls(['{"name": "a"}', line], {"a"})
    assert words in str(told.value)


def test_a_file_without_calls_is_told() -> None:
    with pytest.raises(CallsFileError, match="no call"):
        read_calls(["", " "], {"a"})


async def test_the_picture_is_xml_and_shows_every_limit(anyio_backend_name: str) -> None:
    from xml.etree import ElementTree

    work = SyntheticWorkload(Durations.parse("constant,value=1s"), ResourceSpec("sharing", 3), calls=40)
    report = await measure_limits(work, limits=[1, 2, 4, 8], repetitions=1)
    history = await measure_adaptive(work, AdaptiveLimit(1, 8))
    picture = svg_of(report.with_adaptive(history), title="<&>")
    root = ElementTree.fromstring(picture)
    texts = [node.text for node in root.iter() if node.tag.endswith("text")]
    assert "<&>" in texts
    assert {"1", "2", "4", "8"} <= set(texts)
    assert len([node for node in root.iter() if node.tag.endswith("circle")]) == 5 * len(report.rows)


def test_percentiles_lie_between_the_values() -> None:
    assert Percentiles.of([1.0, 2.0, 3.0, 4.0]).p50 == 2.5
    assert Percentiles.of([]) == Percentiles(0.0, 0.0, 0.0, 0.0)
