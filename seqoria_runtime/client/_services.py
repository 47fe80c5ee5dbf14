"""What the turns, steps and batches of an open client share: its models, its tools, its live batches."""

from collections.abc import Callable, Sequence

from seqoria_runtime._base.catalogue import Catalogue
from seqoria_runtime._execution.batches.batch import Batch
from seqoria_runtime._execution.calls.scheduler import Scheduler
from seqoria_runtime._execution.calls.settings import ExecutionSettings
from seqoria_runtime.models import ChatMessage, ToolCallOutcome, ToolCallRequestList
from seqoria_runtime.models.errors import ProviderProtocolError, UnexpectedToolCallError
from seqoria_runtime.providers._protocol import (
    AsyncBaseProvider,
    ModelRequest,
    ModelResponse,
    ToolDefinition,
)


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


def check_response(response: ModelResponse, catalogue: Catalogue) -> ModelResponse:
    """Return the response; raise for a batch without calls, or one from a model without tools."""
    if isinstance(response, ToolCallRequestList):
        if not response.tool_calls:
            raise ProviderProtocolError("the model's response is a batch of no tool calls")
        if not catalogue:
            raise UnexpectedToolCallError("Unexpected tool call without tools")
    return response
