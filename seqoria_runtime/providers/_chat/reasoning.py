"""Reads the reasoning in a Chat Completions delta: `reasoning_details`, `reasoning_content` or `reasoning`.

`reasoning_details` go first, and are kept as blocks if the server wants them back. Servers that
send the content as a list of parts have their reasoning among the parts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

_JOINED = ("text", "summary", "data")


def reasoning_text(delta: Mapping[str, Any]) -> str:
    """Return the reasoning in a delta or message; empty if there is none."""
    details = delta.get("reasoning_details")
    if isinstance(details, list):
        text = "".join(_detail_text(detail) for detail in details if isinstance(detail, Mapping))
        if text:
            return text
    for name in ("reasoning_content", "reasoning"):
        plain = delta.get(name)
        if isinstance(plain, str) and plain:
            return plain
    return ""


def _detail_text(detail: Mapping[str, Any]) -> str:
    text = detail.get("text") or detail.get("summary")
    return text if isinstance(text, str) else ""


def split_content(parts: Sequence[Any]) -> tuple[str, str]:
    """Split content that came as a list of parts into its text and its reasoning."""
    text, thinking = "", ""
    for part in parts:
        if not isinstance(part, Mapping):
            continue
        inner = part.get("thinking")
        if isinstance(inner, list):
            thinking += split_content(inner)[0]
        elif isinstance(inner, str):
            thinking += inner
        elif isinstance(part.get("text"), str):
            text += part["text"]
    return text, thinking


class ReasoningDetails:
    """The `reasoning_details` of one answer, their fragments joined by index and type."""

    def __init__(self) -> None:
        self._details: list[dict[str, Any]] = []

    def add(self, details: Any) -> None:
        if not isinstance(details, list):
            return
        for detail in details:
            if isinstance(detail, dict):
                self._add_one(detail)

    def _add_one(self, detail: dict[str, Any]) -> None:
        last = self._details[-1] if self._details else None
        if last is None or not _continues(last, detail):
            self._details.append(dict(detail))
            return
        for name, value in detail.items():
            if name in _JOINED and isinstance(value, str) and isinstance(last.get(name), str):
                last[name] += value
            elif value is not None:
                last[name] = value

    def blocks(self) -> list[dict[str, Any]]:
        return [{"type": "reasoning_details", "details": self._details}] if self._details else []


def _continues(last: Mapping[str, Any], detail: Mapping[str, Any]) -> bool:
    # Complete details may lack an index, so only an index marks fragments of one detail.
    if detail.get("index") is None or detail.get("type") == "reasoning.encrypted":
        return False
    return (last.get("index"), last.get("type")) == (detail.get("index"), detail.get("type"))
