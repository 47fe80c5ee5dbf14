"""Adds up the chunks of a Chat Completions answer, or the single object of one that was not streamed.

Knows the format and the ways in which servers bend it.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Unpack

from seqoria_runtime.models import LLMUsage, ToolCallStarted
from seqoria_runtime.models.errors import OverloadedError, ProviderProtocolError, ServerError
from seqoria_runtime.providers._answers.answer import AnswerOptions, ModelAnswer, call_block
from seqoria_runtime.providers._answers.answer_text import NOTHING
from seqoria_runtime.providers._answers.call_parts import CallParts
from seqoria_runtime.providers._answers.failures import failure_of_event
from seqoria_runtime.providers._answers.json_values import (
    MalformedAnswerError,
    dig,
    expect_text,
    expect_type,
    token_count,
    token_usage,
)
from seqoria_runtime.providers._protocol import ProviderEvent

from .profiles import Profile
from .reasoning import ReasoningDetails, reasoning_text, split_content
from .tool_calls import ToolCallAssembly

WIRE_FORMAT = "chat_completions"


class ChatAnswer(ModelAnswer):
    """One Chat Completions answer."""

    text_key = "content"
    wire_format: ClassVar[str] = WIRE_FORMAT
    limits = frozenset({"length", "max_tokens", "model_length"})
    withheld = frozenset({"content_filter", "safety", "prohibited_content", "blocklist"})
    call_reasons = frozenset({"tool_calls", "function_call"})

    def __init__(self, *, profile: Profile, **options: Unpack[AnswerOptions]) -> None:
        super().__init__(**options)
        self._choice: object = None
        self._assembly = ToolCallAssembly(profile.call_extras)
        self._details = ReasoningDetails() if profile.reasoning_field == "reasoning_details" else None
        self._refused = False

    def take_done_mark(self) -> None:
        self.complete = True

    def take(self, kind: str, event: dict[str, Any]) -> Sequence[ProviderEvent]:
        self.plain_text = ""
        if kind == "error" or event.get("error") or event.get("object") == "error":
            raise failure_of_event(event, model=self._asked_model)
        usage = event.get("usage")
        if usage:
            self._counts = expect_type(usage, dict, "usage")
        choices = event.get("choices")
        choice = self._chosen(choices) if choices else None
        if choice is None:
            return NOTHING
        if self._model is None:
            self._model = expect_text(event.get("model"), "model") or self._asked_model
        reason = choice.get("finish_reason")
        if reason:
            self._reason = str(reason).lower()
            self.complete = True
        delta = choice.get("delta")
        return self._take_delta(delta) if delta else NOTHING

    def _chosen(self, choices: Any) -> dict[str, Any] | None:
        """Return this event's part of the first choice seen, the only one that is read."""
        if choices.__class__ is not list:
            raise MalformedAnswerError(f"choices is {type(choices).__name__}, not list")
        for choice in choices:
            if choice is None:
                continue
            index = expect_type(choice, dict, "choice").get("index")
            if not self._started:
                self._started, self._choice = True, index
            if index == self._choice:
                return choice  # type: ignore[no-any-return]  # checked above
        return None

    def take_whole(self, body: dict[str, Any]) -> Sequence[ProviderEvent]:
        choices = body.get("choices")
        if isinstance(choices, list):
            body = {**body, "choices": [_as_delta(choice) for choice in choices]}
        events = self.take("", body)
        if not self._started:
            raise MalformedAnswerError("no choices")
        self.complete = True
        return events

    def _take_delta(self, delta: Any) -> Sequence[ProviderEvent]:
        content = expect_type(delta, dict, "delta").get("content")
        # Most deltas hold only text, or text and the role once more.
        if content.__class__ is str and len(delta) == 1 + ("role" in delta):
            if not self.complete and not self.text.has_surrogates:
                self.plain_text = content
            return self.text.add(content)
        thinking = reasoning_text(delta)
        if isinstance(content, list):
            content, more = split_content(content)
            thinking += more
        if self._details is not None:
            self._details.add(delta.get("reasoning_details"))
        refusal = delta.get("refusal")
        if refusal:
            self._refused = True
        text = expect_text(content, "content") + expect_text(refusal, "refusal")
        return [*self.text.add(text, thinking), *self._call_events(delta)]

    def _call_events(self, delta: dict[str, Any]) -> list[ProviderEvent]:
        entries = expect_type(delta.get("tool_calls") or [], list, "tool_calls")
        legacy = delta.get("function_call")
        if legacy:
            entries = [*entries, {"index": 0, "function": legacy}]
        started: list[ProviderEvent] = []
        for entry in entries:
            name = self._assembly.add(expect_type(entry, dict, "tool call"))
            if name is not None:
                started.append(ToolCallStarted(self._real_name(name) or None))
        return started

    def _raise_if_failed(self) -> None:
        match self._reason:
            case "error":
                raise ServerError("the provider failed while it was answering")
            case "insufficient_system_resource":
                raise OverloadedError("the provider ran out of resources while it was answering")
            case "abort":
                raise ProviderProtocolError("the provider broke the answer off")
        super()._raise_if_failed()

    def _calls(self) -> Sequence[CallParts]:
        return self._assembly.calls()

    def _blocks(self) -> list[dict[str, Any]]:
        blocks = self._details.blocks() if self._details is not None else []
        extras = enumerate(self._assembly.extras())
        return blocks + [call_block(index, extra) for index, extra in extras if extra]

    def _usage(self) -> LLMUsage | None:
        counts = self._counts
        cached = token_count(dig(counts, "prompt_tokens_details", "cached_tokens"))
        return token_usage(
            prompt=counts.get("prompt_tokens"),
            completion=counts.get("completion_tokens"),
            total=counts.get("total_tokens"),
            cached=counts.get("prompt_cache_hit_tokens") if cached is None else cached,
            reasoning=dig(counts, "completion_tokens_details", "reasoning_tokens"),
        )

    def _finish_reason(self) -> str | None:
        return "refusal" if self._refused else super()._finish_reason()


def _as_delta(choice: Any) -> Any:
    """Turn a choice that was not streamed into a delta; each of its calls gets its position as label."""
    if not isinstance(choice, dict):
        return choice
    message = expect_type(choice.get("message"), dict, "message")
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        labelled = [
            {**call, "index": index} if isinstance(call, dict) else call for index, call in enumerate(calls)
        ]
        message = {**message, "tool_calls": labelled}
    return {**choice, "delta": message}
