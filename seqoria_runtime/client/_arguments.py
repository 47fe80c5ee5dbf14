"""Checks the arguments of a client's methods, and of a direct call of one tool."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from seqoria_runtime._base import checks as _checks
from seqoria_runtime._base.catalogue import Catalogue
from seqoria_runtime.models import (
    History,
    ToolCallOutcome,
    ToolCallRequest,
    ToolCallRequestList,
    ToolCallResult,
    UserMessage,
)
from seqoria_runtime.models.errors import ToolExecutionError, ToolNotFoundError
from seqoria_runtime.toolbox import TextContent

from ._session import StepOptions
from ._turn import TurnOptions

_DIRECT_CALL_ID = "direct"


def history_list(history: object) -> History:
    """Return the application's history list itself; raise for anything else."""
    if history is None:
        raise ValueError("history required: pass the application's own list, which may be empty")
    if not isinstance(history, list):
        raise TypeError(f"history must be an application-owned list, not {type(history).__name__}")
    return history


def user_message(query: object, content: object) -> UserMessage:
    """Return the user message of a turn: the query, or the content blocks that replace it."""
    if not isinstance(query, str):
        raise TypeError(f"'query' must be a string, not {type(query).__name__}")
    if content is None:
        return UserMessage(content=query)
    return UserMessage(content=_blocks("user_message_content", content))


def step_message(content: object) -> UserMessage | None:
    """Return the user message of a single step: text, content blocks, or none."""
    if content is None:
        return None
    if isinstance(content, str):
        return UserMessage(content=content)
    return UserMessage(content=_blocks("append_user_message", content, or_else="text or "))


def _blocks(name: str, content: object, *, or_else: str = "") -> list[dict[str, Any]]:
    if not isinstance(content, list) or not content or not all(isinstance(block, dict) for block in content):
        raise TypeError(f"{name!r} must be {or_else}a non-empty list of content blocks (dictionaries)")
    return content


def trusted_context(context: object) -> dict[str, Any]:
    """Copy the request's trusted values, so that later changes do not reach the turn."""
    return _mapping("context", context)


def check_turn(options: TurnOptions) -> None:
    """Raise for a wrong option of a turn."""
    _checks.positive_int("max_turns", options.max_turns)
    _checks.boolean("tool_events", options.tool_events)
    _checks.boolean("keep_partial", options.keep_partial)
    _check_request(options.model, options.tool_choice)


def check_step(options: StepOptions) -> None:
    """Raise for a wrong option of a single step."""
    _checks.boolean("use_tools", options.use_tools)
    _check_request(options.model, options.tool_choice)


def _check_request(model: object, tool_choice: object) -> None:
    if model is not None and (not isinstance(model, str) or not model):
        raise TypeError(f"'model' must be a model's name or None, not {model!r}")
    if not isinstance(tool_choice, str) or not tool_choice:
        raise TypeError(
            f"'tool_choice' must be 'auto', 'required', 'none' or the name of a tool, not {tool_choice!r}"
        )


def call_list(calls: object) -> list[ToolCallRequest]:
    """Return the calls of a batch as a new list; any iterable is read once."""
    # Asking for a model's class takes a microsecond if the answer is no.
    if type(calls) is not list:
        if isinstance(calls, ToolCallRequestList):
            return list(calls.tool_calls)
        # A request is iterable, as every pydantic model is, and would be read field by field.
        if isinstance(calls, ToolCallRequest):
            raise TypeError("'calls' must be a list of ToolCallRequest objects, not a single one: use [call]")
    if isinstance(calls, (str, bytes, Mapping)) or not isinstance(calls, Iterable):
        raise TypeError(f"'calls' must be a list of ToolCallRequest objects, not {type(calls).__name__}")
    requests = list(calls)
    for position, call in enumerate(requests):
        if type(call) is not ToolCallRequest and not isinstance(call, ToolCallRequest):
            raise TypeError(f"calls[{position}] must be a ToolCallRequest, not {type(call).__name__}")
    return requests


class DirectCall(NamedTuple):
    """A call of one tool that no model asked for; `server_args` are its trusted values."""

    request: ToolCallRequest
    server_args: Mapping[str, Any]

    @classmethod
    def check(cls, name: object, arguments: object, server_args: object) -> Self:
        """Check the arguments' types."""
        if not isinstance(name, str) or not name:
            raise TypeError(f"'name' must be the name of a tool, not {name!r}")
        return cls(
            ToolCallRequest(id=_DIRECT_CALL_ID, name=name, arguments=_mapping("arguments", arguments)),
            _mapping("server_args", server_args),
        )

    def check_against(self, catalogue: Catalogue) -> None:
        """Raise for an unknown tool, and for a trusted value in the wrong place."""
        name = self.request.name
        entry = catalogue.get(name)
        if entry is None:
            raise ToolNotFoundError(f"Tool {name!r} not found on any connected server.")
        hidden = {parameter.name for parameter in entry.tool.hidden}
        for parameter in self.request.arguments:
            if parameter in hidden:
                raise ValueError(f"Cannot override server-populated param: {parameter}")
        for parameter in self.server_args:
            if parameter not in hidden:
                raise ValueError(f"Unknown server parameter: {parameter}")


def content_of(outcome: ToolCallOutcome) -> list[TextContent]:
    """Return the result as content objects; raise `ToolExecutionError` for a failed call."""
    if isinstance(outcome, ToolCallResult):
        return [TextContent(outcome.result)]
    raise ToolExecutionError(outcome.error, kind=outcome.kind)


def _mapping(name: str, value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{name!r} must be a mapping, not {type(value).__name__}")
    return dict(value)
