"""Toolboxes that record their calls, and functions that run batches and turns of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from seqoria_runtime._base.tools import HiddenParameter
from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.models import ToolCallOutcome, ToolCallRequest, ToolMessages, ToolOutcome
from seqoria_runtime.testing._tools.dag import FaultPlan
from seqoria_runtime.toolbox import LocalToolbox
from seqoria_runtime.toolbox._hidden.arguments import ToolArguments
from seqoria_runtime.toolbox._tool import FunctionTool

from .recorder import CALL, RecordedCall, RecordedFunction, Recorder, current_batch
from .trace import Trace


class RecordedToolbox(LocalToolbox):
    """The tools that `source` has now, with a record of what their calls do.

    `faults` says which calls do something other than call their function. Pass it to a client instead
    of `source`, run batches with `record_batch` or turns with `record_turn`, and then call `trace`.
    """

    def __init__(self, source: LocalToolbox, *, faults: FaultPlan | None = None) -> None:
        super().__init__()
        self.faults: FaultPlan = faults or FaultPlan()
        self.faults.check_against(source)
        self.recorder: Recorder = Recorder()
        self._tools = {
            tool.name: self._recorded(tool) for tool in source.tools if isinstance(tool, FunctionTool)
        }

    def trace(self, client: AsyncAIClient) -> Trace:
        """Return what was recorded so far, with the limits of the client that ran it."""
        stats = client.stats()
        return self.recorder.trace(stats.max_concurrency, stats.tool_timeout, client.limit_history())

    def _recorded(self, tool: FunctionTool) -> FunctionTool:
        return replace(
            tool,
            arguments=_RecordedArguments(tool, self.recorder),
            function=RecordedFunction(tool, self.recorder, self.faults.of),
        )


@dataclass(frozen=True, slots=True)
class _CallArguments:
    """Prepared arguments with the call that they belong to."""

    call: RecordedCall
    inner: Any


class _RecordedArguments:
    """A tool's arguments, checked as usual, with the call that they belong to."""

    def __init__(self, tool: FunctionTool, recorder: Recorder) -> None:
        self._tool = tool
        self._inner: ToolArguments = tool.arguments
        self._recorder = recorder

    @property
    def hidden(self) -> tuple[HiddenParameter, ...]:
        return self._inner.hidden

    def check(self, arguments: Mapping[str, Any], override: bool) -> Any:
        call = self._recorder.asked(self._tool, arguments)
        prepared = self._inner.check(arguments, override)
        return _CallArguments(call, prepared) if self.hidden else {**prepared, CALL: call}

    def missing(self, prepared: Any) -> tuple[HiddenParameter, ...]:
        if not isinstance(prepared, _CallArguments):
            return ()
        self._recorder.entered(prepared.call)
        return self._inner.missing(prepared.inner)

    def complete(self, prepared: Any, values: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(prepared, _CallArguments):
            return dict(prepared)
        return {**self._inner.complete(prepared.inner, values), CALL: prepared.call}


async def record_batch(
    client: AsyncAIClient,
    tools: RecordedToolbox,
    calls: Iterable[ToolCallRequest],
    *,
    context: Mapping[str, Any] | None = None,
) -> list[tuple[ToolCallRequest, ToolCallOutcome]]:
    """Run a batch with `run_call_stream` and record it; return the outcomes in the order of completion.

    When a cancelled caller goes on, every asynchronous call has ended, and the trace has the batch as
    incomplete.
    """
    requests = list(calls)
    seen: list[tuple[ToolCallRequest, ToolCallOutcome]] = []
    number = tools.recorder.batch_started()
    before = current_batch.set(number)
    complete = False
    try:
        async with client.run_call_stream(requests, context=context) as stream:
            async for request, outcome in stream:
                tools.recorder.settled(request, outcome)
                seen.append((request, outcome))
            complete = True
    finally:
        current_batch.reset(before)
        tools.recorder.batch_ended(number, requests, complete=complete)
    return seen


async def record_turn(
    client: AsyncAIClient, tools: RecordedToolbox, query: str, *, history: list[Any], **options: Any
) -> list[Any]:
    """Run a turn with `stream_chat` and its `options`, and record its calls; return all its events.

    Raises what the turn raises. When a cancelled caller goes on, every asynchronous call has ended. An
    incomplete round is not in the trace as a batch.
    """
    events: list[Any] = []
    turn_number = tools.recorder.batch_started()
    before = current_batch.set(turn_number)
    try:
        async with client.stream_chat(query, history=history, tool_events=True, **options) as turn:
            async for event in turn:
                events.append(event)
                _note(tools.recorder, event)
    finally:
        current_batch.reset(before)
        tools.recorder.batch_ended(turn_number, (), complete=False)
    return events


def _note(recorder: Recorder, event: Any) -> None:
    if isinstance(event, ToolOutcome):
        recorder.settled(event.request, event.outcome)
    if isinstance(event, ToolMessages):
        recorder.round_ended([message for message in event if isinstance(message, ToolCallRequest)])
