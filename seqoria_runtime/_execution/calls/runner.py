"""Runs one call in its places: deadline, trusted values, the tool, and the evidence of how it ended.

Knows nothing of batches; it reports a cancellation and leaves it to its worker to raise it.
"""

import inspect
import math
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context, ContextVar
from functools import partial
from types import CoroutineType
from typing import Any, NamedTuple

from anyio import CancelScope, current_effective_deadline, get_cancelled_exc_class

from seqoria_runtime._base.tools import Tool
from seqoria_runtime._execution.batches import outcomes
from seqoria_runtime._execution.places.places import Places, launch
from seqoria_runtime._execution.places.pool import Grant
from seqoria_runtime.models import ToolCallRequest, ToolProgress

from .driver import Driver
from .hidden_parameters import resolve_hidden
from .settings import ExecutionSettings
from .threads import Returned, ThreadCall
from .verdict import Ended, Evidence, judge


class RunningCall(NamedTuple):
    """A tool call as seen by the code that runs for it: its request and its trusted values."""

    request: ToolCallRequest
    context: Mapping[str, Any]
    report: Callable[[ToolProgress], None] | None
    """Reports progress to the consumer of the turn; `None` if the turn has no tool events."""


_running: ContextVar["tuple[Grant, ToolCallRequest, CallRunner] | None"] = ContextVar(
    "seqoria_runtime_call", default=None
)


def running_call() -> RunningCall | None:
    """Return the tool call in which this code runs, if any."""
    running = _running.get()
    if running is None:
        return None
    _, request, runner = running
    return RunningCall(request, runner.context, runner.report)


def running_grant() -> Grant | None:
    """Return the grant of the tool call in which this code runs, if any."""
    running = _running.get()
    return None if running is None else running[0]


class _Thread:
    """A worker thread of a call. If the call ends first, the thread keeps the call's places until it ends."""

    __slots__ = ("_places", "call", "ended", "grant")

    def __init__(self, function: Callable[[], Any], places: Places) -> None:
        self._places = places
        self.call = ThreadCall(function, on_exit=self._exited)
        self.ended = False
        self.grant: Grant | None = None

    def _exited(self) -> None:
        self.ended = True
        if self.grant is not None:
            launch(self._places.thread_ended(self.grant))


class CallRunner:
    """Runs calls one after another in the task that made it, each in its own copy of the context."""

    __slots__ = (
        "_began", "_cancelled_class", "_driver", "_on_suspend", "_settings", "_suspended", "_thread",
        "_variables", "context", "report",
    )  # fmt: skip

    def __init__(
        self,
        settings: ExecutionSettings,
        *,
        variables: Context,
        context: Mapping[str, Any],
        on_suspend: Callable[[], None],
        on_progress: Callable[[ToolProgress], None] | None = None,
    ) -> None:
        self._settings = settings
        self._variables = variables
        self.context = context
        self.report = on_progress
        self._on_suspend = on_suspend
        self._driver = Driver()
        self._cancelled_class = get_cancelled_exc_class()
        self._thread: _Thread | None = None
        self._began = False
        self._suspended = False

    async def run(
        self, request: ToolCallRequest, tool: Tool, prepared: Any, grant: Grant, scope: CancelScope
    ) -> Ended:
        """Run one call under `scope` and set its deadline there; return how it ended."""
        timeout = tool.timeout if tool.timeout is not None else self._settings.tool_timeout
        deadline = self._set_deadline(timeout, scope)
        grant.tool = request.name
        variables = self._variables.copy()
        variables.run(_running.set, (grant, request, self))
        self._began = not tool.hidden
        self._suspended = False
        value: Any = None
        failure: BaseException | None = None
        try:
            coroutine = self._call(tool, prepared, variables)
            ended, value = self._driver.begin(coroutine, variables)
            if not ended:
                self._note_suspended()
                value = await self._driver.finish(coroutine, variables)
        except BaseException as exc:  # noqa: BLE001 - the one place where an exception becomes an outcome
            failure = exc
        overran = deadline != math.inf and self._settings.now() >= deadline
        thread_runs = False
        if self._thread is not None:
            thread_runs, failure, value = self._leave_thread(grant, tool, failure, value)
        text = ""
        if failure is None and not overran:
            try:
                text = variables.run(tool.render, value)
            except BaseException as exc:  # noqa: BLE001 - rendering runs the application's own serializers
                failure = exc
        try:
            if failure is None and not overran and not self._driver.disturbed:
                return Ended(outcomes.result(request, text), self._suspended, thread_runs)
            evidence = self._look_into(failure, text, timeout if overran else None)
            return judge(request, evidence, suspended=self._suspended, thread_runs=thread_runs)
        finally:
            del failure  # its traceback holds this frame

    def _set_deadline(self, timeout: float | None, scope: CancelScope) -> float:
        deadline = math.inf if timeout is None else self._settings.now() + timeout
        if scope.deadline != deadline:
            scope.deadline = deadline
        return deadline

    def _note_suspended(self) -> None:
        self._suspended = True
        self._on_suspend()

    def _call(self, tool: Tool, prepared: Any, variables: Context) -> Coroutine[Any, Any, Any]:
        if tool.blocking or tool.hidden:
            return self._invoke(tool, prepared)
        try:
            value = variables.run(tool.call, prepared)
        except BaseException:
            self._driver.forget()
            raise
        return value if type(value) is CoroutineType else _await(value)

    async def _invoke(self, tool: Tool, prepared: Any) -> Any:
        if tool.hidden:
            values = await resolve_hidden(
                tool.missing(prepared),
                context=self.context,
                registry=self._settings.registry,
                run_sync=self._run_in_thread,
                tool_name=tool.name,
            )
            prepared = tool.complete(prepared, values)
            self._began = True
        bound = partial(tool.call, prepared)
        value = await self._run_in_thread(bound) if tool.blocking else bound()
        return await value if inspect.isawaitable(value) else value

    async def _run_in_thread(self, function: Callable[[], Any]) -> Any:
        self._thread = _Thread(function, self._settings.places)
        return await self._thread.call.run()

    def _leave_thread(
        self, grant: Grant, tool: Tool, failure: BaseException | None, value: Any
    ) -> tuple[bool, BaseException | None, Any]:
        """Leave the places to the call's thread if that still runs; return that, and how the call ended.

        A call that was cancelled just as its thread finished ended as the thread did.
        """
        thread, self._thread = self._thread, None
        assert thread is not None
        if not thread.ended:
            thread.grant = grant
        outcome = thread.call.outcome
        if isinstance(failure, self._cancelled_class) and tool.blocking and self._began and outcome:
            failure = None if isinstance(outcome, Returned) else outcome.error
            value = outcome.value if isinstance(outcome, Returned) else None
        return not thread.ended, failure, value

    def _look_into(self, failure: BaseException | None, text: str, timeout: float | None) -> Evidence:
        """Gather the evidence; take back the call's own cancels before looking for those of other code."""
        driver = self._driver
        cancelled_own_task = driver.take_self_cancels() > 0
        return Evidence(
            failure,
            text,
            timeout,
            self._began,
            current_effective_deadline() == -math.inf,
            driver.delivered,
            driver.natively_cancelled,
            cancelled_own_task,
            self._cancelled_class,
        )


async def _await(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
