"""Owns the checks of what an application passes to a client's methods."""

from collections.abc import Iterable, Mapping
from typing import Any

from seqoria_runtime._base import checks as _checks
from seqoria_runtime.models import ToolCallRequest, ToolCallRequestList, UserMessage

from ._session import StepOptions
from ._turn import TurnOptions


def user_message(query: Any, content: Any) -> UserMessage:
    """The user message of a turn: the query, or the content blocks that stand in for it."""
    if not isinstance(query, str):
        raise TypeError(f"'query' must be a string, not {type(query).__name__}")
    if content is None:
        return UserMessage(content=query)
    return UserMessage(content=_blocks("user_message_content", content))


def step_message(content: Any) -> UserMessage | None:
    """The user message of a single step: none, text, or content blocks."""
    if content is None:
        return None
    if isinstance(content, str):
        return UserMessage(content=content)
    return UserMessage(content=_blocks("append_user_message", content, or_else="text or "))


def _blocks(name: str, content: Any, *, or_else: str = "") -> list[dict[str, Any]]:
    if not isinstance(content, list) or not content or not all(isinstance(block, dict) for block in content):
        raise TypeError(f"{name!r} must be {or_else}a non-empty list of content blocks (dictionaries)")
    return content


def trusted_context(context: Any) -> dict[str, Any]:
    """A copy of the request's trusted values, so that later changes do not reach the turn."""
    if context is None:
        return {}
    if not isinstance(context, Mapping):
        raise TypeError(f"'context' must be a mapping, not {type(context).__name__}")
    return dict(context)


def turn_options(
    *, max_turns: Any, model: Any, tool_choice: Any, stream: bool, tool_events: Any = False, keep_partial: Any
) -> TurnOptions:
    return TurnOptions(
        max_turns=_checks.positive_int("max_turns", max_turns),
        model=model_name(model),
        tool_choice=choice(tool_choice),
        stream=stream,
        tool_events=_checks.boolean("tool_events", tool_events),
        keep_partial=_checks.boolean("keep_partial", keep_partial),
    )


def step_options(*, use_tools: Any, tool_choice: Any, model: Any) -> StepOptions:
    return StepOptions(
        use_tools=_checks.boolean("use_tools", use_tools),
        tool_choice=choice(tool_choice),
        model=model_name(model),
    )


def model_name(model: Any) -> str | None:
    if model is not None and (not isinstance(model, str) or not model):
        raise TypeError(f"'model' must be a model's name or None, not {model!r}")
    return model


def choice(tool_choice: Any) -> str:
    if not isinstance(tool_choice, str) or not tool_choice:
        raise TypeError(
            f"'tool_choice' must be 'auto', 'required', 'none' or the name of a tool, not {tool_choice!r}"
        )
    return tool_choice


def call_list(calls: Any) -> list[ToolCallRequest]:
    """The calls of a batch as a list of their own; any iterable is read once."""
    # Asking for a model's class costs a microsecond where the answer is no.
    if type(calls) is not list and isinstance(calls, ToolCallRequestList):
        return list(calls.tool_calls)
    if isinstance(calls, (str, bytes, Mapping)) or not isinstance(calls, Iterable):
        raise TypeError(f"'calls' must be a list of ToolCallRequest objects, not {type(calls).__name__}")
    whole = list(calls)
    for position, call in enumerate(whole):
        if type(call) is not ToolCallRequest and not isinstance(call, ToolCallRequest):
            raise TypeError(f"calls[{position}] must be a ToolCallRequest, not {type(call).__name__}")
    return whole
