"""Parts of turns with one fault each."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from seqoria_runtime._execution.batches import outcomes as texts
from seqoria_runtime._execution.batches.batch import Batch
from seqoria_runtime.models import (
    ToolCallError,
    ToolCallOutcome,
    ToolCallRequest,
    ToolMessage,
    ToolMessages,
    UserMessage,
)
from seqoria_runtime.models.errors import LLMError


def paired_without_cancelled(
    calls: Sequence[ToolCallRequest], outcomes: Sequence[ToolCallOutcome]
) -> ToolMessages:
    """Writes a cancelled call into the history without its outcome."""
    messages: list[ToolMessage] = []
    for call, outcome in zip(calls, outcomes, strict=True):
        cancelled = isinstance(outcome, ToolCallError) and outcome.kind == "cancelled"
        messages += (call,) if cancelled else (call, outcome)
    return ToolMessages(messages)


def keep_user_message(history: list[Any], message: UserMessage) -> None:
    """Leaves the question of a turn that added nothing."""


def all_cancelled(batch: Batch) -> list[ToolCallOutcome]:
    """Reports the finished calls of an interrupted batch as cancelled."""
    if not batch.unsettled:
        return [outcome for outcome in batch._outcomes if outcome is not None]
    return [texts.cancelled_while_running(request) for request in batch._calls]


async def retry_at_any_time(providers: Sequence[Any], request: Any) -> AsyncGenerator[Any, None]:
    """Asks the next provider whenever one fails."""
    failure: LLMError | None = None
    for provider in providers:
        try:
            async for event in provider.stream(request):
                yield event
        except LLMError as error:
            failure = error
        else:
            return
    if failure is not None:
        raise failure
