"""The messages of a conversation, as pydantic models that can be stored as plain dictionaries.

They are independent of any wire format; what a provider must get back unchanged is kept in opaque
blocks.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, SupportsIndex, TypeAlias, TypeVar, overload

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
"""The name of a call whose name the model left empty, so that the call can be stored and replayed."""


class _Model(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")


class LLMUsage(_Model):
    """Tokens of one model response, or of all responses of a turn.

    `prompt_tokens` include `cached_tokens`, `completion_tokens` include `reasoning_tokens`; these
    two are `None` if the provider does not report them.
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
    """Instructions for the model; the first message of a history, if there is one."""

    role: Literal["system"] = "system"
    content: str = ""


class UserMessage(_Model):
    """What the user said: text, or content blocks in the forms listed in docs/providers.md."""

    role: Literal["user"] = "user"
    content: str | list[dict[str, Any]] | None = None


class AssistantMessage(_Model):
    """What the model said in one response, without its tool calls.

    `thinking` is its reasoning, never mixed into `content`. `blocks` are the parts of the response
    as the provider sent them, opaque and in order, for providers of the format `wire_format`; a
    block `{"type": "tool_call", "index": n}` marks where the n-th call stood. The calls of the same
    response have the same `response_id`. `interrupted` marks text that was not received in full.
    `finish_reason` is the provider's, or `"turn_limit"` where the runtime ended the turn.
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
        """Parse the text as JSON of a type: a pydantic model, or any other type that pydantic validates.

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

    If the model's arguments were not a JSON object, `invalid_arguments` has their text, bounded in
    length, and the call settles as an error without running. The same holds for a call that the
    output limit cut off (`truncated`). `response_id` names the response that contained the call.
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
    """The text that a tool call returned."""

    role: Literal["tool_result"] = "tool_result"
    type: Literal["tool_use"] = "tool_use"
    tool_call_id: str = Field(min_length=1)
    name: str | None = None
    result: str
    response_id: str | None = None


class ToolCallError(_Model):
    """Why a tool call failed: `error` in words that a model can act on, `kind` for programs."""

    role: Literal["tool_error"] = "tool_error"
    type: Literal["tool_error"] = "tool_error"
    tool_call_id: str = Field(min_length=1)
    name: str | None = None
    error: str = Field(min_length=1)
    kind: ToolErrorKind = "failed"
    response_id: str | None = None


class ToolCallRequestList(_Model):
    """The tool calls of one response; `message` has the text and reasoning that came with them."""

    tool_calls: list[ToolCallRequest] = Field(default_factory=list)
    usage: LLMUsage | None = None
    message: AssistantMessage | None = None


ToolCallOutcome: TypeAlias = ToolCallResult | ToolCallError
ToolMessage: TypeAlias = ToolCallRequest | ToolCallResult | ToolCallError
ChatMessage: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage
ChatMessages: TypeAlias = ChatMessage
"""The name of `ChatMessage` in seqoria-agent."""

History: TypeAlias = list[ChatMessage | dict[str, Any]]
"""An application's history: messages, and messages stored as dictionaries."""

_TOOL_MESSAGE = (ToolCallRequest, ToolCallResult, ToolCallError)
_TOOL_MESSAGE_SET = frozenset(_TOOL_MESSAGE)


class ToolMessages(list[ToolMessage]):
    """The calls and outcomes of one round: request, outcome, request, outcome, in the model's order.

    Raises `TypeError` for anything but requests, results and errors, and then changes nothing.
    """

    def __init__(self, items: Iterable[ToolMessage] = ()) -> None:
        super().__init__(_only_tool_messages(items))

    def append(self, item: ToolMessage) -> None:
        super().append(*_only_tool_messages([item]))

    def extend(self, items: Iterable[ToolMessage]) -> None:
        super().extend(_only_tool_messages(items))

    def insert(self, index: SupportsIndex, item: ToolMessage) -> None:
        super().insert(index, *_only_tool_messages([item]))

    def __iadd__(self, items: Iterable[ToolMessage]) -> "ToolMessages":  # type: ignore[override,misc]
        self.extend(items)
        return self

    @overload
    def __setitem__(self, index: SupportsIndex, item: ToolMessage) -> None: ...
    @overload
    def __setitem__(self, index: slice, item: Iterable[ToolMessage]) -> None: ...
    def __setitem__(self, index: SupportsIndex | slice, item: Any) -> None:
        if isinstance(index, slice):
            super().__setitem__(index, _only_tool_messages(item))
        else:
            super().__setitem__(index, _only_tool_messages([item])[0])


def _only_tool_messages(items: Iterable[ToolMessage]) -> list[ToolMessage]:
    messages = list(items)
    if _TOOL_MESSAGE_SET.issuperset(map(type, messages)):
        return messages
    for item in messages:
        if not isinstance(item, _TOOL_MESSAGE):
            raise TypeError(
                "ToolMessages holds ToolCallRequest, ToolCallResult and ToolCallError objects, "
                f"not {type(item).__name__}"
            )
    return messages
