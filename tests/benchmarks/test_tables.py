from typing import Any

from benchmarks.driver.families import Column, Family
from benchmarks.driver.results import Results
from benchmarks.driver.tables import growth_exponents, measured, ratios_table, reasons, reference_of, section

FAMILY = Family(
    "turns", "Turns", "", (Column("one", "turns/one", "cpu"), Column("many", "turns/many", "cpu"))
)


def record(*values: float) -> dict[str, Any]:
    return {"samples": [{"cpu": value} for value in values]}


RESULTS: Results = {
    "turns/one": {
        "agno": record(30.0, 60.0, 90.0),
        "workers, trio": record(2.0, 2.0, 2.0),
        "seqoria_runtime, trio": record(4.0, 4.0, 6.0),
        "seqoria_runtime, asyncio": record(1.0, 2.0, 3.0),
        "strands": {"samples": [], "cannot": "is made up"},
        "langgraph": {"samples": [], "failed": "no answer within 5 s"},
    }
}


def test_the_rows_are_those_with_a_figure_in_the_order_of_the_contestants() -> None:
    assert measured(RESULTS, FAMILY) == [
        "seqoria_runtime, asyncio",
        "seqoria_runtime, trio",
        "workers, trio",
        "agno",
    ]


def test_the_runtime_is_held_against_a_floor_on_its_loop_and_peers_against_the_runtime() -> None:
    assert reference_of("seqoria_runtime, trio", "workers") == "workers, trio"
    assert reference_of("seqoria_runtime, uvloop", "httpx lines") == "httpx lines, uvloop"
    assert reference_of("google-adk", "workers") == "seqoria_runtime, asyncio"
    assert reference_of("workers, uvloop", "workers") is None


def test_ratios_are_medians_of_the_repetitions_ratios() -> None:
    rows = ratios_table(RESULTS, FAMILY).splitlines()
    assert "| agno | seqoria_runtime, asyncio | 30.0 |" in rows
    assert "| seqoria_runtime, trio | workers, trio | 2.00 ±25% |" in rows


def test_a_ratio_without_its_reference_is_left_out() -> None:
    assert not any(
        row.startswith("| seqoria_runtime, asyncio") for row in ratios_table(RESULTS, FAMILY).splitlines()
    )


def test_who_cannot_and_who_failed_are_told_with_the_reason() -> None:
    assert reasons(RESULTS, FAMILY) == ["* strands: is made up", "* langgraph: failed: no answer within 5 s"]


def test_columns_and_sections_that_were_not_run_are_left_out() -> None:
    assert "| one |" in section(RESULTS, FAMILY, None)
    assert "many" not in section(RESULTS, FAMILY, None)
    assert not section({}, FAMILY, None)


def test_a_section_shows_its_plot() -> None:
    assert "![Turns](plots/turns.svg)" in section(RESULTS, FAMILY, "plots/turns.svg")


def test_the_exponent_of_growth_needs_two_sizes() -> None:
    found: Results = {
        "growth/1000": {"agno": record(5.0), "workers, trio": record(5.0)},
        "growth/4000": {"agno": record(10.0)},
    }
    exponents = growth_exponents(found)
    assert list(exponents) == ["agno"]
    assert round(exponents["agno"], 3) == 1.5


def test_a_family_without_a_reference_in_the_run_has_no_table_of_ratios() -> None:
    alone: Results = {"turns/one": {"agno": record(30.0)}}
    assert ratios_table(alone, FAMILY) == ""
    assert "As a ratio" not in section(alone, FAMILY, None)
    assert "As a ratio" in section(RESULTS, FAMILY, None)
