"""Assembles the tool calls of one Chat Completions answer from their streamed fragments.

An entry's index is only a label: calls stand in the order in which they were first seen.
"""

from collections.abc import Sequence
from typing import Any

from seqoria_runtime.models._arguments import read_arguments
from seqoria_runtime.providers._answers.call_parts import CallParts, arguments_text
from seqoria_runtime.providers._answers.json_values import str_or_empty


class _Call(CallParts):
    __slots__ = ("extras",)

    def __init__(self) -> None:
        super().__init__()
        self.extras: dict[str, Any] = {}


class ToolCallAssembly:
    """The calls of one answer; `extras` names further fields of a call that are kept as they came."""

    def __init__(self, extras: Sequence[str] = ()) -> None:
        self._extras = extras
        self._calls: list[_Call] = []
        self._by_label: dict[object, _Call] = {}
        self._last: _Call | None = None

    def add(self, entry: dict[str, Any]) -> str | None:
        """Add a fragment. Return the name (maybe empty) of the call that it opens, if it opens one."""
        function = entry.get("function")
        if not isinstance(function, dict):
            function = {}
        call_id, name = str_or_empty(entry.get("id")).strip(), str_or_empty(function.get("name"))
        arguments = arguments_text(function.get("arguments"))
        extras = {key: entry[key] for key in self._extras if entry.get(key) is not None}
        if not (call_id or name or arguments or extras):
            return None
        known = len(self._calls)
        call = self._last = self._find(entry.get("index"), call_id, name, arguments)
        call.id = call.id or call_id
        call.name = call.name or name
        call.extras |= extras
        if arguments:
            call.arguments.append(arguments)
        return call.name if len(self._calls) > known else None

    def _find(self, label: object, call_id: str, name: str, arguments: str) -> _Call:
        if not isinstance(label, (int, str)):
            return self._find_unlabelled(call_id, name, arguments)
        call = self._by_label.get(label)
        if call is None or (call_id and call.id and call_id != call.id):
            call = self._by_label[label] = self._open()
        return call

    def _find_unlabelled(self, call_id: str, name: str, arguments: str) -> _Call:
        for call in reversed(self._calls):
            if call_id and call.id == call_id and not (name and arguments.strip() and _is_complete(call)):
                return call
        if call_id or name or self._last is None:
            return self._open()
        return self._last

    def _open(self) -> _Call:
        call = _Call()
        self._calls.append(call)
        return call

    def extras(self) -> list[dict[str, Any]]:
        """Return the further fields of each call, in the order of the calls."""
        return [call.extras for call in self._calls]

    def calls(self) -> Sequence[CallParts]:
        """Return the calls at the end of the answer, the one written last marked as cut."""
        if self._last is not None:
            self._last.cut = True
        return self._calls


def _is_complete(call: _Call) -> bool:
    text = call.text
    return bool(text.strip()) and not read_arguments(text).broken
