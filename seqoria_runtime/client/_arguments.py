"""Checks the arguments of a client's methods."""

from collections.abc import Iterable, Mapping
from typing import Any

from seqoria_runtime._base import checks as _checks
from seqoria_runtime.models import History, ToolCallRequest, ToolCallRequestList, UserMessage

from ._session import StepOptions
from ._turn import TurnOptions


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
    if context is None:
        return {}
    if not isinstance(context, Mapping):
        raise TypeError(f"'context' must be a mapping, not {type(context).__name__}")
    return dict(context)


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
