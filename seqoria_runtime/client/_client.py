"""`AsyncAIClient`: checks the arguments of each call and passes it on."""

import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import fields, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from seqoria_runtime._execution.places.adaptive import AdaptiveLimit, LimitChange
from seqoria_runtime._execution.streams.stream import Stream
from seqoria_runtime.models import (
    AssistantMessage,
    CallEvent,
    ChatChunk,
    History,
    ToolCallOutcome,
    ToolCallRequest,
    ToolCallRequestList,
    ToolMessages,
    ToolOutcome,
    ToolProgress,
    UserMessage,
)
from seqoria_runtime.providers._protocol import AsyncBaseProvider
from seqoria_runtime.toolbox import LocalToolbox, TextContent

from . import _arguments
from ._capacity import ClientStats
from ._history.record import HistoryRecord
from ._lifecycle import Lifecycle
from ._session import StepOptions
from ._settings import ClientSettings, Retry, ServerLike, Sources, check_settings
from ._turn import TurnOptions

if TYPE_CHECKING:
    from seqoria_runtime.mcp import MCPServer, MCPServerConfig, ServerStatus

_logger = logging.getLogger("seqoria_runtime")


class AsyncAIClient:  # noqa: PLR0904 - all that an application asks of its one central object
    """Runs the turns of an assistant that calls tools, for many conversations at once.

    Enter it once, at application start-up: `async with AsyncAIClient([provider]) as client:`. The task
    that entered it leaves it, which closes everything that it opened; it may then be entered again.
    Providers belong to the application and are closed after it. All options are those of
    `ClientSettings`; an argument beats `settings`, and `None` means not given. Raises `ValueError` or
    `TypeError`, which names the option, before any I/O.

    The tools may change while turns run: a round keeps the tools that it started with.
    """

    def __init__(  # noqa: PLR0913 - the options of an application's one central object, all but one by keyword
        self,
        providers: AsyncBaseProvider | Iterable[AsyncBaseProvider] | None = None,
        *,
        local_toolbox: LocalToolbox | Iterable[LocalToolbox] | None = None,
        mcp_servers: ServerLike | Iterable[ServerLike] | None = None,
        param_registry: Sources | None = None,
        max_concurrency: int | AdaptiveLimit | None = None,
        tool_timeout: float | None = None,
        allow_override: bool | None = None,
        blocked_tools: Iterable[str] | None = None,
        refresh_interval: float | None = None,
        retry_policy: Retry | None = None,
        breaker_threshold: int | None = None,
        breaker_reset_after: float | None = None,
        abandoned_grace: float | None = None,
        system_prompt: str | None = None,
        settings: ClientSettings | None = None,
        logger: logging.Logger | None = None,
        observers: Iterable[Callable[[CallEvent], object]] | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name in _OPTIONS and value is not None}
        if settings is not None and not isinstance(settings, ClientSettings):
            raise TypeError(f"'settings' must be ClientSettings, not {type(settings).__name__}")
        self._settings = check_settings(replace(settings or ClientSettings(), **given), _logger)
        self._lifecycle = Lifecycle(self._settings)

    async def __aenter__(self) -> Self:
        """Open the client; what was opened is closed again if this fails or is cancelled."""
        await self._lifecycle.enter()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the client: cancel its turns and batches, and return once all have ended.

        A cancelled caller waits all the same.
        """
        await self._lifecycle.leave(exc)

    def chat(  # noqa: PLR0913 - all but the query by keyword
        self,
        query: str,
        *,
        history: History | None = None,
        context: Mapping[str, Any] | None = None,
        max_turns: int = 5,
        model: str | None = None,
        tool_choice: str = "auto",
        user_message_content: list[dict[str, Any]] | None = None,
        keep_partial: bool = False,
    ) -> Stream[ToolMessages | AssistantMessage]:
        """Run one turn on the application's history list, of at most `max_turns` model responses.

        Yields a `ToolMessages` for each round of tool calls, and at last an `AssistantMessage`; each is
        in the history by then. `context` has the trusted values of this request. A forced
        `tool_choice` holds for the first round. Provider errors are raised out of the iteration; tool
        errors are outcomes. A turn that is closed, is cancelled or fails leaves a history that can be
        continued; `keep_partial` also keeps the text of an unfinished answer. At the limit, the last
        message has the `finish_reason` `"turn_limit"`.
        """
        options = TurnOptions(max_turns, model, tool_choice, keep_partial)
        return self._turn(_arguments.user_message(query, user_message_content), history, context, options)

    def stream_chat(  # noqa: PLR0913 - all but the query by keyword
        self,
        query: str,
        *,
        history: History | None = None,
        context: Mapping[str, Any] | None = None,
        max_turns: int = 5,
        model: str | None = None,
        tool_choice: str = "auto",
        user_message_content: list[dict[str, Any]] | None = None,
        keep_partial: bool = False,
        tool_events: bool = False,
    ) -> Stream[ChatChunk | ToolOutcome | ToolProgress | ToolMessages | AssistantMessage]:
        """Run one turn like `chat`, and also yield `ChatChunk` deltas as they arrive.

        With `tool_events`, also yields a `ToolOutcome` as soon as a call settles, before the round's
        `ToolMessages`, and a `ToolProgress` when a running call reports progress; only the latest of
        each call waits for the consumer.
        """
        options = TurnOptions(
            max_turns, model, tool_choice, keep_partial, stream=True, tool_events=tool_events
        )
        return self._turn(_arguments.user_message(query, user_message_content), history, context, options)

    def _turn(
        self,
        message: UserMessage,
        history: History | None,
        context: Mapping[str, Any] | None,
        options: TurnOptions,
    ) -> Stream[Any]:
        _arguments.check_turn(options)
        record = HistoryRecord(
            _arguments.history_list(history),
            message,
            system_prompt=self._settings.system_prompt,
            keep_partial=options.keep_partial,
        )
        trusted = _arguments.trusted_context(context)
        return self._lifecycle.require_session().turn(record, options, trusted)

    async def llm_generate_once(
        self,
        history: History,
        *,
        append_user_message: str | list[dict[str, Any]] | None = None,
        use_tools: bool = True,
        tool_choice: str = "auto",
        model: str | None = None,
    ) -> AssistantMessage | ToolCallRequestList:
        """Ask the model once; the caller runs the calls and records everything.

        Appends the user message, if one is given, and takes it back if the step fails or is
        cancelled. Text and reasoning that came with a batch of calls are in its `message`.
        """
        options = StepOptions(use_tools, tool_choice, model)
        record = self._step_record(history, append_user_message, options)
        return await self._lifecycle.require_session().step(record, options)

    def llm_stream_once(
        self,
        history: History,
        *,
        append_user_message: str | list[dict[str, Any]] | None = None,
        use_tools: bool = True,
        tool_choice: str = "auto",
        model: str | None = None,
    ) -> Stream[ChatChunk | AssistantMessage | ToolCallRequestList]:
        """Ask the model once, like `llm_generate_once`; yield `ChatChunk` deltas and then the response."""
        options = StepOptions(use_tools, tool_choice, model)
        record = self._step_record(history, append_user_message, options)
        return self._lifecycle.require_session().step_stream(record, options)

    def _step_record(
        self, history: History, user_message: str | list[dict[str, Any]] | None, options: StepOptions
    ) -> HistoryRecord:
        _arguments.check_step(options)
        return HistoryRecord(
            _arguments.history_list(history),
            _arguments.step_message(user_message),
            system_prompt=self._settings.system_prompt,
        )

    def run_tool_calls(
        self,
        calls: Iterable[ToolCallRequest] | ToolCallRequestList,
        *,
        context: Mapping[str, Any] | None = None,
    ) -> Coroutine[Any, Any, list[ToolCallOutcome]]:
        """Run a batch of calls; await it for one outcome per call, in their order.

        A cancelled caller finds every asynchronous call ended. Raises `ClientClosedError` if the
        client closes meanwhile, and a `KeyboardInterrupt` or `SystemExit` that a tool raised.
        """
        requests, trusted = _arguments.call_list(calls), _arguments.trusted_context(context)
        return self._lifecycle.require_session().run_calls(requests, trusted)

    def run_call_stream(
        self,
        calls: Iterable[ToolCallRequest] | ToolCallRequestList,
        *,
        context: Mapping[str, Any] | None = None,
    ) -> Stream[tuple[ToolCallRequest, ToolCallOutcome]]:
        """Run a batch of calls; yield each `(request, outcome)` as it settles."""
        requests, trusted = _arguments.call_list(calls), _arguments.trusted_context(context)
        return self._lifecycle.require_session().call_stream(requests, trusted)

    async def call_mcp_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        server_args: Mapping[str, Any] | None = None,
    ) -> list[TextContent]:
        """Call one tool by name, in a slot and under its timeout; `server_args` has its trusted values.

        The parameter registry is not asked. Raises `ToolNotFoundError` for an unknown or blocked
        tool, `ValueError` for a hidden name among the arguments or an unknown one in `server_args`,
        and `ToolExecutionError` if the call fails. A cancelled caller finds an asynchronous call ended.
        """
        call = _arguments.DirectCall.check(name, arguments, server_args)
        session = self._lifecycle.require_session()
        call.check_against(session.services.catalogue())
        [outcome] = await session.run_calls([call.request], call.server_args, direct=True)
        return _arguments.content_of(outcome)

    def list_tools(self) -> list[dict[str, Any]]:
        """Return the tools that models are offered now, as copies; none while the client is closed."""
        return self._lifecycle.tools.listed()

    def tools_enabled(self) -> bool:
        """Return whether any tool is offered now."""
        return bool(self._lifecycle.tools.catalogue)

    async def refresh_tools(self) -> None:
        """Read all tool lists again, and try again to connect the servers that are down.

        A list that cannot be read stays as it was; `mcp_status` says why. A cancelled caller may find
        some of the lists read; the client offers what they hold from the next refresh on.
        """
        self._lifecycle.require_session()
        await self._lifecycle.servers.refresh()
        self._lifecycle.refresh_tools()

    async def set_blocked_tools(self, names: Iterable[str], *, refresh: bool = True) -> None:
        """Block exactly these tools: they are neither offered nor run. A base name hides all its variants.

        Awaits nothing, and so cannot be cancelled half-way.
        """
        self._lifecycle.tools.set_blocked(names)
        self._refresh_if(refresh)

    async def block_tools(self, names: Iterable[str], *, refresh: bool = True) -> None:
        """Block these tools as well. Awaits nothing, and so cannot be cancelled half-way."""
        self._lifecycle.tools.block(names)
        self._refresh_if(refresh)

    async def unblock_tools(self, names: Iterable[str], *, refresh: bool = True) -> None:
        """Unblock these tools. Awaits nothing, and so cannot be cancelled half-way."""
        self._lifecycle.tools.unblock(names)
        self._refresh_if(refresh)

    async def add_mcp_servers(
        self, servers: ServerLike | Iterable[ServerLike], *, connect: bool = True, refresh_tools: bool = True
    ) -> int:
        """Add servers after those that are there; return how many were new, by their configuration.

        `connect` waits until each is connected or has failed to (see `mcp_status`), and needs an open
        client; without it they are connected by the next `refresh_tools` or the next opening. Raises
        `MCPConnectionError` for a required server that cannot be connected; it stays in the list, and
        so do the servers of a cancelled caller.
        """
        lifecycle = self._lifecycle
        root = lifecycle.require_session().root if connect or lifecycle.session is not None else None
        try:
            return await lifecycle.servers.add(servers, connect=connect, root=root)
        finally:
            self._refresh_if(refresh_tools)

    async def add_mcp_server(
        self, server: ServerLike, *, connect: bool = True, refresh_tools: bool = True
    ) -> int:
        """Add one server, as `add_mcp_servers` does; a cancelled caller finds it added."""
        return await self.add_mcp_servers([server], connect=connect, refresh_tools=refresh_tools)

    async def remove_mcp_servers(
        self,
        servers: ServerLike | Iterable[ServerLike],
        *,
        disconnect: bool = True,
        refresh_tools: bool = True,
    ) -> int:
        """Remove servers, given by configuration, name or URL; return how many there were.

        Their calls in flight fail at once. Returns when their connections are closed. A cancelled
        caller, and `disconnect=False`, do not wait for that; the connections are closed all the same.
        """
        try:
            return await self._lifecycle.servers.remove(servers, disconnect=disconnect)
        finally:
            self._refresh_if(refresh_tools)

    async def remove_mcp_server(
        self, server: ServerLike, *, disconnect: bool = True, refresh_tools: bool = True
    ) -> int:
        """Remove one server, as `remove_mcp_servers` does; a cancelled caller finds it removed."""
        return await self.remove_mcp_servers([server], disconnect=disconnect, refresh_tools=refresh_tools)

    def _refresh_if(self, wanted: bool) -> None:
        if wanted:
            self._lifecycle.refresh_tools()

    def list_mcp_servers(self) -> "list[MCPServerConfig]":
        """Return the configured servers, in order, also while the client is closed."""
        return list(self._lifecycle.servers.configs)

    def mcp_status(self) -> "list[ServerStatus]":
        """Return the state of each server, in configured order: connected, connecting, or down and why."""
        return list(self._lifecycle.servers.status())

    def mcp(self, server: ServerLike) -> "MCPServer":
        """Return one server, given by configuration, name or URL: its resources, prompts and session.

        Raises `ValueError` unless that is exactly one of the configured servers.
        """
        self._lifecycle.require_session()
        return self._lifecycle.servers.handle(server)

    def stats(self) -> ClientStats:
        """Return how many tool calls run, wait and are abandoned, by tool, and the limits; awaits nothing."""
        return self._lifecycle.stats()

    def limit_history(self) -> tuple[LimitChange, ...]:
        """Return how an `AdaptiveLimit` has changed, the current limit last; empty for a fixed limit."""
        return self._lifecycle.capacity.history


_OPTIONS = frozenset(option.name for option in fields(ClientSettings))
