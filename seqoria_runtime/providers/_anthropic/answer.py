"""Adds up the events of a Messages answer, or the single object of one that was not streamed.

Knows the format and the ways in which servers bend it. A block's index is only a label: blocks
stand in the order in which they were first seen.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Unpack

from seqoria_runtime.models import LLMUsage, ToolCallStarted
from seqoria_runtime.models._arguments import read_arguments
from seqoria_runtime.providers._answers.answer import AnswerOptions, ModelAnswer, call_block
from seqoria_runtime.providers._answers.answer_text import NOTHING
from seqoria_runtime.providers._answers.call_parts import CallParts, arguments_text
from seqoria_runtime.providers._answers.failures import failure_of_event
from seqoria_runtime.providers._answers.json_values import (
    MalformedAnswerError,
    dig,
    expect_text,
    expect_type,
    str_or_empty,
    token_count,
    token_usage,
)
from seqoria_runtime.providers._json import join_surrogates
from seqoria_runtime.providers._protocol import ProviderEvent

WIRE_FORMAT = "anthropic_messages"

_TEXTS = frozenset({"text", "thinking"})
_OF_A_CALL = frozenset({"id", "input", "name", "type"})
_OF_PLAIN_TEXT = frozenset({"type", "text"})


class _Block:
    """A content block: the fields that it started with, and the fragments that followed."""

    __slots__ = ("call", "closed", "fields", "fragments", "kind")

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = {name: value for name, value in fields.items() if value is not None}
        self.kind = str_or_empty(fields.get("type"))
        self.fragments: list[str] = []
        self.closed = False
        self.call: CallParts | None = None
        if self.kind == "tool_use":
            self.call = CallParts(str_or_empty(fields.get("id")).strip(), str_or_empty(fields.get("name")))

    def is_opened_again_by(self, other: "_Block") -> bool:
        """Whether another start only repeats the call that is being written here."""
        if self.closed or self.call is None or other.call is None:
            return False
        return bool(self.call.id) and self.call.id == other.call.id

    def finished(self) -> dict[str, Any]:
        """Return the block as a server sends it without streaming."""
        joined = "".join(self.fragments)
        if self.kind in _TEXTS:
            return self.fields | {self.kind: joined}
        # Tools that run at the server stream their input as well.
        if joined.strip():
            return self.fields | {"input": read_arguments(join_surrogates(joined)).values}
        return self.fields

    def finished_call(self) -> CallParts | None:
        """Return the block's call, whose arguments came in fragments or with the start."""
        if self.call is not None:
            joined = "".join(self.fragments)
            self.call.arguments = [joined if joined.strip() else arguments_text(self.fields.get("input"))]
        return self.call


class MessagesAnswer(ModelAnswer):
    """One Messages answer."""

    kinds = frozenset({
        "", "content_block_delta", "content_block_start", "content_block_stop", "message", "message_delta",
        "message_start", "message_stop",
    })  # fmt: skip
    wire_format: ClassVar[str] = WIRE_FORMAT
    limits = frozenset({"max_tokens", "model_context_window_exceeded"})
    call_reasons = frozenset({"tool_use"})

    def __init__(self, **options: Unpack[AnswerOptions]) -> None:
        super().__init__(**options)
        self._blocks_in_order: list[_Block] = []
        self._by_label: dict[object, _Block] = {}
        self._readers: Mapping[str, Callable[[dict[str, Any]], Sequence[ProviderEvent]]] = {
            "message_start": self._take_start,
            "content_block_start": self._take_block,
            "content_block_delta": self._take_delta,
            "content_block_stop": self._take_block_end,
            "message_delta": self._take_end,
            "message_stop": self._take_stop,
            "error": self._take_error,
        }

    def take(self, kind: str, event: dict[str, Any]) -> Sequence[ProviderEvent]:
        # Some servers send errors in another format, without an event type.
        known = str_or_empty(event.get("type")) or kind or ("error" if event.get("error") else "")
        reader = self._readers.get(known)
        return NOTHING if reader is None else reader(event)

    def take_whole(self, body: dict[str, Any]) -> Sequence[ProviderEvent]:
        if body.get("type") == "error" or body.get("error"):
            self._take_error(body)
        content = body.get("content")
        if not isinstance(content, list):
            raise MalformedAnswerError("no content")
        self._take_message(body)
        events: list[ProviderEvent] = []
        for index, block in enumerate(content):
            events += self._open(index, expect_type(block, dict, "content block"))
        self._reason = str_or_empty(body.get("stop_reason"))
        self.complete = True
        return events

    def _take_error(self, event: dict[str, Any]) -> Sequence[ProviderEvent]:
        raise failure_of_event(event, model=self._asked_model)

    def _take_start(self, event: dict[str, Any]) -> Sequence[ProviderEvent]:
        self._take_message(expect_type(event.get("message") or {}, dict, "message"))
        return NOTHING

    def _take_message(self, message: dict[str, Any]) -> None:
        self._started = True
        self._model = str_or_empty(message.get("model")) or None
        self._count(message)

    def _count(self, event: dict[str, Any]) -> None:
        usage = expect_type(event.get("usage") or {}, dict, "usage")
        self._counts = {
            **self._counts,
            **{name: value for name, value in usage.items() if value is not None},
        }

    def _take_block(self, event: dict[str, Any]) -> Sequence[ProviderEvent]:
        return self._open(event.get("index"), expect_type(event.get("content_block"), dict, "content block"))

    def _take_block_end(self, event: dict[str, Any]) -> Sequence[ProviderEvent]:
        block = self._find(event.get("index"))
        if block is not None:
            block.closed = True
        return NOTHING

    def _open(self, label: object, fields: dict[str, Any]) -> Sequence[ProviderEvent]:
        block = _Block(fields)
        self._started = True
        last = self._find(label)
        if last is not None and last.is_opened_again_by(block):
            return NOTHING
        self._blocks_in_order.append(block)
        if isinstance(label, (int, str)):
            self._by_label[label] = block
        if block.call is not None:
            return (ToolCallStarted(self._real_name(block.call.name) or None),)
        if block.kind in _TEXTS:
            return self._add(block, expect_text(fields.get(block.kind), block.kind))
        return NOTHING

    def _take_delta(self, event: dict[str, Any]) -> Sequence[ProviderEvent]:
        delta = expect_type(event.get("delta"), dict, "delta")
        label = event.get("index")
        match delta.get("type"):
            case "text_delta":
                return self._take_text(label, "text", delta)
            case "thinking_delta":
                return self._take_text(label, "thinking", delta)
            case "input_json_delta":
                return self._take_input(label, expect_text(delta.get("partial_json"), "partial_json"))
            case "signature_delta":
                self._mark(label, "signature", expect_text(delta.get("signature"), "signature"))
            case "citations_delta":
                self._cite(label, delta.get("citation"))
        return NOTHING

    def _find(self, label: object) -> _Block | None:
        last = self._blocks_in_order[-1] if self._blocks_in_order else None
        return self._by_label.get(label) if isinstance(label, (int, str)) else last

    def _take_text(self, label: object, kind: str, delta: dict[str, Any]) -> Sequence[ProviderEvent]:
        block = self._find(label)
        if block is None or block.kind != kind:
            self._open(label, {"type": kind})
            block = self._blocks_in_order[-1]
        return self._add(block, expect_text(delta.get(kind), kind))

    def _add(self, block: _Block, text: str) -> Sequence[ProviderEvent]:
        block.fragments.append(text)
        return self.text.add(text) if block.kind == "text" else self.text.add("", text, block)

    def _take_input(self, label: object, fragment: str) -> Sequence[ProviderEvent]:
        block = self._find(label)
        events = NOTHING if block is not None else self._open(label, {"type": "tool_use"})
        (block or self._blocks_in_order[-1]).fragments.append(fragment)
        return events

    def _mark(self, label: object, name: str, value: str) -> None:
        block = self._find(label)
        if block is not None and value:
            block.fields[name] = value

    def _cite(self, label: object, citation: Any) -> None:
        block = self._find(label)
        if block is not None:
            block.fields["citations"] = [*(block.fields.get("citations") or []), citation]

    def _take_end(self, event: dict[str, Any]) -> Sequence[ProviderEvent]:
        self._started = True
        self._count(event)
        self._reason = str_or_empty(dig(event, "delta", "stop_reason")) or self._reason
        return NOTHING

    def _take_stop(self, event: dict[str, Any]) -> Sequence[ProviderEvent]:
        self.complete = True
        return NOTHING

    def _calls(self) -> Sequence[CallParts]:
        calls = [call for block in self._blocks_in_order if (call := block.finished_call()) is not None]
        if calls and self._blocks_in_order[-1].call is calls[-1]:
            calls[-1].cut = True
        return calls

    def _blocks(self) -> list[dict[str, Any]]:
        if _are_plain(self._blocks_in_order):
            return []
        blocks, calls = [], 0
        for block in self._blocks_in_order:
            if block.call is None:
                blocks.append(block.finished())
                continue
            extras = {name: value for name, value in block.fields.items() if name not in _OF_A_CALL}
            blocks.append(call_block(calls, extras))
            calls += 1
        return blocks

    def _usage(self) -> LLMUsage | None:
        counts = self._counts
        cached = counts.get("cache_read_input_tokens")
        sent = (counts.get("input_tokens"), cached, counts.get("cache_creation_input_tokens"))
        known = [number for part in sent if (number := token_count(part)) is not None]
        return token_usage(
            prompt=sum(known) if known else None,
            completion=counts.get("output_tokens"),
            cached=cached,
            reasoning=dig(counts, "output_tokens_details", "thinking_tokens"),
        )

    def _limited(self) -> bool:
        return super()._limited() or self._reason == "refusal"


def _are_plain(blocks: Sequence[_Block]) -> bool:
    """Whether the blocks are at most one plain text and then plain calls."""
    starts_plain = bool(blocks) and blocks[0].kind == "text" and blocks[0].fields.keys() <= _OF_PLAIN_TEXT
    rest = blocks[1:] if starts_plain else blocks
    return all(block.call is not None and block.fields.keys() <= _OF_A_CALL for block in rest)
