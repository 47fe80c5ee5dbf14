"""Adds up the lines of an answer from Ollama's chat, or the single object of one that was not streamed.

Calls come complete, mostly without an id, and the last line says "stop" even if there were some.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Unpack

from seqoria_runtime.models import AssistantMessage, LLMUsage, ToolCallStarted
from seqoria_runtime.models._arguments import NULL
from seqoria_runtime.models.errors import ProviderProtocolError
from seqoria_runtime.providers._answers.answer import Answer, AnswerOptions, ModelAnswer
from seqoria_runtime.providers._answers.call_parts import CallParts, arguments_text
from seqoria_runtime.providers._answers.failures import failure_of_event
from seqoria_runtime.providers._answers.json_values import (
    MalformedAnswerError,
    expect_text,
    expect_type,
    str_or_empty,
    token_usage,
)
from seqoria_runtime.providers._protocol import ModelResponse, ProviderEvent

WIRE_FORMAT = "ollama_chat"


class OllamaAnswer(ModelAnswer):
    """One answer from Ollama's chat."""

    wire_format: ClassVar[str] = WIRE_FORMAT
    limits = frozenset({"length"})
    withheld = frozenset()

    def __init__(self, **options: Unpack[AnswerOptions]) -> None:
        super().__init__(**options)
        self._called: list[CallParts] = []

    def take(self, kind: str, event: dict[str, Any]) -> Sequence[ProviderEvent]:
        if event.get("error"):
            raise failure_of_event(event, model=self._asked_model)
        message = expect_type(event.get("message") or {}, dict, "message")
        events = [*self._take_thinking(message), *self._take_text(message), *self._take_calls(message)]
        self._started = self._started or "message" in event
        self._model = str_or_empty(event.get("model")) or self._model
        if event.get("done") is True:
            self.complete = True
            self._reason = str_or_empty(event.get("done_reason"))
            self._counts = event
        return events

    def take_whole(self, body: dict[str, Any]) -> Sequence[ProviderEvent]:
        if not isinstance(body.get("message"), dict) and not body.get("error"):
            raise MalformedAnswerError("no message")
        return self.take("", body)

    def _take_thinking(self, message: dict[str, Any]) -> Sequence[ProviderEvent]:
        named = (message.get(name) for name in ("thinking", "reasoning_content", "reasoning"))
        return self.text.add(thinking=expect_text(next(filter(None, named), None), "thinking"))

    def _take_text(self, message: dict[str, Any]) -> Sequence[ProviderEvent]:
        text = expect_text(message.get("content"), "content")
        if text and self._called:
            self._called[-1].cut = False
        return self.text.add(text)

    def _take_calls(self, message: dict[str, Any]) -> Sequence[ProviderEvent]:
        return [
            self._take_call(call) for call in expect_type(message.get("tool_calls") or [], list, "tool_calls")
        ]

    def _take_call(self, entry: Any) -> ProviderEvent:
        function = expect_type(expect_type(entry, dict, "tool call").get("function") or {}, dict, "function")
        call = CallParts(str_or_empty(entry.get("id")).strip(), str_or_empty(function.get("name")))
        arguments = function.get("arguments", "")
        # Ollama sends whole calls, so `null` is what the model wrote.
        call.arguments = [NULL if arguments is None else arguments_text(arguments)]
        for earlier in self._called:
            earlier.cut = False
        call.cut = True
        self._called.append(call)
        return ToolCallStarted(self._real_name(call.name) or None)

    def _calls(self) -> Sequence[CallParts]:
        return self._called

    def _blocks(self) -> list[dict[str, Any]]:
        thinking = self.text.thinking
        return [{"type": "thinking", "thinking": thinking}] if thinking else []

    def _usage(self) -> LLMUsage | None:
        return token_usage(
            prompt=self._counts.get("prompt_eval_count"), completion=self._counts.get("eval_count")
        )


class PullAnswer(Answer):
    """The progress of a pull; its text is the last status."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self._model = model
        self._status = ""

    def take(self, kind: str, event: dict[str, Any]) -> Sequence[ProviderEvent]:
        if event.get("error"):
            raise failure_of_event(event, model=self._model)
        self._status = str_or_empty(event.get("status"))
        self.complete = self._status == "success"
        return ()

    def take_whole(self, body: dict[str, Any]) -> Sequence[ProviderEvent]:
        return self.take("", body)

    def finish(self) -> ModelResponse:
        if not self.complete:
            raise ProviderProtocolError(f"the pull of {self._model!r} ended at {self._status!r}")
        return AssistantMessage(content=self._status)
