"""Owns `AsyncAIClient`: the checks of each call, and what the client is made of while it is open."""

import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from seqoria_runtime._execution.places.adaptive import AdaptiveLimit
from seqoria_runtime._execution.streams.stream import HostedStream
from seqoria_runtime.models import (
    AssistantMessage,
    CallEvent,
    ChatChunk,
    ToolCallOutcome,
    ToolCallRequest,
    ToolCallRequestList,
    ToolMessages,
    ToolOutcome,
    ToolProgress,
)
from seqoria_runtime.toolbox import TextContent

from . import _arguments, _live_turns
from ._direct import DirectCall
from ._history.record import StepRecord, TurnRecord, check_history
from ._session import StepOptions
from ._settings import ClientSettings, check_settings
from ._tool_methods import ClientTools

_logger = logging.getLogger("seqoria_runtime")


class AsyncAIClient(ClientTools):
    """Runs the turns of an assistant that calls tools, for many conversations at once.

    Enter it once, at application start-up: `async with AsyncAIClient([provider]) as client:`. It is
    left by the task that entered it, closes everything that it opened, and may be entered again.
    Providers belong to the application and are closed after it. All options are those of
    `ClientSettings`; an argument that is given beats `settings`, `None` means not given. Raises
    `ValueError` or `TypeError`, which names the option, before any I/O.
    """

    def __init__(  # noqa: PLR0913 - the options of an application's one central object, all but one by keyword
        self,
        providers: Any = None,
        *,
        local_toolbox: Any = None,
        mcp_servers: Any = None,
        param_registry: Any = None,
        max_concurrency: int | AdaptiveLimit | None = None,
        tool_timeout: float | None = None,
        allow_override: bool | None = None,
        blocked_tools: Iterable[str] | None = None,
        refresh_interval: float | None = None,
        retry_policy: Any = None,
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
        super().__init__(check_settings(replace(settings or ClientSettings(), **given), _logger))

    def chat(  # noqa: PLR0913 - all but the query by keyword
        self,
        query: str,
        *,
        history: list[Any] | None = None,
        context: Mapping[str, Any] | None = None,
        max_turns: int = 5,
        model: str | None = None,
        tool_choice: str = "auto",
        user_message_content: list[dict[str, Any]] | None = None,
        keep_partial: bool = False,
    ) -> HostedStream[ToolMessages | AssistantMessage]:
        """Run one turn on the application's history list, of at most `max_turns` model responses.

        Yields a `ToolMessages` for each round of tool calls, and at last an `AssistantMessage`; each
        is in the history by then. `context` holds the trusted values of this request. A forced
        `tool_choice` holds for the first round. Provider errors are raised out of the iteration;
        tool errors are outcomes. A turn that is closed, cancelled or fails leaves a history that
        can be continued; `keep_partial` leaves the text of an unfinished answer in it too.
        """
        options = _arguments.turn_options(
            max_turns=max_turns, model=model, tool_choice=tool_choice, stream=False, keep_partial=keep_partial
        )
        return self._turn(query, user_message_content, history, context, options)

    def stream_chat(  # noqa: PLR0913 - all but the query by keyword
        self,
        query: str,
        *,
        history: list[Any] | None = None,
        context: Mapping[str, Any] | None = None,
        max_turns: int = 5,
        model: str | None = None,
        tool_choice: str = "auto",
        user_message_content: list[dict[str, Any]] | None = None,
        keep_partial: bool = False,
        tool_events: bool = False,
    ) -> HostedStream[ChatChunk | ToolOutcome | ToolProgress | ToolMessages | AssistantMessage]:
        """Run one turn like `chat`, and also yield `ChatChunk` deltas as they arrive.

        With `tool_events`, a `ToolOutcome` is yielded the moment a call settles, before the round's
        `ToolMessages`, and a `ToolProgress` when a running call reports its progress; of these only the
        latest of each call waits for the consumer.
        """
        options = _arguments.turn_options(
            max_turns=max_turns,
            model=model,
            tool_choice=tool_choice,
            stream=True,
            tool_events=tool_events,
            keep_partial=keep_partial,
        )
        return self._turn(query, user_message_content, history, context, options)

    def _turn(self, query: Any, content: Any, history: Any, context: Any, options: Any) -> HostedStream[Any]:
        own_list = check_history(history)
        trusted = _arguments.trusted_context(context)
        record = TurnRecord(
            own_list,
            _arguments.user_message(query, content),
            system_prompt=self._settings.system_prompt,
            keep_partial=options.keep_partial,
            on_settled=lambda: _live_turns.release(own_list),
        )
        return self._require_session().turn(record, options, trusted)

    async def llm_generate_once(
        self,
        history: list[Any],
        *,
        append_user_message: str | list[dict[str, Any]] | None = None,
        use_tools: bool = True,
        tool_choice: str = "auto",
        model: str | None = None,
    ) -> AssistantMessage | ToolCallRequestList:
        """Ask the model once; the caller runs the calls and records everything.

        Appends the user message, if one is given, and takes it back if the step fails or is
        cancelled. What came beside a batch of calls is in its `message`.
        """
        record, options = self._step(history, append_user_message, use_tools, tool_choice, model)
        return await self._require_session().step(record, options)

    def llm_stream_once(
        self,
        history: list[Any],
        *,
        append_user_message: str | list[dict[str, Any]] | None = None,
        use_tools: bool = True,
        tool_choice: str = "auto",
        model: str | None = None,
    ) -> HostedStream[ChatChunk | AssistantMessage | ToolCallRequestList]:
        """Ask the model once, like `llm_generate_once`, yielding `ChatChunk` deltas and then the response."""
        record, options = self._step(history, append_user_message, use_tools, tool_choice, model)
        return self._require_session().step_stream(record, options)

    def _step(
        self, history: Any, user_message: Any, use_tools: Any, tool_choice: Any, model: Any
    ) -> tuple[StepRecord, StepOptions]:
        record = StepRecord(
            check_history(history),
            _arguments.step_message(user_message),
            system_prompt=self._settings.system_prompt,
        )
        return record, _arguments.step_options(use_tools=use_tools, tool_choice=tool_choice, model=model)

    def run_tool_calls(
        self,
        calls: Iterable[ToolCallRequest] | ToolCallRequestList,
        *,
        context: Mapping[str, Any] | None = None,
    ) -> Coroutine[Any, Any, list[ToolCallOutcome]]:
        """Run a batch of calls in the caller's task; await it for one outcome per call, in their order.

        A cancelled caller finds every asynchronous call ended. Raises `ClientClosedError` if the
        client closes meanwhile, and a `KeyboardInterrupt` or `SystemExit` that a tool raised.
        """
        whole, trusted = _arguments.call_list(calls), _arguments.trusted_context(context)
        return self._require_session().run_calls(whole, trusted)

    def run_call_stream(
        self,
        calls: Iterable[ToolCallRequest] | ToolCallRequestList,
        *,
        context: Mapping[str, Any] | None = None,
    ) -> HostedStream[tuple[ToolCallRequest, ToolCallOutcome]]:
        """Run a batch of calls; yield each `(request, outcome)` as it settles."""
        whole, trusted = _arguments.call_list(calls), _arguments.trusted_context(context)
        return self._require_session().call_stream(whole, trusted)

    async def call_mcp_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        server_args: Mapping[str, Any] | None = None,
    ) -> list[TextContent]:
        """Call one tool by name, in a slot and under its timeout; `server_args` are its trusted values.

        The parameter registry is not asked. Raises `ToolNotFoundError` for an unknown or blocked
        tool, `ValueError` for a hidden name among the arguments or an unknown one in `server_args`,
        and `ToolExecutionError` if the call fails.
        """
        call = DirectCall.check(name, arguments, server_args)
        session = self._require_session()
        call.check_against(self._tools.catalogue)
        [outcome] = await session.run_calls([call.request], call.server_args, direct=True)
        return call.content(outcome)


_OPTIONS = frozenset(option.name for option in fields(ClientSettings))
