"""Owns what exists only while a client is open: its root, its live batches, and how work is run in it."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from seqoria_runtime._base.catalogue import Catalogue
from seqoria_runtime._execution.batches.batch import Batch
from seqoria_runtime._execution.calls.runner import running_grant
from seqoria_runtime._execution.calls.scheduler import Scheduler
from seqoria_runtime._execution.calls.settings import ExecutionSettings
from seqoria_runtime._execution.places.places import Grant
from seqoria_runtime._execution.streams.hosted import HostedWork
from seqoria_runtime._execution.streams.stream import HostedStream
from seqoria_runtime.models import (
    ChatChunk,
    ToolCallOutcome,
    ToolCallRequest,
    ToolCallRequestList,
    ToolCallStarted,
)
from seqoria_runtime.providers._fallback import generate_with_fallback, stream_with_fallback
from seqoria_runtime.providers._protocol import AsyncBaseProvider, ModelRequest, ModelResponse

from . import _live_turns
from ._history.record import StepRecord, TurnRecord
from ._root import CallerScope, Root
from ._turn import Definitions, Services, Turn, TurnEvent, TurnOptions, check_calls, model_request

StepEvent: TypeAlias = ChatChunk | ModelResponse

_BUFFERED_EVENTS = 16


class StepOptions(NamedTuple):
    """What the application asked for in one single step."""

    use_tools: bool
    tool_choice: str
    model: str | None


class Session:
    """One opening of a client."""

    def __init__(
        self,
        root: Root,
        providers: Sequence[AsyncBaseProvider],
        catalogue: Callable[[], Catalogue],
        execution: ExecutionSettings,
    ) -> None:
        self.root = root
        self.batches: set[Batch] = set()
        self._catalogue = catalogue
        self._execution = execution
        self._services = Services(providers, catalogue, execution, self.batches, Definitions())

    def runs(self, grant: Grant | None) -> bool:
        """Whether this call, or one that it was started by, is a tool call of this client."""
        return grant is not None and grant.nearest(self._execution.places.slots) is not None

    def turn(
        self, record: TurnRecord, options: TurnOptions, context: Mapping[str, Any]
    ) -> HostedStream[TurnEvent]:
        """A turn, as a stream that has not started."""
        turn = Turn(self._services, record, options, context=context, caller=running_grant())
        work: HostedWork[TurnEvent] = HostedWork(
            self.root,
            turn.run,
            name="this turn",
            limit=_BUFFERED_EVENTS,
            before_start=partial(_live_turns.claim, record.history, begin=record.begin),
            at_end=record.settle,
        )
        return HostedStream(work)

    def step_stream(self, record: StepRecord, options: StepOptions) -> HostedStream[StepEvent]:
        """A single step, as a stream that has not started."""

        async def run(work: HostedWork[StepEvent]) -> None:
            request, catalogue = self._step_request(record, options)
            async with aclosing(stream_with_fallback(self._services.providers, request)) as events:
                async for event in events:
                    if isinstance(event, ChatChunk):
                        await work.channel.send(event)
                    elif not isinstance(event, ToolCallStarted):
                        work.channel.send_nowait(_checked(event, catalogue), record.keep)

        return HostedStream(
            HostedWork(
                self.root,
                run,
                name="this model step",
                limit=_BUFFERED_EVENTS,
                before_start=lambda _: record.begin(),
                at_end=record.settle,
            )
        )

    async def step(self, record: StepRecord, options: StepOptions) -> ModelResponse:
        """A single step, in the caller's task."""
        scope = CallerScope()
        self.root.enter_caller(scope)
        try:
            return await self._step_under(scope, record, options)
        finally:
            self.root.leave_caller(scope)

    async def _step_under(
        self, scope: CallerScope, record: StepRecord, options: StepOptions
    ) -> ModelResponse:
        record.begin()
        try:
            request, catalogue = self._step_request(record, options)
            ask = partial(generate_with_fallback, self._services.providers, request)
            response = _checked(await scope.run(ask), catalogue)
            record.keep()
            return response
        finally:
            record.settle()

    def run_calls(
        self,
        calls: Sequence[ToolCallRequest],
        context: Mapping[str, Any],
        *,
        direct: bool = False,
    ) -> Coroutine[Any, Any, list[ToolCallOutcome]]:
        """Run a batch in the caller's task; a `direct` one takes trusted values from the context alone.

        Context variables are as they are at the call, however late it is awaited.
        """
        execution = self._execution
        if direct:
            execution = replace(execution, registry=None, allow_override=False)
        batch = execution.new_batch(calls, self._catalogue())
        scheduler = Scheduler(
            batch, execution, variables=copy_context(), context=context, caller=running_grant()
        )
        return self._run_in_caller(batch, scheduler)

    async def _run_in_caller(self, batch: Batch, scheduler: Scheduler) -> list[ToolCallOutcome]:
        self.root.enter_caller(scheduler)
        self.batches.add(batch)
        try:
            return await scheduler.run()
        finally:
            self.batches.discard(batch)
            self.root.leave_caller(scheduler)

    def call_stream(
        self, calls: Sequence[ToolCallRequest], context: Mapping[str, Any]
    ) -> HostedStream[tuple[ToolCallRequest, ToolCallOutcome]]:
        """A batch whose outcomes are published as they come, as a stream that has not started."""
        caller = running_grant()

        async def run(work: HostedWork[tuple[ToolCallRequest, ToolCallOutcome]]) -> None:
            batch = self._execution.new_batch(
                calls,
                self._catalogue(),
                on_settled=lambda request, outcome: work.channel.send_nowait((request, outcome)),
            )
            scheduler = Scheduler(
                batch, self._execution, variables=work.variables, context=context, caller=caller
            )
            self.batches.add(batch)
            try:
                await scheduler.run(in_this_task=True)
            finally:
                self.batches.discard(batch)

        work: HostedWork[tuple[ToolCallRequest, ToolCallOutcome]] = HostedWork(
            self.root, run, name="this batch of tool calls", limit=len(calls)
        )
        return HostedStream(work)

    def _step_request(self, record: StepRecord, options: StepOptions) -> tuple[ModelRequest, Catalogue]:
        catalogue = self._catalogue() if options.use_tools else Catalogue()
        tools = self._services.definitions.of(catalogue)
        return model_request(record.messages, tools, options.tool_choice, options.model), catalogue


def _checked(response: ModelResponse, catalogue: Catalogue) -> ModelResponse:
    if isinstance(response, ToolCallRequestList):
        check_calls(response, catalogue)
    return response
