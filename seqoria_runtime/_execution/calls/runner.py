"""Owns one call from its slot to its outcome: deadline, trusted values, the tool, and the verdict.

A call's result is a value: whatever the tool does becomes a `ToolCallResult` or a `ToolCallError`
here. Knows nothing of batches; cancellation belongs to whoever cancelled, and is only reported.
"""

import inspect
import math
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context, ContextVar
from dataclasses import dataclass
from functools import partial
from types import CoroutineType
from typing import Any, NamedTuple

from anyio import CancelScope, current_effective_deadline, get_cancelled_exc_class

from seqoria_runtime._base.tools import Tool, ToolFailure
from seqoria_runtime._execution.batches import outcomes
from seqoria_runtime._execution.places.slots import CallLease, Slot, Slots
from seqoria_runtime.models import ToolCallOutcome, ToolCallRequest, ToolProgress

from .driver import Driver
from .hidden_parameters import ParameterRegistry, resolve_hidden
from .threads import Returned, ThreadCall, ThreadOutcome

current_lease: ContextVar[CallLease | None] = ContextVar("current_lease", default=None)
"""The call in which this code runs, if any."""


@dataclass(frozen=True, slots=True)
class ExecutionSettings:
    """What all calls of a client have in common. Times are seconds; `now` is the event loop's clock.

    `listeners` are told of each `CallEvent`.
    """

    slots: Slots
    now: Callable[[], float]
    tool_timeout: float | None = None
    abandoned_grace: float = 30.0
    registry: ParameterRegistry | None = None
    allow_override: bool = False
    listeners: tuple[Callable[[Any], None], ...] = ()


class RunningCall(NamedTuple):
    """What code that runs for a tool call may know of it: the request and its trusted values."""

    request: ToolCallRequest
    context: Mapping[str, Any]
    report: Callable[[ToolProgress], None] | None
    """Tells the turn's consumer of progress; `None` where nobody listens."""


def running_call() -> RunningCall | None:
    """The tool call in which this code runs, if any."""
    lease = current_lease.get()
    if lease is None or not isinstance(lease.call, tuple):
        return None
    request, runner = lease.call
    return RunningCall(request, runner.trusted, runner.on_progress)


class _Thread:
    """A worker thread of a call; it takes over the call's slot if the call ends before it."""

    __slots__ = ("_slots", "call", "ended", "slot")

    def __init__(self, function: Callable[[], Any], slots: Slots) -> None:
        self._slots = slots
        self.call = ThreadCall(function, on_exit=self._exited)
        self.ended = False
        self.slot: Slot | None = None

    def _exited(self) -> None:
        self.ended = True
        if self.slot is not None:
            self._slots.reclaim(self.slot)


class CallRunner:
    """Runs calls one after another in the task that made it, each in a context of its own.

    After each call `slot_kept` tells whether the slot is still the worker's, `suspended` whether other
    tasks could run meanwhile, and `disturbed` whether the call raised or was cancelled on its way. If
    so, `interruption` is the real cancellation that ended it, to be raised by the worker, `crash` a
    `KeyboardInterrupt` or `SystemExit` out of it, `cut_short` tells whether the call ended only because
    a scope around it was cancelled, and `self_cancelled` whether it cancelled the worker's own task.
    """

    __slots__ = (
        "_began", "_caller", "_cancelled_class", "_deadline", "_driver", "_on_suspend", "_scope",
        "_scope_cancelled", "_settings", "_thread", "_variables", "crash", "cut_short", "disturbed",
        "interruption", "on_progress", "self_cancelled", "slot_kept", "suspended", "trusted",
    )  # fmt: skip

    def __init__(
        self,
        settings: ExecutionSettings,
        *,
        variables: Context,
        context: Mapping[str, Any],
        caller: CallLease | None,
        on_suspend: Callable[[], None],
        on_progress: Callable[[ToolProgress], None] | None = None,
    ) -> None:
        self._settings = settings
        self._variables = variables
        self.trusted = context
        self.on_progress = on_progress
        self._caller = caller
        self._driver = Driver()
        self._cancelled_class = get_cancelled_exc_class()
        self._on_suspend = on_suspend
        self._scope: CancelScope | None = None
        self._deadline = math.inf
        self._thread: _Thread | None = None
        self._began = False
        self._scope_cancelled = False
        self.interruption: BaseException | None = None
        self.crash: BaseException | None = None
        self.cut_short = False
        self.slot_kept = True
        self.suspended = False
        self.disturbed = False
        self.self_cancelled = False

    async def run(
        self, request: ToolCallRequest, tool: Tool, prepared: Any, slot: Slot, scope: CancelScope
    ) -> ToolCallOutcome:
        """Run one call in its slot, under `scope`, whose deadline it moves; give its outcome."""
        settings = self._settings
        timeout = tool.timeout if tool.timeout is not None else settings.tool_timeout
        started = settings.now()
        deadline = math.inf if timeout is None else started + timeout
        self._deadline, self._scope = deadline, scope
        if scope.deadline != math.inf:
            scope.deadline = deadline  # in the place of the last call's, which this one must not find
        lease = CallLease(settings.slots, slot, request.name, self._caller)
        lease.call = (request, self)
        variables = self._variables.copy()
        variables.run(current_lease.set, lease)
        self._began = not tool.hidden
        self.suspended = self.disturbed = self.cut_short = False
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
        overran = settings.now() >= deadline
        thread = self._leave(lease)
        if failure is not None or self._driver.disturbed:
            of_tool = thread if tool.blocking and self._began else None
            failure, value = self._look_into(failure, value, of_tool)
        try:
            if overran and timeout is not None:
                return outcomes.timed_out(request, timeout, began=self._began)
            if failure is not None:
                return self._error(request, failure)
            return self._rendered(request, tool, value, variables)
        finally:
            del failure  # its traceback holds this frame

    def _call(self, tool: Tool, prepared: Any, variables: Context) -> Coroutine[Any, Any, Any]:
        if tool.blocking or tool.hidden:
            return self._invoke(tool, prepared)
        try:
            value = variables.run(tool.call, prepared)
        except BaseException:
            self._driver.forget()
            raise
        return value if type(value) is CoroutineType else _await(value)

    def _note_suspended(self) -> None:
        self.suspended = True
        # Moving a deadline costs more than all else here, and one cannot strike before a suspension.
        if self._scope is not None and self._scope.deadline != self._deadline:
            self._scope.deadline = self._deadline
        self._on_suspend()

    async def _invoke(self, tool: Tool, prepared: Any) -> Any:
        if tool.hidden:
            wanted = tool.missing(prepared)
            values = await resolve_hidden(
                wanted,
                context=self.trusted,
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
        self._thread = _Thread(function, self._settings.slots)
        return await self._thread.call.run()

    def _leave(self, lease: CallLease) -> _Thread | None:
        """End the lease; leave the slot with the call's thread where that still runs."""
        thread, self._thread = self._thread, None
        abandoned = thread is not None and not thread.ended
        if thread is not None and abandoned:
            thread.slot = lease.slot
        self.slot_kept = self._settings.slots.end(lease, abandoned=abandoned)
        return thread

    def _look_into(
        self, failure: BaseException | None, value: Any, thread: _Thread | None
    ) -> tuple[BaseException | None, Any]:
        """Find out whose a cancellation was, after a call that raised or was cancelled on its way.

        Ask the scopes, the task and the driver, never the exception's type alone: a tool can raise
        anything. A cancelled call whose thread had finished all the same has the thread's outcome.
        """
        self.disturbed = True
        self.interruption = self.crash = None
        self._scope_cancelled = False
        cancelled = self._cancelled_class
        self.self_cancelled = self._driver.take_self_cancels() > 0
        delivered = self._driver.delivered
        if current_effective_deadline() == -math.inf:
            self._scope_cancelled = True
            self.interruption = failure if isinstance(failure, cancelled) else None
        elif isinstance(delivered, GeneratorExit):
            self.interruption = delivered
        elif isinstance(delivered, cancelled) and self._driver.natively_cancelled:
            # A scope inside the call may have cancelled it since: that exception would end at a scope.
            self.interruption = cancelled()
        if isinstance(failure, cancelled) and thread is not None and thread.call.outcome is not None:
            failure, value = _of_thread(thread.call.outcome)
        self.crash = _crash(failure)
        return failure, value

    def _rendered(
        self, request: ToolCallRequest, tool: Tool, value: Any, variables: Context
    ) -> ToolCallOutcome:
        try:
            return outcomes.result(request, variables.run(tool.render, value))
        except BaseException as exc:  # noqa: BLE001 - rendering runs the application's own serializers
            if not self.disturbed:
                self._look_into(exc, None, None)
            self.crash = self.crash or _crash(exc)
            return self._error(request, exc)

    def _error(self, request: ToolCallRequest, failure: BaseException) -> ToolCallOutcome:
        if isinstance(failure, ToolFailure):
            return outcomes.error(request, failure.kind, str(failure))
        if self.interruption is None or not isinstance(failure, self._cancelled_class):
            if not self._began:
                return outcomes.unresolved(request, failure)
            return outcomes.raised(request, failure)
        self.cut_short = self._scope_cancelled
        if self._began:
            return outcomes.cancelled_while_running(request)
        return outcomes.cancelled_before_start(request)


def _of_thread(outcome: ThreadOutcome[Any]) -> tuple[BaseException | None, Any]:
    return (None, outcome.value) if isinstance(outcome, Returned) else (outcome.error, None)


async def _await(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _crash(failure: BaseException | None) -> BaseException | None:
    """The request to end the program in what a call raised, if there is one."""
    if not isinstance(failure, BaseExceptionGroup):
        return failure if isinstance(failure, (KeyboardInterrupt, SystemExit)) else None
    leaves = outcomes.leaves(failure)
    return next((leaf for leaf in leaves if isinstance(leaf, (KeyboardInterrupt, SystemExit))), None)
