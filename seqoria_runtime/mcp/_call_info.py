"""Owns what a request learns from the tool call that it is made for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp.shared.dispatcher import ProgressFnT

from seqoria_runtime.execution.executor import current_lease


@dataclass(frozen=True, slots=True)
class CallInfo:
    """The trusted context of a call, and where its progress is reported; nothing outside of calls."""

    context: Mapping[str, Any] = field(default_factory=dict)
    progress: ProgressFnT | None = None


def current_call() -> CallInfo:
    """What is known of the call in which this code runs."""
    lease = current_lease.get()
    if lease is None:
        return CallInfo()
    return CallInfo()
