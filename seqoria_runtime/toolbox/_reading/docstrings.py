"""Parses docstrings in Google, NumPy and Sphinx style, also mixed: the first line, and the parameters."""

import inspect
import re
from collections.abc import Iterator, Sequence

_GOOGLE_SECTION = re.compile(
    r"(Args|Arguments|Params|Parameters|Keyword Args|Keyword Arguments|Other Parameters):\s*"
)
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+(.*))?")
_NUMPY_SECTION = re.compile(r"(Parameters|Other Parameters)\s*")
_NUMPY_ENTRY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?")
_SPHINX_ENTRY = re.compile(r":(?:param|parameter|arg|argument|keyword|key)\s+(?:[^:]*\s)?\**(\w+)\s*:\s*(.*)")
_UNDERLINE = re.compile(r"-{3,}\s*")


def first_line(docstring: str | None) -> str:
    lines = inspect.cleandoc(docstring or "").splitlines()
    return lines[0].strip() if lines else ""


def parameter_descriptions(docstring: str | None) -> dict[str, str]:
    lines = inspect.cleandoc(docstring or "").splitlines()
    return {**dict(_sphinx(lines)), **dict(_numpy(lines)), **dict(_google(lines))}


def _google(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for start, line in enumerate(lines):
        if not _GOOGLE_SECTION.fullmatch(line.strip()):
            continue
        section = _more_indented(lines[start + 1 :], than=_indent(line))
        level = min((_indent(entry) for entry in section if entry.strip()), default=0)
        for first, rest in _entries(section, level):
            if entry := _GOOGLE_ENTRY.fullmatch(first.strip()):
                yield entry[1], _joined([entry[2] or "", *rest])


def _numpy(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for start, line in enumerate(lines[:-1]):
        if not (_NUMPY_SECTION.fullmatch(line.strip()) and _UNDERLINE.fullmatch(lines[start + 1].strip())):
            continue
        for first, rest in _entries(_until_heading(lines[start + 2 :]), _indent(line)):
            entry = _NUMPY_ENTRY.fullmatch(first.strip())
            names = entry[1].split(",") if entry else ()
            yield from ((name.strip().lstrip("*"), _joined(rest)) for name in names)


def _sphinx(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for start, line in enumerate(lines):
        if entry := _SPHINX_ENTRY.fullmatch(line.strip()):
            rest = _more_indented(lines[start + 1 :], than=_indent(line))
            yield entry[1], _joined([entry[2], *rest])


def _entries(section: Sequence[str], level: int) -> Iterator[tuple[str, list[str]]]:
    """Yield the entries of a section: a line at `level`, and the deeper lines after it."""
    for start, line in enumerate(section):
        if line.strip() and _indent(line) == level:
            yield line, _more_indented(section[start + 1 :], than=level)


def _more_indented(lines: Sequence[str], *, than: int) -> list[str]:
    taken: list[str] = []
    for line in lines:
        if line.strip() and _indent(line) <= than:
            break
        taken.append(line)
    return taken


def _until_heading(lines: Sequence[str]) -> Sequence[str]:
    for index, line in enumerate(lines):
        if _UNDERLINE.fullmatch(line.strip()):
            return lines[: index - 1] if index else ()
    return lines


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _joined(lines: Sequence[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())
