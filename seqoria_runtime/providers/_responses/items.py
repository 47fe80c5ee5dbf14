"""Keeps the output items of one Responses answer, each as far as it is known.

An item is found by its id, or else by its index in the output; servers leave out either.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from seqoria_runtime.providers._answers.call_parts import CallParts, arguments_text
from seqoria_runtime.providers._answers.json_values import str_or_empty
from seqoria_runtime.providers._json import join_surrogates

OF_A_CALL = frozenset({"arguments", "call_id", "name", "status", "type"})


class OutputItem:
    """One item: its latest fields, and the pieces of it that were streamed."""

    __slots__ = ("call", "fields", "kind", "settled", "streamed")

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields
        self.kind = str_or_empty(fields.get("type"))
        self.streamed: list[str] = []
        self.settled = False
        self.call: CallParts | None = None
        if self.kind == "function_call":
            self.call = CallParts()
            self._fill(self.call, fields)

    def settle(self, fields: dict[str, Any]) -> None:
        """Take the item's final fields."""
        self.fields = {**self.fields, **fields}
        self.settled = True
        if self.call is not None:
            self._fill(self.call, fields)

    @staticmethod
    def _fill(call: CallParts, fields: Mapping[str, Any]) -> None:
        call.id = str_or_empty(fields.get("call_id")).strip() or call.id
        call.name = str_or_empty(fields.get("name")) or call.name
        arguments = arguments_text(fields.get("arguments"))
        if arguments:
            call.arguments = [arguments]
        call.cut = fields.get("status") == "incomplete"

    def rest(self, text: str) -> str:
        """Return the part of a text that was not streamed; empty if another text was."""
        streamed = join_surrogates("".join(self.streamed))
        return text[len(streamed) :] if text.startswith(streamed) else ""

    def text(self) -> str:
        """Return the text in the fields of a message, refusals included."""
        return "".join(
            str_or_empty(part.get("text") or part.get("refusal")) for part in _parts(self.fields, "content")
        )

    def reasoning(self) -> str:
        """Return the reasoning in the fields: the summary, or the text itself without one."""
        parts = _parts(self.fields, "summary") or _parts(self.fields, "content")
        return "\n\n".join(filter(None, (str_or_empty(part.get("text")) for part in parts)))

    @property
    def refuses(self) -> bool:
        return any(part.get("type") == "refusal" for part in _parts(self.fields, "content"))

    @property
    def is_plain_call(self) -> bool:
        """Whether the item is a call that goes back without further fields."""
        return self.call is not None and self.fields.keys() <= OF_A_CALL | {"id"}

    def block(self) -> dict[str, Any] | None:
        """Return the item as it goes back; `None` for a partial item that must be complete to go back."""
        fields = {name: value for name, value in self.fields.items() if value is not None}
        if self.settled:
            return fields
        if self.kind == "message":
            text = {"type": "output_text", "text": "".join(self.streamed), "annotations": []}
            return {"role": "assistant", **fields, "content": [text]}
        return fields if self.call is not None else None


def _parts(fields: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    parts = fields.get(name)
    return [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []


class OutputItems:
    """The items of one answer, in the order in which they were first seen."""

    def __init__(self) -> None:
        self._items: list[OutputItem] = []
        self._by_id: dict[str, OutputItem] = {}
        self._by_index: dict[int, OutputItem] = {}

    def __iter__(self) -> Iterator[OutputItem]:
        return iter(self._items)

    @property
    def last(self) -> OutputItem | None:
        return self._items[-1] if self._items else None

    def calls(self) -> Sequence[CallParts]:
        return [item.call for item in self._items if item.call is not None]

    def find(self, item_id: Any, index: Any, kind: str) -> OutputItem | None:
        """Return the item with this id or index; without either, the last item if it is of this kind."""
        if isinstance(item_id, str) and item_id in self._by_id:
            return self._by_id[item_id]
        if isinstance(index, int):
            item = self._by_index.get(index)
            # Some servers give every item the same index; then only the id tells them apart.
            apart = item is not None and bool(item_id) and bool(item.fields.get("id"))
            return item if item is not None and item.kind == kind and not apart else None
        return self.last if not item_id and self.last is not None and self.last.kind == kind else None

    def matching(self, final: Sequence[Mapping[str, Any]]) -> list[OutputItem | None]:
        """Return for each item of the final output the one that was streamed.

        It has the same id, or, if the server changed that, the same position among items of its kind.
        """
        found = [self._by_id.get(str_or_empty(fields.get("id"))) for fields in final]
        left = [item for item in self._items if item not in found]
        for index, fields in enumerate(final):
            same = [item for item in left if item.kind == str_or_empty(fields.get("type"))]
            if found[index] is None and same:
                found[index] = same[0]
                left.remove(same[0])
        return found

    def open(self, fields: dict[str, Any], index: Any) -> OutputItem:
        item = OutputItem(fields)
        self._items.append(item)
        item_id = fields.get("id")
        if isinstance(item_id, str) and item_id:
            self._by_id[item_id] = item
        if isinstance(index, int):
            self._by_index[index] = item
        return item
