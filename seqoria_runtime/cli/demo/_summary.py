"""Says what is left when the turn is over: the history, and what the model was told of a hidden parameter."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from rich.console import RenderableType

from seqoria_runtime.cli._text import Labelled, one_line
from seqoria_runtime.models import (
    AssistantMessage,
    ChatMessage,
    ToolCallError,
    ToolCallRequest,
    ToolCallResult,
    UserMessage,
)
from seqoria_runtime.providers import ModelRequest

from ._board import Call


def hidden_parameter(request: ModelRequest, call: Call) -> Iterator[RenderableType]:
    """What the model was told of the call's tool, and with what it was called."""
    [told] = [tool for tool in request.tools if tool.name == call.name]
    parameters = ", ".join(told.parameters["properties"])
    given = ", ".join(f"{name}={value!r}" for name, value in (call.arguments or {}).items())
    yield Labelled("model sees", f"{call.name}({parameters})")
    yield Labelled("tool gets", f"{call.name}({given})")


def history_summary(history: Sequence[ChatMessage]) -> Iterator[RenderableType]:
    """The history in a few lines: what is in it, in order, and that each call has its answer."""
    answered = sum(
        isinstance(call, ToolCallRequest)
        and isinstance(outcome, ToolCallResult | ToolCallError)
        and outcome.tool_call_id == call.id
        for call, outcome in pairwise(history)
    )
    asked = sum(isinstance(message, ToolCallRequest) for message in history)
    for message in history:
        if isinstance(message, UserMessage | AssistantMessage):
            yield Labelled(message.role, one_line(str(message.content)))
        if isinstance(message, AssistantMessage) and message is not history[-1]:
            yield Labelled("calls", f"{asked} calls with {answered} answers: {_answers(history)}")
    size = len(json.dumps([message.model_dump(mode="json") for message in history]))
    yield Labelled("", f"{len(history)} messages, {size} characters as JSON")


def usage(message: AssistantMessage) -> RenderableType:
    used = message.usage
    if used is None:
        return Labelled("usage", "not told")
    return Labelled("usage", f"{used.prompt_tokens} + {used.completion_tokens} tokens in both rounds")


def _answers(history: Sequence[ChatMessage]) -> str:
    counts = Counter(
        message.kind if isinstance(message, ToolCallError) else "done"
        for message in history
        if isinstance(message, ToolCallResult | ToolCallError)
    )
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())
