"""Owns the loop of one turn: ask the model, run the batch it asks for, commit the round, ask again.

Runs as hosted work; it tells its consumer through a channel, and the history through its record.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from seqoria_runtime._base.catalogue import Catalogue
from seqoria_runtime._execution.batches.batch import Batch
from seqoria_runtime._execution.calls.scheduler import Scheduler
from seqoria_runtime._execution.calls.settings import ExecutionSettings
from seqoria_runtime._execution.places.places import Grant
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
from seqoria_runtime.providers._protocol import (
    AsyncBaseProvider,
    ModelRequest,
    ModelResponse,
    ToolDefinition,
)

from ._history.record import TurnRecord

TurnEvent: TypeAlias = ChatChunk | ToolOutcome | ToolProgress | ToolMessages | AssistantMessage

TURN_LIMIT_TEXT = "[Turn limit reached]"


class TurnOptions(NamedTuple):
    """What the application asked for in one `chat` or `stream_chat`."""

    max_turns: int
    model: str | None
    tool_choice: str
    stream: bool
    tool_events: bool
    keep_partial: bool


class Definitions:
    """The tools of a catalogue as models are told of them; those of the last catalogue are kept."""

    def __init__(self) -> None:
        self._catalogue = Catalogue()
        self._definitions: tuple[ToolDefinition, ...] = ()

    def of(self, catalogue: Catalogue) -> tuple[ToolDefinition, ...]:
        if catalogue is not self._catalogue:
            self._definitions = tuple(
                ToolDefinition(entry.name, entry.tool.description, entry.tool.parameters)
                for entry in catalogue.entries.values()
            )
            self._catalogue = catalogue
        return self._definitions


class Services(NamedTuple):
    """What a turn uses of its client. `catalogue` gives the snapshot of now."""

    providers: Sequence[AsyncBaseProvider]
    catalogue: Callable[[], Catalogue]
    execution: ExecutionSettings
    batches: set[Batch]
    definitions: Definitions


class Turn:
    """One turn. `context` is for its tools, `caller` is the tool call that started it, if any."""

    def __init__(
        self,
        services: Services,
        record: TurnRecord,
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
        """Run rounds until the model answers in text or the limit is reached."""
        channel = work.channel
        tool_choice = self._options.tool_choice
        for _ in range(self._options.max_turns):
            catalogue = self._services.catalogue()
            tools = self._services.definitions.of(catalogue)
            request = model_request(self._record.messages, tools, tool_choice, self._options.model)
            response = await self._ask(request, channel)
            self._add_usage(response.usage)
            if isinstance(response, AssistantMessage):
                self._finish(response, channel)
                return
            check_calls(response, catalogue)
            await self._run_batch(response, catalogue, work)
            tool_choice = "none" if tool_choice == "none" else "auto"
        self._finish(AssistantMessage(content=TURN_LIMIT_TEXT), channel)

    async def _ask(self, request: ModelRequest, channel: Channel[TurnEvent]) -> ModelResponse:
        if not self._options.stream and not self._options.keep_partial:
            return await generate_with_fallback(self._services.providers, request)
        # Most deltas find room: they are handed over without a coroutine of their own.
        plain = self._options.stream and not self._options.keep_partial
        async with aclosing(stream_with_fallback(self._services.providers, request)) as events:
            async for event in events:
                if plain and isinstance(event, ChatChunk) and channel.try_send(event):
                    continue
                if isinstance(event, ChatChunk):
                    await self._pass_on(event, channel)
                elif isinstance(event, (AssistantMessage, ToolCallRequestList)):
                    return event
        raise ProviderProtocolError("the model's stream ended without a response")

    async def _pass_on(self, chunk: ChatChunk, channel: Channel[TurnEvent]) -> None:
        if not self._options.stream:
            self._record.note_text(chunk.content)
        elif self._options.keep_partial:
            await channel.send(chunk, partial(self._record.note_text, chunk.content))
        else:
            await channel.send(chunk)

    async def _run_batch(
        self, response: ToolCallRequestList, catalogue: Catalogue, work: HostedWork[TurnEvent]
    ) -> None:
        calls, channel = response.tool_calls, work.channel
        batch = self._services.execution.new_batch(
            calls,
            catalogue,
            on_settled=partial(_tell, channel) if self._options.tool_events else None,
            on_progress=partial(_tell_progress, channel) if self._options.tool_events else None,
        )
        self._record.open_round(response.message, calls, batch)
        scheduler = Scheduler(
            batch,
            self._services.execution,
            variables=work.variables,
            context=self._context,
            caller=self._caller,
        )
        self._services.batches.add(batch)
        try:
            outcomes = await scheduler.run(in_this_task=True)
        finally:
            self._services.batches.discard(batch)
        await channel.send_and_wait(self._record.complete_round(outcomes), self._record.commit_round)

    def _add_usage(self, usage: LLMUsage | None) -> None:
        if usage is not None:
            self._usage = usage if self._usage is None else self._usage + usage

    def _finish(self, message: AssistantMessage, channel: Channel[TurnEvent]) -> None:
        final = message.model_copy(update={"usage": self._usage})
        channel.send_nowait(final, partial(self._record.commit_final, final))


def _tell(channel: Channel[TurnEvent], request: ToolCallRequest, outcome: ToolCallOutcome) -> None:
    channel.send_nowait(ToolOutcome(request, outcome))


def _tell_progress(channel: Channel[TurnEvent], progress: ToolProgress) -> None:
    channel.send_latest(id(progress.request), progress)


def model_request(
    messages: Sequence[ChatMessage], tools: Sequence[ToolDefinition], tool_choice: str, model: str | None
) -> ModelRequest:
    """The question to the model; without tools nothing is said of tools at all."""
    if not tools:
        return ModelRequest(messages, model=model)
    if tool_choice not in {"auto", "required", "none"} and all(tool.name != tool_choice for tool in tools):
        raise ValueError(
            "'tool_choice' must be 'auto', 'required', 'none' or the name of an available tool, "
            f"not {tool_choice!r}"
        )
    return ModelRequest(messages, tools=tools, tool_choice=tool_choice, model=model)


def check_calls(response: ToolCallRequestList, catalogue: Catalogue) -> None:
    """Refuse a batch that nobody asked for, or that asks for nothing."""
    if not response.tool_calls:
        raise ProviderProtocolError("the model's response is a batch of no tool calls")
    if not catalogue:
        raise UnexpectedToolCallError("Unexpected tool call without tools")
