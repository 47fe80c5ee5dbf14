"""Puts the tool calls of one response together from the fragments that a server streams.

Knows the `tool_calls` entries of Chat Completions and nothing else of it. An entry's index is only
a label: calls stand in the order in which they were first seen.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from seqoria_runtime._redaction import bounded
from seqoria_runtime.models import UNNAMED_TOOL, ToolCallRequest

from ._arguments import read_arguments
from ._json import whole

_MAX_NAME = 256


class _Call:
    __slots__ = ("arguments", "extras", "id", "name")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.extras: dict[str, Any] = {}

    def text(self) -> str:
        return "".join(self.arguments)


class ToolCallAssembly:
    """The calls of one response; `extras` are further fields of a call that are kept as they came."""

    def __init__(self, extras: Sequence[str] = ()) -> None:
        self._extras = extras
        self._calls: list[_Call] = []
        self._by_label: dict[object, _Call] = {}
        self._last: _Call | None = None

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, entry: dict[str, Any]) -> str | None:
        """Add a fragment. Gives the name (maybe empty) of a call that it opens, otherwise `None`."""
        function = entry.get("function")
        if not isinstance(function, dict):
            function = {}
        call_id, name = _text(entry.get("id")).strip(), _text(function.get("name"))
        arguments = _arguments_text(function.get("arguments"))
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
            if call_id and call.id == call_id and not (name and arguments.strip() and _is_whole(call)):
                return call
        if call_id or name or self._last is None:
            return self._open()
        return self._last

    def _open(self) -> _Call:
        call = _Call()
        self._calls.append(call)
        return call

    def extras(self) -> list[dict[str, Any]]:
        """The further fields of each call, in the order of the calls."""
        return [call.extras for call in self._calls]

    def requests(
        self, response_id: str, *, new_id: Callable[[], str], cut: bool, real_name: Callable[[str], str]
    ) -> list[ToolCallRequest]:
        """Make the requests, each with an id that no other has.

        With `cut`, the output limit ended the response: the call that was being written, and any
        other without whole arguments, is marked as truncated.
        """
        taken: set[str] = set()
        requests = []
        for call in self._calls:
            call_id = call.id if call.id and call.id not in taken else f"call_{new_id()}"
            taken.add(call_id)
            values, invalid = read_arguments(whole(call.text()))
            request = ToolCallRequest(
                id=whole(call_id),
                name=real_name(bounded(whole(call.name), _MAX_NAME)) or UNNAMED_TOOL,
                arguments=values,
                invalid_arguments=invalid,
                truncated=cut and (call is self._last or invalid is not None),
                response_id=response_id,
            )
            requests.append(request)
        return requests


def _is_whole(call: _Call) -> bool:
    text = call.text()
    return bool(text.strip()) and read_arguments(text).invalid is None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _arguments_text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)
