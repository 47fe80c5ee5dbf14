"""Maps names and ids to those that a server accepts, whose grammar is narrower than ours.

The application's history keeps its own. Every map is one-to-one and the same each time.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from seqoria_runtime.models import UNNAMED_TOOL
from seqoria_runtime.models.errors import InvalidRequestError
from seqoria_runtime.providers._protocol import ToolDefinition

# Every known Chat Completions server accepts these.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def wire_name(name: str) -> str:
    """Return a name that every server accepts: the name itself, or a readable one with its hash."""
    if _NAME.fullmatch(name):
        return name
    readable = _NOT_IN_A_NAME.sub("_", name)[:54] or UNNAMED_TOOL
    if readable[0] not in "_" and not readable[0].isalpha():
        readable = f"_{readable}"
    return f"{readable}_{hashlib.sha256(_bytes(name)).hexdigest()[:8]}"


def chosen_tool(tools: Sequence[ToolDefinition], choice: str | None) -> ToolDefinition:
    """Return the tool that a `tool_choice` names. Raises `InvalidRequestError` if it names none."""
    for tool in tools:
        if tool.name == choice:
            return tool
    raise InvalidRequestError(f"tool_choice names {choice!r}, which is none of the request's tools")


class WireNames:
    """The names of one request's tools, by the names that were sent."""

    def __init__(self, names: Iterable[str]) -> None:
        self._real = {wire_name(name): name for name in names}

    def real(self, name: str) -> str:
        """Return the tool's name for one that the model wrote; a made-up name stays as it is."""
        return self._real.get(name, name)


@dataclass(frozen=True, slots=True)
class CallIdRule:
    """What a server accepts as the id of a tool call.

    With `exactly`, that many letters and digits; otherwise up to `at_most` characters, which
    `plain` limits to letters, digits, "_" and "-".
    """

    exactly: int | None = None
    at_most: int = 40
    plain: bool = False

    def accepts(self, call_id: str) -> bool:
        """Return whether the server takes this id."""
        if self.exactly is None:
            fits = not self.plain or _NOT_IN_A_NAME.search(call_id) is None
            return fits and len(call_id) <= self.at_most
        return len(call_id) == self.exactly and call_id.isascii() and call_id.isalnum()

    def made_from(self, text: str) -> str:
        """Return an id that the server takes; equal texts have equal ids."""
        return _letters(text, self.exactly or min(self.at_most, 32))


class CallIds:
    """The ids of one request's calls as they are sent: an id that the server refuses is replaced."""

    def __init__(self, rule: CallIdRule) -> None:
        self._rule = rule
        self._wire: dict[str, str] = {}
        self._taken: set[str] = set()

    def wire(self, call_id: str) -> str:
        """Return the id to send: always the same for one id, and never the same for two."""
        known = self._wire.get(call_id)
        if known is None:
            known = self._wire[call_id] = self.unique(call_id)
        return known

    def unique(self, call_id: str) -> str:
        """Return an id to send that was not returned before, even if the same id comes again."""
        candidate, number = call_id, 0
        while not self._rule.accepts(candidate) or candidate in self._taken:
            candidate = self._rule.made_from(f"{call_id}#{number}" if number else call_id)
            number += 1
        self._taken.add(candidate)
        return candidate


def _letters(text: str, length: int) -> str:
    number = int.from_bytes(hashlib.sha256(_bytes(text)).digest())
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(digits)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
