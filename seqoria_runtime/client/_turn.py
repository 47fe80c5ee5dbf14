"""Runs one turn: ask the model, run the batch that it asks for, commit the round, ask again."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from seqoria_runtime._base.catalogue import Catalogue
from seqoria_runtime._execution.batches.batch import Batch
from seqoria_runtime._execution.calls.scheduler import Scheduler
from seqoria_runtime._execution.calls.settings import ExecutionSettings
from seqoria_runtime._execution.places.pool import Grant
from seqoria_runtime._execution.streams.channel import Channel
from seqoria_runtime._execution.streams.hosted import HostedWork
from seqoria_runtime.models import (
    AssistantMessage,
    ChatChunk,
    ChatMessage,
    LLMUsage,
    ToolCallOutcome,
    ToolCallRequest,
    ToolCallRequestList,
    ToolMessages,
    ToolOutcome,
    ToolProgress,
)
from seqoria_runtime.models.errors import ProviderProtocolError, UnexpectedToolCallError
from seqoria_runtime.providers._fallback import generate_with_fallback, stream_with_fallback
from seqoria_runtime.providers._protocol import AsyncBaseProvider, ModelRequest, ModelResponse, ToolDefinition

from ._history.record import HistoryRecord

TurnEvent: TypeAlias = ChatChunk | ToolOutcome | ToolProgress | ToolMessages | AssistantMessage

TURN_LIMIT_TEXT = "[Turn limit reached]"


class TurnOptions(NamedTuple):
    """The arguments of one `chat` or `stream_chat`."""

    max_turns: int
    model: str | None
    tool_choice: str
    keep_partial: bool
    stream: bool = False
    tool_events: bool = False


class Services:
    """What one opening of a client offers to its turns. `catalogue` returns the current tools."""

    def __init__(
        self,
        providers: Sequence[AsyncBaseProvider],
        catalogue: Callable[[], Catalogue],
        execution: ExecutionSettings,
    ) -> None:
        self.providers = providers
        self.catalogue = catalogue
        self.execution = execution
        self._live: set[Batch] = set()
        self._described = Catalogue()
        self._definitions: tuple[ToolDefinition, ...] = ()

    @property
    def live_batches(self) -> tuple[Batch, ...]:
        """The batches that are running or waiting now."""
        return tuple(self._live)

    async def run(
        self, batch: Batch, scheduler: Scheduler, *, in_this_task: bool = False
    ) -> list[ToolCallOutcome]:
        """Run a batch, in a task of the runtime also in that; a cancelled caller finds every call ended."""
        self._live.add(batch)
        try:
            return await scheduler.run(in_this_task=in_this_task)
        finally:
            self._live.discard(batch)

    def model_request(
        self, messages: Sequence[ChatMessage], catalogue: Catalogue, tool_choice: str, model: str | None
    ) -> ModelRequest:
        """Build the request to the model; without tools it has neither tools nor a tool choice.

        Raises `ValueError` if the tool choice names no tool.
        """
        tools = self._definitions_of(catalogue)
        if not tools:
            return ModelRequest(messages, model=model)
        if tool_choice not in {"auto", "required", "none"} and catalogue.get(tool_choice) is None:
            raise ValueError(
                "'tool_choice' must be 'auto', 'required', 'none' or the name of an available tool, "
                f"not {tool_choice!r}"
            )
        return ModelRequest(messages, tools=tools, tool_choice=tool_choice, model=model)

    def _definitions_of(self, catalogue: Catalogue) -> tuple[ToolDefinition, ...]:
        # Nearly every request has the catalogue of the one before it.
        if catalogue is not self._described:
            self._definitions = tuple(
                ToolDefinition(entry.name, entry.tool.description, entry.tool.parameters)
                for entry in catalogue.entries.values()
            )
            self._described = catalogue
        return self._definitions


class Turn:
    """One turn. `context` has the trusted values; `caller` is the tool call that started it, if any."""

    def __init__(
        self,
        services: Services,
        record: HistoryRecord,
        options: TurnOptions,
        *,
        context: Mapping[str, Any],
        caller: Grant | None,
    ) -> None:
        self._services = services
        self._record = record
        self._options = options
        self._context = context
        self._caller = caller
        self._usage: LLMUsage | None = None

    async def run(self, work: HostedWork[TurnEvent]) -> None:
        """Run rounds until the model answers in text or the limit is reached.

        A cancelled turn leaves nothing running; its record then settles the history.
        """
        channel, options = work.channel, self._options
        tool_choice = options.tool_choice
        for _ in range(options.max_turns):
            catalogue = self._services.catalogue()
            request = self._services.model_request(
                self._record.messages, catalogue, tool_choice, options.model
            )
            response = check_response(await self._ask(request, channel), catalogue)
            self._add_usage(response.usage)
            if isinstance(response, AssistantMessage):
                self._finish(response, channel)
                return
            await self._run_batch(response, catalogue, work)
            tool_choice = "none" if tool_choice == "none" else "auto"
        self._finish(AssistantMessage(content=TURN_LIMIT_TEXT, finish_reason="turn_limit"), channel)

    async def _ask(self, request: ModelRequest, channel: Channel[TurnEvent]) -> ModelResponse:
        stream, keep_partial = self._options.stream, self._options.keep_partial
        if not stream and not keep_partial:
            return await generate_with_fallback(self._services.providers, request)
        # Most deltas find room in the buffer, and are sent without a coroutine for each.
        plain = stream and not keep_partial
        async with aclosing(stream_with_fallback(self._services.providers, request)) as events:
            async for event in events:
                if plain and isinstance(event, ChatChunk) and channel.try_send(event):
                    continue
                if isinstance(event, ChatChunk):
                    await self._send_chunk(event, channel)
                elif isinstance(event, (AssistantMessage, ToolCallRequestList)):
                    return event
        raise ProviderProtocolError("the model's stream ended without a response")

    async def _send_chunk(self, chunk: ChatChunk, channel: Channel[TurnEvent]) -> None:
        if not self._options.stream:
            self._record.note_text(chunk.content)
        elif self._options.keep_partial:
            # Noted as the consumer takes it: an interrupted turn keeps the text that the consumer saw.
            await channel.send(chunk, partial(self._record.note_text, chunk.content))
        else:
            await channel.send(chunk)

    async def _run_batch(
        self, response: ToolCallRequestList, catalogue: Catalogue, work: HostedWork[TurnEvent]
    ) -> None:
        services, calls, channel = self._services, response.tool_calls, work.channel
        tool_events = self._options.tool_events
        batch = services.execution.new_batch(
            calls,
            catalogue,
            on_settled=partial(_send_outcome, channel) if tool_events else None,
            on_progress=partial(_send_progress, channel) if tool_events else None,
        )
        self._record.open_round(response.message, calls, batch)
        scheduler = Scheduler(
            batch, services.execution, variables=work.variables, context=self._context, caller=self._caller
        )
        outcomes = await services.run(batch, scheduler, in_this_task=True)
        await channel.send_and_wait(self._record.finish_round(outcomes), self._record.commit_round)

    def _add_usage(self, usage: LLMUsage | None) -> None:
        if usage is not None:
            self._usage = usage if self._usage is None else self._usage + usage

    def _finish(self, message: AssistantMessage, channel: Channel[TurnEvent]) -> None:
        final = message.model_copy(update={"usage": self._usage})
        channel.send_nowait(final, partial(self._record.commit_final, final))


def check_response(response: ModelResponse, catalogue: Catalogue) -> ModelResponse:
    """Return the response; raise for a batch without calls, or one from a model without tools."""
    if isinstance(response, ToolCallRequestList):
        if not response.tool_calls:
            raise ProviderProtocolError("the model's response is a batch of no tool calls")
        if not catalogue:
            raise UnexpectedToolCallError("Unexpected tool call without tools")
    return response


def _send_outcome(channel: Channel[TurnEvent], request: ToolCallRequest, outcome: ToolCallOutcome) -> None:
    channel.send_nowait(ToolOutcome(request, outcome))


def _send_progress(channel: Channel[TurnEvent], progress: ToolProgress) -> None:
    channel.send_latest(id(progress.request), progress)
