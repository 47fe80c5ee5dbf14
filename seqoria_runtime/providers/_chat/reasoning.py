"""Reads the reasoning that Chat Completions servers send beside the text, in three forms.

`reasoning_details` are preferred, and kept as blocks where the server wants them back;
`reasoning_content` and `reasoning` are plain text.
"""

from collections.abc import Mapping, Sequence
from typing import Any

_JOINED = ("text", "summary", "data")


def reasoning_text(delta: Mapping[str, Any]) -> str:
    """Give the reasoning in a delta or message, empty where there is none."""
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


def content_parts(parts: Sequence[Any]) -> tuple[str, str]:
    """Split content that came as a list of parts into its text and its reasoning."""
    text, thinking = "", ""
    for part in parts:
        if not isinstance(part, Mapping):
            continue
        inner = part.get("thinking")
        if isinstance(inner, list):
            thinking += content_parts(inner)[0]
        elif isinstance(inner, str):
            thinking += inner
        elif isinstance(part.get("text"), str):
            text += part["text"]
    return text, thinking


class ReasoningDetails:
    """The detail blocks of one response, their fragments joined by index and type."""

    def __init__(self) -> None:
        self._blocks: list[dict[str, Any]] = []

    def add(self, details: Any) -> None:
        if not isinstance(details, list):
            return
        for detail in details:
            if isinstance(detail, dict):
                self._add_one(detail)

    def _add_one(self, detail: dict[str, Any]) -> None:
        last = self._blocks[-1] if self._blocks else None
        if last is None or not _continues(last, detail):
            self._blocks.append(dict(detail))
            return
        for name, value in detail.items():
            if name in _JOINED and isinstance(value, str) and isinstance(last.get(name), str):
                last[name] += value
            elif value is not None:
                last[name] = value

    def blocks(self) -> list[dict[str, Any]]:
        return [{"type": "reasoning_details", "details": self._blocks}] if self._blocks else []


def _continues(last: Mapping[str, Any], detail: Mapping[str, Any]) -> bool:
    # Whole details of one response may lack an index; only an index tells fragments from those.
    if detail.get("index") is None or detail.get("type") == "reasoning.encrypted":
        return False
    return (last.get("index"), last.get("type")) == (detail.get("index"), detail.get("type"))
