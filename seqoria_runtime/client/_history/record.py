"""Owns the rules of an application's history list: what is appended, when, and how a turn ends in it.

Synchronous and pure, apart from changing that list. Knows nothing of providers or of tasks.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from pydantic import ValidationError

from seqoria_runtime.models import (
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolCallError,
    ToolCallOutcome,
    ToolCallRequest,
    ToolCallResult,
    ToolMessage,
    ToolMessages,
    UserMessage,
)
from seqoria_runtime.models._arguments import read_arguments

_MODELS = (SystemMessage, UserMessage, AssistantMessage, ToolCallRequest, ToolCallResult, ToolCallError)
_MODEL_SET = frozenset(_MODELS)

_BY_ROLE: Mapping[str, type[ChatMessage]] = {
    "system": SystemMessage,
    "developer": SystemMessage,
    "user": UserMessage,
    "assistant": AssistantMessage,
    "tool_call": ToolCallRequest,
    "tool_result": ToolCallResult,
    "tool_error": ToolCallError,
    "tool": ToolCallResult,
}


def check_history(history: Any) -> list[Any]:
    """Give the application's history list as it is; raises `ValueError` or `TypeError` for anything else."""
    if history is None:
        raise ValueError("history required: pass the application's own list, which may be empty")
    if not isinstance(history, list):
        raise TypeError(f"history must be an application-owned list, not {type(history).__name__}")
    return history


def to_messages(history: Iterable[Any]) -> list[ChatMessage]:
    """Read a history of message models and dictionaries; the models are passed on as they are.

    Raises `ValueError` for a dictionary that is no message, `TypeError` for anything else, with the position.
    """
    items = list(history)
    if _MODEL_SET.issuperset(map(type, items)):
        return items
    messages: list[ChatMessage] = []
    for position, item in enumerate(items):
        messages += [item] if isinstance(item, _MODELS) else _from_mapping(item, position)
    return messages


def _from_mapping(item: Any, position: int) -> list[ChatMessage]:
    if not isinstance(item, Mapping):
        raise TypeError(
            f"history[{position}] must be a message model or a dictionary, not {type(item).__name__}"
        )
    role = item.get("role")
    model = _BY_ROLE.get(role) if isinstance(role, str) else None
    if model is None:
        raise ValueError(
            f"history[{position}] has the role {role!r}; it must be one of {', '.join(_BY_ROLE)}"
        )
    try:
        message = model.model_validate(_fields(model, item))
        if isinstance(message, AssistantMessage) and item.get("tool_calls"):
            calls = [_request(call) for call in item["tool_calls"]]
            return [*beside_calls(message), *calls]
    except (ValidationError, ValueError, TypeError, KeyError, AttributeError) as exc:
        raise ValueError(f"history[{position}] is not a valid {role!r} message: {exc}") from exc
    return [message]


def _fields(model: type[ChatMessage], item: Mapping[str, Any]) -> dict[str, Any]:
    fields = dict(item)
    if fields["role"] == "developer":
        fields["role"] = "system"
    if fields["role"] == "tool":
        fields |= {"role": "tool_result", "type": "tool_use", "result": _text(fields.get("content"))}
    if model in {AssistantMessage, SystemMessage}:
        fields["content"] = _text(fields.get("content"))
    return fields


def _request(call: Mapping[str, Any]) -> ToolCallRequest:
    """A call as Chat Completions writes it inside an assistant message."""
    function = call["function"]
    arguments, invalid = function.get("arguments") or {}, None
    if isinstance(arguments, str):
        arguments, invalid = read_arguments(arguments)
    return ToolCallRequest(
        id=call["id"], name=function["name"], arguments=arguments, invalid_arguments=invalid
    )


def _text(content: Any) -> Any:
    """The text of a content that some providers write as a list of text blocks, or leave out."""
    if content is None:
        return ""
    if isinstance(content, list) and all(isinstance(block, Mapping) for block in content):
        return "".join(str(block.get("text") or "") for block in content)
    return content


def has_system_message(history: Sequence[Any]) -> bool:
    """Whether the history starts with a system message, as a model or a dictionary."""
    if not history:
        return False
    first = history[0]
    role = first.get("role") if isinstance(first, Mapping) else getattr(first, "role", None)
    return role in {"system", "developer"}


def insert_system_prompt(history: list[Any], system_prompt: str) -> None:
    """Put the prompt in front of a history that has none; an empty prompt changes nothing."""
    if system_prompt and not has_system_message(history):
        history.insert(0, {"role": "system", "content": system_prompt})


def paired(calls: Sequence[ToolCallRequest], outcomes: Sequence[ToolCallOutcome]) -> ToolMessages:
    """A round's calls and outcomes as they stand in a history: request, outcome, request, outcome."""
    pairs: list[ToolMessage] = []
    for call, outcome in zip(calls, outcomes, strict=True):
        pairs += (call, outcome)
    return ToolMessages(pairs)


def beside_calls(message: AssistantMessage | None) -> list[ChatMessage]:
    """What came in a response beside its calls, as far as there is anything to keep."""
    if message is None or not (message.content or message.thinking or message.blocks):
        return []
    return [message]


class RunningBatch(Protocol):
    """A round's batch as its turn's record sees it."""

    @property
    def begun(self) -> bool: ...

    def outcomes_so_far(self) -> list[ToolCallOutcome]: ...


class TurnRecord:
    """What one turn has added to the application's history, and what it still owes it.

    A round is in the history whole or not at all. `settle` completes or takes back what an ended
    turn left unfinished; after it the record does nothing more. `on_settled` is called then.
    """

    def __init__(
        self,
        history: list[Any],
        user_message: UserMessage,
        *,
        system_prompt: str,
        keep_partial: bool,
        on_settled: Callable[[], None],
    ) -> None:
        self._history = history
        self._user_message = user_message
        self._system_prompt = system_prompt
        self._keep_partial = keep_partial
        self._on_settled = on_settled
        self._added = False
        self._settled = False
        self._round: tuple[list[ChatMessage], Sequence[ToolCallRequest], RunningBatch] | None = None
        self._complete: ToolMessages | None = None
        self._partial: list[str] = []

    @property
    def history(self) -> list[Any]:
        """The application's own list."""
        return self._history

    @property
    def messages(self) -> list[ChatMessage]:
        """The history as it is now, for the next question to the model."""
        return to_messages(self._history)

    def begin(self) -> None:
        """Add the user message, behind a system prompt; raises, with nothing added, for a bad history."""
        to_messages(self._history)
        insert_system_prompt(self._history, self._system_prompt)
        self._history.append(self._user_message)

    def note_text(self, text: str) -> None:
        """Remember text of the answer under way, which an interrupted turn may have to keep."""
        if self._keep_partial and text:
            self._partial.append(text)

    def open_round(
        self, message: AssistantMessage | None, calls: Sequence[ToolCallRequest], batch: RunningBatch
    ) -> None:
        """Remember a round whose calls are about to run."""
        self._round = (beside_calls(message), calls, batch)

    def complete_round(self, outcomes: Sequence[ToolCallOutcome]) -> ToolMessages:
        """The open round's calls and outcomes, as `commit_round` will add them."""
        assert self._round is not None
        self._complete = paired(self._round[1], outcomes)
        return self._complete

    def commit_round(self) -> None:
        """Add the round, with how far each of its calls has come."""
        if self._round is None:
            return
        beside, calls, batch = self._round
        messages = self._complete or paired(calls, batch.outcomes_so_far())
        self._history.extend((*beside, *messages))
        self._added = True
        self._round = self._complete = None
        self._partial.clear()

    def commit_final(self, message: AssistantMessage) -> None:
        """Add the turn's last message, which settles the record."""
        self._history.append(message)
        self._added = True
        self._partial.clear()
        self.settle()

    def settle(self) -> None:
        """Leave a history that every provider accepts and that tells what happened."""
        if self._settled:
            return
        self._settled = True
        try:
            self._leave()
        finally:
            self._on_settled()

    def _leave(self) -> None:
        if self._round is not None and self._round[2].begun:
            self.commit_round()
        elif self._partial:
            self._history.append(AssistantMessage(content="".join(self._partial), interrupted=True))
            self._added = True
        if not self._added:
            _remove(self._history, self._user_message)


class StepRecord:
    """What one single step adds to the application's history: a user message, kept once it is answered."""

    def __init__(self, history: list[Any], user_message: UserMessage | None, *, system_prompt: str) -> None:
        self._history = history
        self._user_message = user_message
        self._system_prompt = system_prompt

    @property
    def messages(self) -> list[ChatMessage]:
        """The history as it is now."""
        return to_messages(self._history)

    def begin(self) -> None:
        """Add the user message, if there is one, behind a system prompt; raises for a bad history."""
        to_messages(self._history)
        insert_system_prompt(self._history, self._system_prompt)
        if self._user_message is not None:
            self._history.append(self._user_message)

    def keep(self) -> None:
        """The step has its answer: the user message stays."""
        self._user_message = None

    def settle(self) -> None:
        """Take an unanswered user message back, so that a retry does not ask twice."""
        if self._user_message is not None:
            _remove(self._history, self._user_message)
            self._user_message = None


def _remove(history: list[Any], message: UserMessage) -> None:
    for position in range(len(history) - 1, -1, -1):
        if history[position] is message:
            del history[position]
            return
