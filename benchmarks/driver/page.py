"""The published copy of a report: between two marks in docs/performance.md, with its plots beside it.

What stands before and after the marks is written by hand and left alone.
"""

from pathlib import Path
from typing import Any

from .families import FAMILIES
from .plots import plot
from .report import report
from .tables import measured

BEGIN = "<!-- begin: written by the benchmarks -->"
END = "<!-- end: written by the benchmarks -->"


def publish(found: dict[str, Any], docs: Path) -> None:
    results = found["results"]
    pictures = {
        family.key: str(plot(results, family, docs / "performance").relative_to(docs))
        for family in FAMILIES
        if family.plot and measured(results, family)
    }
    page = docs / "performance.md"
    page.write_text(between_marks(page.read_text(), report(results, found["facts"], pictures)))


def between_marks(page: str, text: str) -> str:
    """The page with what stood between the marks replaced."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page should have the marks {BEGIN!r} and {END!r}, in this order")
    return f"{before}{BEGIN}\n\n{text}\n{END}{after}"
