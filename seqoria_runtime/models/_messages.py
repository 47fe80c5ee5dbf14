"""The messages of a conversation, as pydantic models that store and load as plain dictionaries.

Knows nothing of any provider's wire format: what a provider must get back unchanged is carried
as opaque blocks.
"""

from collections.abc import Iterable
from typing import Any, Literal, SupportsIndex, TypeAlias, TypeVar, overload

from pydantic import BaseModel, ConfigDict, Field

from ._parsing import parse_answer

_T = TypeVar("_T")

ToolErrorKind: TypeAlias = Literal[
    "unknown_tool",
    "invalid_arguments",
    "missing_parameter",
    "failed",
    "timed_out",
    "skipped",
    "cyclic_dependency",
    "cancelled",
    "circuit_open",
    "unavailable",
]

UNNAMED_TOOL = "unnamed_tool"
"""Stands for a tool name that the model left empty, so that the request can be stored and replayed."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore")


class LLMUsage(_Model):
    """Tokens of one model response, or of all responses of a turn.

    `cached_tokens` are part of the prompt tokens, `reasoning_tokens` part of the completion
    tokens; both are `None` where the provider does not say.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None

    def __add__(self, other: "LLMUsage") -> "LLMUsage":
        return LLMUsage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            total_tokens=self.total_tokens + other.total_tokens,
            cached_tokens=_add_known(self.cached_tokens, other.cached_tokens),
            reasoning_tokens=_add_known(self.reasoning_tokens, other.reasoning_tokens),
        )


def _add_known(left: int | None, right: int | None) -> int | None:
    if left is None:
        return right
    return left if right is None else left + right


class SystemMessage(_Model):
    """Instructions to the model; the first message of a history, if any."""

    role: Literal["system"] = "system"
    content: str = ""


class UserMessage(_Model):
    """What the user said: text, or content blocks in the shapes that the docs of the providers list."""

    role: Literal["user"] = "user"
    content: str | list[dict[str, Any]] | None = None


class AssistantMessage(_Model):
    """What the model said in one response, its tool calls apart.

    `thinking` is its reasoning, never mixed into `content`. `blocks` are the response's parts as
    the provider sent them, opaque and in order, for a provider whose wire format is
    `wire_format`; a block `{"type": "tool_call", "index": n}` is the place of the response's
    n-th call. `response_id` ties the message to the calls that came in the same response.
    `interrupted` marks the text of a response that was not received to its end.
    """

    role: Literal["assistant"] = "assistant"
    content: str = ""
    thinking: str | None = None
    model: str | None = None
    usage: LLMUsage | None = None
    finish_reason: str | None = None
    response_id: str | None = None
    wire_format: str | None = None
    blocks: list[dict[str, Any]] | None = None
    interrupted: bool = False

    def parsed(self, kind: type[_T]) -> _T:
        """Read the text as JSON of a kind: a pydantic model, or anything else that pydantic validates.

        Raises `StructuredOutputError`, which says what the model sent and what is wrong with it.
        """
        return parse_answer(
            self.content, kind, finish_reason="interrupted" if self.interrupted else self.finish_reason
        )


class ChatChunk(_Model):
    """A piece of text or reasoning, as it arrives."""

    role: Literal["assistant"] = "assistant"
    content: str = ""
    thinking: str | None = None
    model: str | None = None
    usage: LLMUsage | None = None


class ToolCallRequest(_Model):
    """A tool call that the model asked for.

    `invalid_arguments` holds the raw text, cut to a bounded length, where the model's arguments
    were not a JSON object; such a call settles as an error and never runs. `response_id` names
    the response that it came in.
    """

    role: Literal["tool_call"] = "tool_call"
    type: Literal["function_call"] = "function_call"
    id: str = Field(min_length=1)
    name: str = Field(min_length=1)
    arguments: dict[str, Any] = Field(default_factory=dict)
    invalid_arguments: str | None = None
    truncated: bool = False
    response_id: str | None = None


class ToolCallResult(_Model):
    """The text that a tool call gave."""

    role: Literal["tool_result"] = "tool_result"
    type: Literal["tool_use"] = "tool_use"
    tool_call_id: str = Field(min_length=1)
    name: str | None = None
    result: str
    response_id: str | None = None


class ToolCallError(_Model):
    """Why a tool call gave no result, in words that a model can act on; `kind` is for programs."""

    role: Literal["tool_error"] = "tool_error"
    type: Literal["tool_error"] = "tool_error"
    tool_call_id: str = Field(min_length=1)
    name: str | None = None
    error: str = Field(min_length=1)
    kind: ToolErrorKind = "failed"
    response_id: str | None = None


class ToolCallRequestList(_Model):
    """The batch that the model asked for in one response; `message` is what came beside the calls."""

    tool_calls: list[ToolCallRequest] = Field(default_factory=list)
    usage: LLMUsage | None = None
    message: AssistantMessage | None = None


ToolCallOutcome: TypeAlias = ToolCallResult | ToolCallError
ToolMessage: TypeAlias = ToolCallRequest | ToolCallResult | ToolCallError
ChatMessage: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage
ChatMessages: TypeAlias = ChatMessage

_TOOL_MESSAGE = (ToolCallRequest, ToolCallResult, ToolCallError)
_TOOL_MESSAGE_SET = frozenset(_TOOL_MESSAGE)


class ToolMessages(list[ToolMessage]):
    """One round's calls and outcomes: request, outcome, request, outcome, in the model's order.

    Accepts only requests, results and errors (`TypeError` otherwise); an update that holds
    anything else changes nothing.
    """

    def __init__(self, items: Iterable[ToolMessage] = ()) -> None:
        super().__init__(_checked(items))

    def append(self, item: ToolMessage) -> None:
        super().append(*_checked([item]))

    def extend(self, items: Iterable[ToolMessage]) -> None:
        super().extend(_checked(items))

    def insert(self, index: SupportsIndex, item: ToolMessage) -> None:
        super().insert(index, *_checked([item]))

    def __iadd__(self, items: Iterable[ToolMessage]) -> "ToolMessages":  # type: ignore[override,misc]
        self.extend(items)
        return self

    @overload
    def __setitem__(self, index: SupportsIndex, item: ToolMessage) -> None: ...
    @overload
    def __setitem__(self, index: slice, item: Iterable[ToolMessage]) -> None: ...
    def __setitem__(self, index: SupportsIndex | slice, item: Any) -> None:
        if isinstance(index, slice):
            super().__setitem__(index, _checked(item))
        else:
            super().__setitem__(index, _checked([item])[0])


def _checked(items: Iterable[ToolMessage]) -> list[ToolMessage]:
    whole = list(items)
    if _TOOL_MESSAGE_SET.issuperset(map(type, whole)):
        return whole
    for item in whole:
        if not isinstance(item, _TOOL_MESSAGE):
            raise TypeError(
                "ToolMessages holds ToolCallRequest, ToolCallResult and ToolCallError objects, "
                f"not {type(item).__name__}"
            )
    return whole
