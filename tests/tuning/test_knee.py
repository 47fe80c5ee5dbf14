"""The recommendation, for constructed runs and for simulated resources of known capacity."""

from dataclasses import replace

import pytest

from seqoria_runtime.testing import Backend, run_virtual
from seqoria_runtime.tuning import (
    CallRecord,
    Durations,
    LimitReport,
    ResourceSpec,
    Run,
    SyntheticWorkload,
    measure_limits,
    report_of,
    svg_of,
)

pytestmark = pytest.mark.clause("C121")

HEAVY_TAIL = "lognormal,median=50ms,p99=2s"
RESOURCES = [
    (ResourceSpec("sharing", 12), HEAVY_TAIL),
    (ResourceSpec("queueing", 25), HEAVY_TAIL),
    (ResourceSpec("thrashing", 40), "exponential,mean=200ms"),
]


async def recommend(spec: ResourceSpec, durations: str, seed: int, calls: int = 300) -> LimitReport:
    workload = SyntheticWorkload(Durations.parse(durations), spec, calls=calls, seed=seed)
    return await measure_limits(workload, limits=(1, 4, 8, 16, 32, 64), repetitions=1)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(("spec", "durations"), RESOURCES)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_recommended_limit_is_within_a_fifth_of_the_capacity(
    spec: ResourceSpec, durations: str, seed: int, backend: Backend
) -> None:
    """The right limit is the capacity: the lowest at which the resource does all that it can.

    Each call less leaves a part of the resource idle; each call more slows all calls down and gets nothing
    more done.
    """
    report = run_virtual(recommend, spec, durations, seed, backend=backend)
    assert report.knee.saturated
    assert abs(report.knee.limit / spec.capacity - 1) <= 0.2


@pytest.mark.parametrize("capacity", [3, 7])
def test_calls_of_equal_length_are_no_harder(capacity: int) -> None:
    report = run_virtual(recommend, ResourceSpec("queueing", capacity), "constant,value=1s", 0)
    assert abs(report.knee.limit - capacity) <= max(1, 0.2 * capacity)


def test_tools_that_do_not_saturate_are_said_not_to() -> None:
    report = run_virtual(recommend, ResourceSpec("sharing", 1000), "constant,value=1s", 0)
    assert (report.knee.saturated, report.recommended) == (False, 54)
    assert "the knee lies above it" in report.reason


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_same_seed_gives_the_same_report(backend: Backend) -> None:
    spec = RESOURCES[0][0]
    first, again, other = (
        run_virtual(recommend, spec, HEAVY_TAIL, seed, 60, backend=backend).as_json() for seed in (5, 5, 6)
    )
    assert first == again
    assert first != other


def steady(limit: int, latency: float, *, calls: int = 60, failed: int = 0) -> Run:
    """Calls that run `limit` at a time and all take `latency`."""
    records = []
    for place in range(calls):
        started = place // limit * latency
        kind = "failed" if place % calls < failed else None
        records.append(CallRecord(0.0, started, started + latency, kind))  # type: ignore[arg-type]
    return Run(limit, 0, records)


def test_latency_that_grows_with_the_load_marks_the_knee() -> None:
    runs = [steady(limit, max(1.0, limit / 4)) for limit in (1, 2, 4, 8, 16)]
    report = report_of(runs)
    assert report.recommended == 4
    assert [round(row.slowdown.median, 2) for row in report.rows] == [1, 1, 1, 2, 4]


def test_calls_that_fail_do_no_work() -> None:
    runs = [steady(1, 1.0), steady(2, 1.0), steady(4, 1.0), steady(8, 1.0, failed=45)]
    report = report_of(runs)
    assert report.recommended == 4
    assert report.rows[-1].failures == {"failed": 45}
    assert (report.rows[-1].timeouts, report.rows[-1].failed) == (0, 45)


@pytest.mark.parametrize("tenths", [2, 5, 8])
def test_failures_that_are_the_same_under_every_limit_do_not_move_the_knee(tenths: int) -> None:
    def some_fail(limit: int, latency: float) -> Run:
        calls = [
            replace(call, kind="failed" if place * 7 % 10 < tenths else None)
            for place, call in enumerate(steady(limit, latency, calls=120).calls)
        ]
        return Run(limit, 0, calls)

    report = report_of([some_fail(limit, max(1.0, limit / 4)) for limit in (1, 2, 4, 8, 12)])
    assert (report.recommended, report.knee.saturated) == (4, True)
    report = report_of([some_fail(limit, 1.0) for limit in (1, 2, 4, 8, 12)])
    assert (report.recommended, report.knee.saturated) == (12, False)


def test_calls_that_are_turned_away_at_once_are_no_fast_ones() -> None:
    def turned_away(limit: int) -> Run:
        calls = [
            CallRecord(0.0, call.started, (call.started or 0) + 0.01, "failed")
            if place % limit >= 4
            else call
            for place, call in enumerate(steady(limit, 1.0).calls)
        ]
        return Run(limit, 0, calls)

    report = report_of([turned_away(limit) for limit in (1, 2, 4, 8, 12)])
    assert (report.recommended, report.knee.saturated) == (4, True)


def paced(limit: int, results: float, *, calls: int = 32, latency: float = 1.0) -> Run:
    """Calls of one latency, with so many results a second."""
    starts = [place / results for place in range(calls)]
    return Run(limit, 0, [CallRecord(0.0, start, start + latency) for start in starts])


@pytest.mark.parametrize("limits", [(1, 32), (4, 8, 16, 32)])
def test_too_few_calls_to_compare_limits_are_said_to_be_too_few(limits: tuple[int, ...]) -> None:
    report = report_of([steady(limit, 1.0, calls=32) for limit in limits])
    assert report.recommended is None
    assert f"make at least {5 * limits[1]} for the limit {limits[1]}" in report.reason
    assert [row.certain for row in report.rows] == [True] + [False] * (len(limits) - 1)
    assert "No limit to recommend" in svg_of(report)


def test_a_row_that_refutes_the_recommendation_is_named_instead() -> None:
    # Under the limits with enough calls, these look saturated at 4.
    runs = [paced(1, 1.0), paced(2, 2.0), paced(4, 4.0), paced(5, 4.0), paced(32, 31.0)]
    report = report_of(runs)
    assert report.recommended is None
    assert "The limit 32 got" in report.reason
    assert "make at least 160" in report.reason
    report = report_of([*runs[:-1], paced(32, 31.0, latency=8.0)])
    assert report.recommended is not None


@pytest.mark.parametrize("calls", [32, 60, 300])
@pytest.mark.parametrize("limits", [(1, 32), (4, 8, 16, 32), (1, 2, 4, 8, 16, 32), (1, 3, 5, 6, 8, 24, 32)])
def test_a_recommendation_is_never_beaten_twice_over_at_the_same_latency(
    calls: int, limits: tuple[int, ...]
) -> None:
    async def sweep() -> LimitReport:
        workload = SyntheticWorkload(
            Durations.parse("uniform,low=1us,high=2s"), ResourceSpec("sharing", 1000), calls=calls, seed=1
        )
        return await measure_limits(workload, limits=limits, repetitions=1)

    report = run_virtual(sweep)
    if report.recommended is not None:
        near = max((row for row in report.rows if row.limit <= report.recommended), key=lambda row: row.limit)
        reach = near.throughput.median * report.recommended / near.limit
        as_fast = [row for row in report.rows if row.latency.p95 <= near.latency.p95 * 1.1]
        assert max(row.throughput.median for row in as_fast) < 2 * reach


def test_a_lowest_limit_that_is_as_good_as_any_is_said_to_be_too_high() -> None:
    report = report_of([steady(limit, limit / 4) for limit in (6, 8, 12)])
    assert (report.recommended, "the knee may lie below it" in report.reason) == (6, True)
    report = report_of([steady(limit, limit) for limit in (1, 2, 4)])
    assert (report.recommended, "the knee may lie below it" in report.reason) == (1, False)


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ([steady(1, 1.0, failed=60), steady(2, 1.0, failed=60)], "No call gave a result"),
        ([steady(1, 1.0)], "Only the limit 1 was measured"),
        ([steady(1, 0.0), steady(2, 0.0)], "The calls took no time"),
    ],
)
def test_nothing_is_recommended_where_there_is_nothing_to_compare(runs: list[Run], words: str) -> None:
    report = report_of(runs)
    assert report.recommended is None
    assert report.as_json()["recommended"] is None
    assert words in report.reason
    assert "No limit to recommend" in svg_of(report)


def test_a_sweep_that_was_broken_off_is_reported_as_far_as_it_came() -> None:
    whole = [steady(limit, 1.0) for limit in (1, 2, 4)]
    assert [row.limit for row in report_of(whole[:2]).rows] == [1, 2]
    cut = [*whole, Run(2, 1, whole[1].calls)]
    assert [row.runs for row in report_of(cut).rows] == [1, 1, 1]


def test_there_is_no_report_of_nothing() -> None:
    with pytest.raises(ValueError, match="no run"):
        report_of([])


def test_calls_that_never_started_or_took_no_time_do_no_harm() -> None:
    records = [CallRecord(0.0, None, 0.0, "unknown_tool"), CallRecord(0.0, 0.0, 0.0)]
    report = report_of([Run(1, 0, records), Run(2, 0, records)])
    assert report.rows[0].throughput.median == 0.0
    assert report.recommended is None
