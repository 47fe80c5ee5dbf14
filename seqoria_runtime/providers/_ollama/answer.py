"""Adds up the lines of an answer of Ollama's chat, or the one object of an answer in a piece.

Knows the format and the forms in which servers bend it; knows nothing of bytes or HTTP. Calls come
whole, mostly without an id, and the last line says "stop" also where there were some.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from seqoria_runtime.models import LLMUsage, ToolCallStarted
from seqoria_runtime.providers._answers.call_parts import CallParts, arguments_text
from seqoria_runtime.providers._answers.failures import failure_of_event
from seqoria_runtime.providers._answers.stream_answer import StreamAnswer
from seqoria_runtime.providers._answers.values import checked, string, token_usage, word
from seqoria_runtime.providers._answers.wire import MalformedAnswerError
from seqoria_runtime.providers._protocol import ProviderEvent

WIRE_FORMAT = "ollama_chat"


class OllamaAnswer(StreamAnswer):
    """One answer of Ollama's chat; an `Answer` as the decoders want it."""

    wire_format: ClassVar[str] = WIRE_FORMAT

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._called: list[CallParts] = []
        self._counts: dict[str, Any] = {}
        self._reason = ""

    def take(self, kind: str, event: dict[str, Any]) -> Sequence[ProviderEvent]:
        if event.get("error"):
            raise failure_of_event(event, model=self._asked_model)
        message = checked(event.get("message") or {}, dict, "message")
        events = [*self._take_thinking(message), *self._take_text(message), *self._take_calls(message)]
        self._begun = self._begun or "message" in event
        self._model = word(event.get("model")) or self._model
        if event.get("done") is True:
            self.complete = True
            self._reason = word(event.get("done_reason"))
            self._counts = event
        return events

    def take_whole(self, body: dict[str, Any]) -> Sequence[ProviderEvent]:
        if not isinstance(body.get("message"), dict) and not body.get("error"):
            raise MalformedAnswerError("no message")
        return self.take("", body)

    def _take_thinking(self, message: dict[str, Any]) -> Sequence[ProviderEvent]:
        named = (message.get(name) for name in ("thinking", "reasoning_content", "reasoning"))
        return self._said.add_thinking(string(next(filter(None, named), None), "thinking"), None)

    def _take_text(self, message: dict[str, Any]) -> Sequence[ProviderEvent]:
        text = string(message.get("content"), "content")
        if text and self._called:
            self._called[-1].cut = False
        return self._said.add(text)

    def _take_calls(self, message: dict[str, Any]) -> Sequence[ProviderEvent]:
        return [
            self._take_call(call) for call in checked(message.get("tool_calls") or [], list, "tool_calls")
        ]

    def _take_call(self, entry: Any) -> ProviderEvent:
        function = checked(checked(entry, dict, "tool call").get("function") or {}, dict, "function")
        call = CallParts(word(entry.get("id")).strip(), word(function.get("name")))
        call.arguments = [arguments_text(function.get("arguments"))]
        for earlier in self._called:
            earlier.cut = False
        call.cut = True
        self._called.append(call)
        return ToolCallStarted(self._names.real(call.name) or None)

    def _refuse_failed_ends(self) -> None:
        """No end says that the answer failed; what fails is told by an error in a line."""

    def _calls(self) -> Sequence[CallParts]:
        return self._called

    def _blocks(self) -> list[dict[str, Any]]:
        thinking = self._said.thinking
        return [{"type": "thinking", "thinking": thinking}] if thinking else []

    def _usage(self) -> LLMUsage | None:
        return token_usage(
            prompt=self._counts.get("prompt_eval_count"), completion=self._counts.get("eval_count")
        )

    def _finish_reason(self) -> str | None:
        return self._reason or None

    def _limited(self) -> bool:
        return self._reason == "length"
