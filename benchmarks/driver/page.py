"""Publish a report: between two marks in docs/performance.md, with its plots next to it.

The text before and after the marks is written by hand and stays.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .report import report

BEGIN = "<!-- begin: written by the benchmarks -->"
END = "<!-- end: written by the benchmarks -->"


def publish(found: dict[str, Any], plots: Mapping[str, Path], docs: Path) -> None:
    """Write the report into the page, and replace the plots next to it by these."""
    folder = docs / "performance"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    copies = {key: Path(shutil.copy(path, folder)) for key, path in plots.items()}
    text = report(
        found["results"], found["facts"], {key: f"performance/{copy.name}" for key, copy in copies.items()}
    )
    page = docs / "performance.md"
    page.write_text(between_marks(page.read_text(encoding="utf-8"), text), encoding="utf-8")


def between_marks(page: str, text: str) -> str:
    """Return the page with the text between the marks replaced."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page should have the marks {BEGIN!r} and {END!r}, in this order")
    return f"{before}{BEGIN}\n\n{text}\n{END}{after}"
