"""One opening of a client: starts its turns, single steps and batches."""

from collections.abc import Coroutine, Mapping, Sequence
from contextlib import aclosing
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from seqoria_runtime._base.catalogue import Catalogue
from seqoria_runtime._execution.batches.batch import Batch
from seqoria_runtime._execution.calls.runner import running_grant
from seqoria_runtime._execution.calls.scheduler import Scheduler
from seqoria_runtime._execution.streams.hosted import HostedWork
from seqoria_runtime._execution.streams.stream import Stream
from seqoria_runtime.models import ChatChunk, ToolCallOutcome, ToolCallRequest, ToolCallStarted
from seqoria_runtime.providers._fallback import generate_with_fallback, stream_with_fallback
from seqoria_runtime.providers._protocol import ModelRequest, ModelResponse

from ._history.record import HistoryRecord
from ._live_turns import LiveTurn
from ._root import CallerScope, Root
from ._turn import Services, Turn, TurnEvent, TurnOptions, check_response

StepEvent: TypeAlias = ChatChunk | ModelResponse
SettledCall: TypeAlias = tuple[ToolCallRequest, ToolCallOutcome]

_BUFFERED_EVENTS = 16


class StepOptions(NamedTuple):
    """The arguments of one single step."""

    use_tools: bool
    tool_choice: str
    model: str | None


class Session:
    """One opening of a client. The streams that it returns have not started."""

    def __init__(self, root: Root, services: Services) -> None:
        self.root = root
        self.services = services

    def runs_this_code(self) -> bool:
        """Return whether the caller runs inside a tool call of this client."""
        grant = running_grant()
        return grant is not None and grant.nearest(self.services.execution.places.slots) is not None

    def turn(
        self, record: HistoryRecord, options: TurnOptions, context: Mapping[str, Any]
    ) -> Stream[TurnEvent]:
        """Return a turn as a stream."""
        turn = Turn(self.services, record, options, context=context, caller=running_grant())
        live = LiveTurn(record)
        work: HostedWork[TurnEvent] = HostedWork(
            self.root,
            turn.run,
            name="this turn",
            limit=_BUFFERED_EVENTS,
            before_start=live.start,
            at_end=live.end,
        )
        return Stream(work)

    def step_stream(self, record: HistoryRecord, options: StepOptions) -> Stream[StepEvent]:
        """Return a single step as a stream."""

        async def run(work: HostedWork[StepEvent]) -> None:
            request, catalogue = self._step_request(record, options)
            async with aclosing(stream_with_fallback(self.services.providers, request)) as events:
                async for event in events:
                    if isinstance(event, ChatChunk):
                        await work.channel.send(event)
                    elif not isinstance(event, ToolCallStarted):
                        work.channel.send_nowait(check_response(event, catalogue), record.keep)

        work: HostedWork[StepEvent] = HostedWork(
            self.root,
            run,
            name="this model step",
            limit=_BUFFERED_EVENTS,
            before_start=lambda _: record.start(),
            at_end=record.settle,
        )
        return Stream(work)

    async def step(self, record: HistoryRecord, options: StepOptions) -> ModelResponse:
        """Run a single step in the caller's task; a cancelled caller finds the history as it was."""
        scope = CallerScope()
        self.root.enter_caller(scope)
        try:
            record.start()
            request, catalogue = self._step_request(record, options)
            ask = partial(generate_with_fallback, self.services.providers, request)
            response = check_response(await scope.run(ask), catalogue)
            record.keep()
            return response
        finally:
            try:
                record.settle()
            finally:
                self.root.leave_caller(scope)

    def _step_request(self, record: HistoryRecord, options: StepOptions) -> tuple[ModelRequest, Catalogue]:
        catalogue = self.services.catalogue() if options.use_tools else Catalogue()
        request = self.services.model_request(record.messages, catalogue, options.tool_choice, options.model)
        return request, catalogue

    def run_calls(
        self, calls: Sequence[ToolCallRequest], context: Mapping[str, Any], *, direct: bool = False
    ) -> Coroutine[Any, Any, list[ToolCallOutcome]]:
        """Run a batch and return its outcomes; a `direct` one takes trusted values from the context alone.

        The calls see the context variables of this moment, however late the coroutine is awaited.
        """
        execution = self.services.execution
        if direct:
            execution = replace(execution, registry=None, allow_override=False)
        batch = execution.new_batch(calls, self.services.catalogue())
        scheduler = Scheduler(
            batch, execution, variables=copy_context(), context=context, caller=running_grant()
        )
        return self._run_in_caller(batch, scheduler)

    async def _run_in_caller(self, batch: Batch, scheduler: Scheduler) -> list[ToolCallOutcome]:
        self.root.enter_caller(scheduler)
        try:
            return await self.services.run(batch, scheduler)
        finally:
            self.root.leave_caller(scheduler)

    def call_stream(
        self, calls: Sequence[ToolCallRequest], context: Mapping[str, Any]
    ) -> Stream[SettledCall]:
        """Return a batch as a stream of its outcomes, in the order of completion."""
        services, caller = self.services, running_grant()

        async def run(work: HostedWork[SettledCall]) -> None:
            batch = services.execution.new_batch(
                calls,
                services.catalogue(),
                on_settled=lambda request, outcome: work.channel.send_nowait((request, outcome)),
            )
            scheduler = Scheduler(
                batch, services.execution, variables=work.variables, context=context, caller=caller
            )
            await services.run(batch, scheduler, in_this_task=True)

        work: HostedWork[SettledCall] = HostedWork(
            self.root, run, name="this batch of tool calls", limit=len(calls)
        )
        return Stream(work)
