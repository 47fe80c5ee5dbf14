from pathlib import Path

import pytest

from benchmarks.driver.page import BEGIN, END, between_marks, publish
from benchmarks.driver.report import report
from benchmarks.driver.results import Results

FACTS = {
    "date": "2026-11-30 12:00 UTC",
    "machine": "a machine",
    "size": "quick",
    "minutes": 3.2,
    "load_before": 0.1,
    "load_after": 1.5,
    "quiet_load": 0.5,
    "missing": {"seqoria-agent": "no such version"},
    "versions": {"agno": ["python 3.12.1", "agno 3.1.10"]},
    "how_batches_run": {"agno": "a turn"},
}
RESULTS: Results = {"dag_cost": {"workers, trio": {"samples": [{"cpu": 10.0, "wall": 11.0}]}}}


def test_the_report_states_machine_versions_date_and_load() -> None:
    text = report(RESULTS, FACTS, {})
    for part in ("2026-11-30 12:00 UTC", "a machine", "Load average 0.10 before", "agno 3.1.10"):
        assert part in text
    assert "seqoria-agent was not installed: no such version" in text
    assert "provisional" not in text


def test_the_report_of_a_loaded_machine_says_so() -> None:
    assert "provisional" in report(RESULTS, {**FACTS, "load_before": 3.0}, {})


def test_only_what_was_measured_has_a_section() -> None:
    text = report(RESULTS, FACTS, {})
    assert "A DAG of 1,000 no-ops" in text
    assert "Streamed deltas" not in text
    assert "Price list" not in text


def test_publishing_replaces_what_is_between_the_marks_only() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert between_marks(page, "new") == f"before\n{BEGIN}\n\nnew\n{END}\nafter\n"


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="should have the marks"):
        between_marks("nothing", "new")


def test_a_published_page_has_the_plots_of_its_run_and_no_older_ones(tmp_path: Path) -> None:
    drawn = tmp_path / "results" / "dag-cost.svg"
    drawn.parent.mkdir()
    drawn.write_text("<svg/>")
    (tmp_path / "performance").mkdir()
    (tmp_path / "performance" / "old.svg").touch()
    (tmp_path / "performance.md").write_text(f"by hand\n{BEGIN}\n{END}\n")
    publish({"results": RESULTS, "facts": FACTS}, {"dag-cost": drawn}, tmp_path)
    assert [path.name for path in (tmp_path / "performance").iterdir()] == ["dag-cost.svg"]
    page = (tmp_path / "performance.md").read_text()
    assert page.startswith("by hand\n")
    assert "(performance/dag-cost.svg)" in page
