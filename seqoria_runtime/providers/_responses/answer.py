"""Adds up the events of a Responses answer, or the single object of one that was not streamed.

Knows the format and the ways in which servers bend it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Unpack

from seqoria_runtime.models import LLMUsage, ToolCallStarted
from seqoria_runtime.models.errors import ProviderProtocolError
from seqoria_runtime.providers._answers.answer import AnswerOptions, ModelAnswer, call_block
from seqoria_runtime.providers._answers.answer_text import NOTHING
from seqoria_runtime.providers._answers.call_parts import CallParts
from seqoria_runtime.providers._answers.failures import failure_of_event
from seqoria_runtime.providers._answers.json_values import (
    MalformedAnswerError,
    dig,
    expect_text,
    expect_type,
    str_or_empty,
    token_usage,
)
from seqoria_runtime.providers._protocol import ProviderEvent

from .items import OF_A_CALL, OutputItem, OutputItems

WIRE_FORMAT = "openai_responses"

_Event = dict[str, Any]
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_STARTS = frozenset({"response.created", "response.in_progress", "response.queued"})
_TEXTS = {"response.output_text.delta": False, "response.refusal.delta": True}
_REASONING = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_ITEMS = {"response.output_item.added": False, "response.output_item.done": True}


class ResponsesAnswer(ModelAnswer):
    """One Responses answer."""

    kinds = frozenset((
        "",
        "message",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
    )).union(_STARTS, _ENDS, _TEXTS, _REASONING, _ITEMS)
    wire_format: ClassVar[str] = WIRE_FORMAT

    def __init__(self, **options: Unpack[AnswerOptions]) -> None:
        super().__init__(**options)
        self._items = OutputItems()
        self._status = ""
        self._refused = False
        self._readers: Mapping[str, Callable[[_Event], Sequence[ProviderEvent]]] = {
            "error": self._take_error,
            "response.function_call_arguments.delta": self._take_arguments,
            "response.function_call_arguments.done": self._take_all_arguments,
            **dict.fromkeys(_STARTS, self._take_start),
            **dict.fromkeys(_ENDS, self._take_end),
            **{kind: partial(self._take_text, refusal=refusal) for kind, refusal in _TEXTS.items()},
            **dict.fromkeys(_REASONING, self._take_reasoning),
            **{kind: partial(self._take_item, last=last) for kind, last in _ITEMS.items()},
        }

    def take(self, kind: str, event: _Event) -> Sequence[ProviderEvent]:
        # Some servers send errors in another format, without an event type.
        known = str_or_empty(event.get("type")) or kind or ("error" if event.get("error") else "")
        reader = self._readers.get(known)
        return NOTHING if reader is None else reader(event)

    def take_whole(self, body: _Event) -> Sequence[ProviderEvent]:
        if not isinstance(body.get("output"), list):
            if body.get("error"):
                self._take_error(body)
            raise MalformedAnswerError("no output")
        return self._take_response(body)

    def _take_error(self, event: _Event) -> Sequence[ProviderEvent]:
        raise failure_of_event(event, model=self._asked_model)

    def _take_start(self, event: _Event) -> Sequence[ProviderEvent]:
        self._started = True
        return NOTHING

    def _take_end(self, event: _Event) -> Sequence[ProviderEvent]:
        response = expect_type(event.get("response") or {}, dict, "response")
        status = str_or_empty(response.get("status")) or str_or_empty(event.get("type")).removeprefix(
            "response."
        )
        return self._take_response({**response, "status": status})

    def _take_response(self, response: _Event) -> Sequence[ProviderEvent]:
        self._started = True
        self._status = str_or_empty(response.get("status")) or "completed"
        if self._status == "failed" or response.get("error"):
            self._take_error({"error": response.get("error") or "the provider failed without a message"})
        self._reason = str_or_empty(dig(response, "incomplete_details", "reason"))
        self._model = str_or_empty(response.get("model")) or None
        self._counts = expect_type(response.get("usage") or {}, dict, "usage")
        if self._status not in {"completed", "incomplete"}:
            raise ProviderProtocolError(f"the answer did not complete (status {self._status!r})")
        self.complete = True
        output = expect_type(response.get("output") or [], list, "output")
        final = [expect_type(item, dict, "output item") for item in output]
        events: list[ProviderEvent] = []
        for item, fields in zip(self._items.matching(final), final, strict=True):
            events += self._settle(item, fields, None)
        return events

    def _take_item(self, event: _Event, *, last: bool) -> Sequence[ProviderEvent]:
        fields = expect_type(event.get("item"), dict, "output item")
        item = self._items.find(fields.get("id"), event.get("output_index"), str_or_empty(fields.get("type")))
        if not last:
            return self._open(fields, event.get("output_index")) if item is None else NOTHING
        return self._settle(item, fields, event.get("output_index"))

    def _open(self, fields: _Event, index: Any) -> Sequence[ProviderEvent]:
        item = self._items.open(fields, index)
        self._started = True
        if item.call is None:
            return NOTHING
        return (ToolCallStarted(self._real_name(item.call.name) or None),)

    def _settle(self, item: OutputItem | None, fields: _Event, index: Any) -> Sequence[ProviderEvent]:
        events: Sequence[ProviderEvent] = NOTHING
        if item is None:
            events = self._open(fields, index)
            item = self._items.last or OutputItem(fields)
        again = item.settled
        item.settle(fields)
        if again:
            return NOTHING
        if item.kind == "message":
            self._refused = self._refused or item.refuses
            return [*events, *self.text.add(item.rest(item.text()))]
        if item.kind == "reasoning" and not item.streamed:
            return [*events, *self.text.add("", item.reasoning(), item)]
        return events

    def _item_of(self, event: _Event, kind: str) -> tuple[OutputItem, Sequence[ProviderEvent]]:
        item_id, index = event.get("item_id"), event.get("output_index")
        item = self._items.find(item_id, index, kind)
        if item is not None:
            return item, NOTHING
        fields = {"type": kind} | ({"id": item_id} if item_id else {})
        events = self._open(fields, index)
        return self._items.last or OutputItem(fields), events

    def _take_text(self, event: _Event, *, refusal: bool) -> Sequence[ProviderEvent]:
        self._refused = self._refused or refusal
        item, _ = self._item_of(event, "message")
        text = expect_text(event.get("delta"), "delta")
        item.streamed.append(text)
        return self.text.add(text)

    def _take_reasoning(self, event: _Event) -> Sequence[ProviderEvent]:
        item, _ = self._item_of(event, "reasoning")
        text = expect_text(event.get("delta"), "delta")
        item.streamed.append(text)
        return self.text.add("", text, (item, event.get("summary_index")))

    def _take_arguments(self, event: _Event) -> Sequence[ProviderEvent]:
        item, events = self._item_of(event, "function_call")
        if item.call is not None:
            item.call.arguments.append(expect_text(event.get("delta"), "delta"))
        return events

    def _take_all_arguments(self, event: _Event) -> Sequence[ProviderEvent]:
        item, events = self._item_of(event, "function_call")
        arguments = expect_text(event.get("arguments"), "arguments")
        if item.call is not None and arguments:
            item.call.arguments = [arguments]
        return events

    def _calls(self) -> Sequence[CallParts]:
        calls = self._items.calls()
        last = self._items.last
        if self._status == "incomplete" and last is not None and last.call is not None:
            last.call.cut = True
        return calls

    def _blocks(self) -> list[dict[str, Any]]:
        if all(item.is_plain_call for item in self._items):
            return []
        blocks, calls = [], 0
        for item in self._items:
            block = item.block()
            if item.call is not None:
                extras = {name: value for name, value in (block or {}).items() if name not in OF_A_CALL}
                blocks.append(call_block(calls, extras))
                calls += 1
            elif block is not None:
                blocks.append(block)
        return blocks

    def _usage(self) -> LLMUsage | None:
        counts = self._counts
        return token_usage(
            prompt=counts.get("input_tokens"),
            completion=counts.get("output_tokens"),
            total=counts.get("total_tokens"),
            cached=dig(counts, "input_tokens_details", "cached_tokens"),
            reasoning=dig(counts, "output_tokens_details", "reasoning_tokens"),
        )

    def _finish_reason(self) -> str | None:
        if self._refused:
            return "refusal"
        if self._status == "incomplete":
            return "length" if self._reason in {"", "max_output_tokens"} else self._reason
        return self._status

    def _limited(self) -> bool:
        return self._status == "incomplete" or any(call.cut for call in self._items.calls())
