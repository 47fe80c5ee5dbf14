"""Adds up the chunks of a Chat Completions answer, or the one object of an answer in a piece.

Knows the format and the forms in which servers bend it; knows nothing of bytes or HTTP.
"""

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import TypeAdapter

from seqoria_runtime.models import AssistantMessage, ChatChunk, LLMUsage, ToolCallRequestList, ToolCallStarted
from seqoria_runtime.models.errors import (
    ContentFilterError,
    OverloadedError,
    ProviderProtocolError,
    ServerError,
)
from seqoria_runtime.providers._answers.failures import failure_of_event
from seqoria_runtime.providers._answers.values import checked, count, member, string, token_usage
from seqoria_runtime.providers._answers.wire import MalformedAnswerError
from seqoria_runtime.providers._json import HalfJoiner
from seqoria_runtime.providers._protocol import ModelResponse, ProviderEvent
from seqoria_runtime.providers._requests.wire_names import WireNames

from .messages import WIRE_FORMAT
from .profiles import Profile
from .reasoning import ReasoningDetails, content_parts, reasoning_text
from .tool_calls import ToolCallAssembly

_CUT = frozenset({"length", "max_tokens", "model_length"})
_WITHHELD = frozenset({"content_filter", "safety", "prohibited_content", "blocklist"})
_CALLS = frozenset({"tool_calls", "function_call"})
_NOTHING: tuple[ProviderEvent, ...] = ()
# About a third less than calling the class, on the one path that runs for every delta.
_make_chunk: Callable[[dict[str, Any]], ChatChunk] = TypeAdapter(ChatChunk).validator.validate_python


class ChatAnswer:
    """One answer; an `Answer` as the decoders want it."""

    kinds = frozenset({"", "message"})
    text_key = "content"

    def __init__(self, *, model: str, names: WireNames, profile: Profile, new_id: Callable[[], str]) -> None:
        self.complete = False
        self.plain_text = ""
        self._asked_model = model
        self._names = names
        self._new_id = new_id
        self._begun = False
        self._choice: object = None
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls = ToolCallAssembly(profile.call_extras)
        self._details = ReasoningDetails() if profile.reasoning_field == "reasoning_details" else None
        self._joiners: tuple[HalfJoiner, HalfJoiner] | None = None
        self._model: str | None = None
        self._usage: dict[str, Any] | None = None
        self._reason = ""
        self._refused = False

    def expect_halves(self) -> None:
        self._joiners = self._joiners or (HalfJoiner(), HalfJoiner())

    def end(self) -> None:
        self.complete = True

    def repeat(self, text: str) -> Sequence[ProviderEvent]:
        if self._joiners is not None:
            return self._text_event(text, "")
        self._text.append(text)
        return (_make_chunk({"content": text}),)

    def take(self, kind: str, event: dict[str, Any]) -> Sequence[ProviderEvent]:
        self.plain_text = ""
        if kind == "error" or event.get("error") or event.get("object") == "error":
            raise failure_of_event(event, model=self._asked_model)
        usage = event.get("usage")
        if usage:
            self._usage = checked(usage, dict, "usage")
        choices = event.get("choices")
        choice = self._chosen(choices) if choices else None
        if choice is None:
            return _NOTHING
        if self._model is None:
            self._model = string(event.get("model"), "model") or self._asked_model
        reason = choice.get("finish_reason")
        if reason:
            self._reason = str(reason).lower()
            self.complete = True
        delta = choice.get("delta")
        return self._take_delta(delta) if delta else _NOTHING

    def _chosen(self, choices: Any) -> dict[str, Any] | None:
        """Give the choice that is read, the first one seen; `None` where it has no part in this event."""
        if choices.__class__ is not list:
            raise MalformedAnswerError(f"choices is {type(choices).__name__}, not list")
        for choice in choices:
            if choice is None:
                continue
            index = checked(choice, dict, "choice").get("index")
            if not self._begun:
                self._begun, self._choice = True, index
            if index == self._choice:
                return choice  # type: ignore[no-any-return]  # checked two lines above
        return None

    def take_whole(self, body: dict[str, Any]) -> Sequence[ProviderEvent]:
        choices = body.get("choices")
        if isinstance(choices, list):
            body = {**body, "choices": [_as_delta(choice) for choice in choices]}
        events = self.take("", body)
        if not self._begun:
            raise MalformedAnswerError("no choices")
        self.complete = True
        return events

    def _take_delta(self, delta: Any) -> Sequence[ProviderEvent]:
        content = checked(delta, dict, "delta").get("content")
        # Most deltas hold text and nothing else, or repeat the role beside it.
        if content.__class__ is str and len(delta) == 1 + ("role" in delta):
            if not self.complete and self._joiners is None:
                self.plain_text = content
            return self._text_event(content, "")
        thinking = reasoning_text(delta)
        if isinstance(content, list):
            content, more = content_parts(content)
            thinking += more
        if self._details is not None:
            self._details.add(delta.get("reasoning_details"))
        refusal = delta.get("refusal")
        if refusal:
            self._refused = True
        text = string(content, "content") + string(refusal, "refusal")
        return [*self._text_event(text, thinking), *self._call_events(delta)]

    def _text_event(self, text: str, thinking: str) -> Sequence[ProviderEvent]:
        if self._joiners is not None:
            text, thinking = self._joiners[0].join(text), self._joiners[1].join(thinking)
        if thinking:
            self._thinking.append(thinking)
            self._text.append(text)
            return (_make_chunk({"content": text, "thinking": thinking}),)
        if not text:
            return _NOTHING
        self._text.append(text)
        return (_make_chunk({"content": text}),)

    def _call_events(self, delta: dict[str, Any]) -> list[ProviderEvent]:
        entries = checked(delta.get("tool_calls") or [], list, "tool_calls")
        legacy = delta.get("function_call")
        if legacy:
            entries = [*entries, {"index": 0, "function": legacy}]
        started: list[ProviderEvent] = []
        for entry in entries:
            name = self._calls.add(checked(entry, dict, "tool call"))
            if name is not None:
                started.append(ToolCallStarted(self._names.real(name) or None))
        return started

    def finish(self) -> ModelResponse:
        if not self.complete:
            raise ProviderProtocolError("the answer ended without a completion event")
        if not self._begun:
            raise ProviderProtocolError("the answer ended without a response")
        self._refuse_failed_ends()
        response_id = self._new_id()
        usage = _usage(self._usage)
        message = self._message(response_id, usage)
        if not self._calls:
            return message
        requests = self._calls.requests(
            response_id, new_id=self._new_id, cut=self._reason in _CUT, real_name=self._names.real
        )
        beside = message.content.strip() or message.thinking or message.blocks
        return ToolCallRequestList(tool_calls=requests, usage=usage, message=message if beside else None)

    def _refuse_failed_ends(self) -> None:
        if self._reason in _WITHHELD:
            error = ContentFilterError("the provider's content filter withheld the answer")
            error.filter_reason = self._reason
            raise error
        if self._reason == "error":
            raise ServerError("the provider failed while it was answering")
        if self._reason == "insufficient_system_resource":
            raise OverloadedError("the provider ran out of resources while it was answering")
        if self._reason == "abort":
            raise ProviderProtocolError("the provider broke the answer off")
        if self._reason in _CALLS and not self._calls and not any(self._text):
            raise ProviderProtocolError("the answer ended before tool calls completed")

    def _message(self, response_id: str, usage: LLMUsage | None) -> AssistantMessage:
        blocks = self._details.blocks() if self._details is not None else []
        extras = enumerate(self._calls.extras())
        blocks += [{"type": "tool_call", "index": place, **extra} for place, extra in extras if extra]
        return AssistantMessage(
            content="".join(self._text),
            thinking="".join(self._thinking) or None,
            model=self._model,
            usage=usage,
            finish_reason=self._finish_reason(),
            response_id=response_id,
            wire_format=WIRE_FORMAT if blocks else None,
            blocks=blocks or None,
        )

    def _finish_reason(self) -> str | None:
        if self._refused:
            return "refusal"
        return "length" if self._reason in _CUT else self._reason or None


def _as_delta(choice: Any) -> Any:
    """Give a whole choice the form of a delta; in a whole answer each call is an entry of its own."""
    if not isinstance(choice, dict):
        return choice
    message = checked(choice.get("message"), dict, "message")
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        labelled = [
            {**call, "index": place} if isinstance(call, dict) else call for place, call in enumerate(calls)
        ]
        message = {**message, "tool_calls": labelled}
    return {**choice, "delta": message}


def _usage(usage: dict[str, Any] | None) -> LLMUsage | None:
    if usage is None:
        return None
    cached = count(member(usage, "prompt_tokens_details", "cached_tokens"))
    return token_usage(
        prompt=usage.get("prompt_tokens"),
        completion=usage.get("completion_tokens"),
        total=usage.get("total_tokens"),
        cached=usage.get("prompt_cache_hit_tokens") if cached is None else cached,
        reasoning=member(usage, "completion_tokens_details", "reasoning_tokens"),
    )
