"""The Python of the project's pages, ready to run.

A page is a notebook: its pieces share one namespace, in order. A comment `<!-- setup ... -->` before
a piece, and `<!-- check ... -->` after it, hold Python that readers do not see.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).parent.parent.parent

_PIECE = re.compile(
    r"(?:^<!-- setup\n(?P<setup>.*?)^-->\n)?"
    r"^```python\n(?P<code>.*?)^```\n"
    r"(?:^<!-- check\n(?P<check>.*?)^-->\n)?",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Piece:
    """One piece of code of a page: three parts, each with `await` allowed at the top level."""

    page: str
    line: int
    setup: str
    code: str
    check: str

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_asynchronous(self) -> bool:
        return any(is_coroutine(self.compiled(part)) for part in (self.code, self.check))

    def compiled(self, part: str) -> CodeType:
        source = "\n" * self.line + part
        code: CodeType = compile(
            source, self.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
        )
        return code

    async def run(self, part: str, namespace: dict[str, Any]) -> None:
        awaitable = eval(self.compiled(part), namespace)
        if awaitable is not None:
            await awaitable


def is_coroutine(code: CodeType) -> bool:
    return bool(code.co_flags & inspect.CO_COROUTINE)


def pieces(page: str) -> Iterator[Piece]:
    """The pieces of a page, by its path in the project."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for found in _PIECE.finditer(text):
        line = text.count("\n", 0, found.start("code"))
        yield Piece(page, line, found["setup"] or "", found["code"], found["check"] or "")


def pages() -> list[str]:
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [str(path.relative_to(ROOT)) for path in found]
