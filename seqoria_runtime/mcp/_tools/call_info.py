"""Owns what a request learns from the tool call that it is made for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp.shared.dispatcher import ProgressFnT

from seqoria_runtime._execution.calls.runner import RunningCall, running_call
from seqoria_runtime.models import ToolProgress


@dataclass(frozen=True, slots=True)
class CallInfo:
    """The trusted context of a call, and where its progress is reported; nothing outside of calls."""

    context: Mapping[str, Any] = field(default_factory=dict)
    progress: ProgressFnT | None = None


def current_call() -> CallInfo:
    """What is known of the call in which this code runs."""
    running = running_call()
    if running is None:
        return CallInfo()
    return CallInfo(running.context, None if running.report is None else _reporter(running))


def _reporter(running: RunningCall) -> ProgressFnT:
    async def report(  # noqa: RUF029 - the SDK awaits it
        progress: float, total: float | None, message: str | None
    ) -> None:
        if running.report is not None:
            running.report(ToolProgress(running.request, progress, total, message))

    return report
