"""Runners of one call with one fault each."""

from contextvars import Context
from dataclasses import replace
from typing import Any

from seqoria_runtime._execution.calls.runner import CallRunner
from seqoria_runtime._execution.calls.verdict import Ended
from seqoria_runtime.models import ToolCallError


class ImpatientRunner(CallRunner):
    """Counts a call's time from the start of the worker that runs it."""

    def __init__(self, settings: Any, **options: Any) -> None:
        super().__init__(settings, **options)
        self._born = settings.now()

    async def run(self, *parts: Any) -> Ended:
        settings = self._settings
        if settings.tool_timeout is not None:
            left = max(settings.tool_timeout - (settings.now() - self._born), 0.25)
            self._settings = replace(settings, tool_timeout=left)
        ended = await super().run(*parts)
        self._settings = settings
        return ended


class LenientRunner(CallRunner):
    """Reads the clock when a call starts, and not when it ends."""

    async def run(self, *parts: Any) -> Ended:
        settings = self._settings
        started = settings.now()
        self._settings = replace(settings, now=lambda: started)
        ended = await super().run(*parts)
        self._settings = settings
        return ended


class RetryingRunner(CallRunner):
    """Runs a call that failed once more."""

    async def run(self, *parts: Any) -> Ended:
        ended = await super().run(*parts)
        if isinstance(ended.outcome, ToolCallError) and ended.outcome.kind == "failed":
            return await super().run(*parts)
        return ended


class _NeverCopied:
    """Context variables that all calls share."""

    def __init__(self, variables: Context) -> None:
        self._variables = variables

    def copy(self) -> Context:
        return self._variables


class SharingRunner(CallRunner):
    """Runs all calls in one context."""

    def __init__(self, settings: Any, *, variables: Context, **options: Any) -> None:
        super().__init__(settings, variables=variables.copy(), **options)
        self._variables = _NeverCopied(self._variables)  # type: ignore[assignment]
