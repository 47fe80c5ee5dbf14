"""The properties of a good toolbox, one function for each. They raise `Problem`.

Each runs one example in a new event loop, in virtual time.
"""

from collections.abc import AsyncGenerator, Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio

from seqoria_runtime._base.tools import ToolFailure
from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.models import ToolCallRequest
from seqoria_runtime.models.errors import ToolExecutionError
from seqoria_runtime.testing._clock.deadlock import VirtualTimeDeadlock
from seqoria_runtime.testing._clock.deadlock_watch import Backend
from seqoria_runtime.testing._explore.everywhere import cancel_everywhere
from seqoria_runtime.testing._explore.explore import ScheduleFailure
from seqoria_runtime.testing._explore.interruption import Interruption
from seqoria_runtime.testing._leaks import LeakError, check_no_leaks, snapshot
from seqoria_runtime.testing._model.scripted_provider import ScriptedProvider
from seqoria_runtime.testing._trace.recorded import RecordedToolbox, record_batch
from seqoria_runtime.testing._trace.trace import InvariantError, Trace, TracedCall
from seqoria_runtime.testing._virtual_time import run_virtual, wait_for_abandoned_threads
from seqoria_runtime.testing.invariants import check_trace
from seqoria_runtime.toolbox import LocalToolbox
from seqoria_runtime.toolbox._tool import FunctionTool

Region: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]

_PATIENCE = 1e6
_POINTS = 5


class Problem(AssertionError):
    """A toolbox breaks a property; `calls` show it, under these limits."""

    def __init__(
        self, text: str, calls: Sequence[ToolCallRequest], limits: "Limits", tool: str | None = None
    ) -> None:
        super().__init__(text)
        self.calls = tuple(calls)
        self.limits = limits
        self.tool = tool

    @property
    def endless(self) -> bool:
        """Whether the calls never end."""
        return isinstance(self.__cause__, VirtualTimeDeadlock)


class NotCheckedError(Exception):
    """A tool cannot be called; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The slots of a batch, and the seconds that each call may take."""

    max_concurrency: int = 2
    tool_timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """The toolbox to check, with the trusted values that its tools need.

    `allowed` has the names of exception classes that its tools raise on purpose.
    """

    toolbox: LocalToolbox
    context: Mapping[str, Any] = field(default_factory=dict)
    allowed: Collection[str] = ()

    def client(self, tools: LocalToolbox, limits: Limits) -> AsyncAIClient:
        return AsyncAIClient(
            [ScriptedProvider([])],
            local_toolbox=tools,
            max_concurrency=limits.max_concurrency,
            tool_timeout=limits.tool_timeout,
            abandoned_grace=_PATIENCE,
            system_prompt="",
        )


class _Rest(LocalToolbox):
    def __init__(self, source: LocalToolbox, names: Collection[str]) -> None:
        super().__init__()
        self._tools = {
            tool.name: tool
            for tool in source.tools
            if isinstance(tool, FunctionTool) and tool.name not in names
        }


def without(toolbox: LocalToolbox, names: Collection[str]) -> LocalToolbox:
    """Return the toolbox without some of its tools."""
    return _Rest(toolbox, names)


def valid_call(subject: Subject, backend: Backend, request: ToolCallRequest) -> None:
    """A call with arguments that its tool accepts has a result that can be serialized."""
    limits = Limits()
    [call] = _run(subject, backend, [request], limits).calls
    if call.kind == "missing_parameter":
        raise NotCheckedError(str(getattr(call.outcome, "error", "")))
    if call.kind == "result" or _on_purpose(call, subject.allowed):
        return
    if call.raised is not None:
        text = f"fails with valid arguments: {type(call.raised).__name__}: {call.raised}"
        raise Problem(text, [request], limits, request.name)
    raise Problem(str(getattr(call.outcome, "error", call.kind)), [request], limits, request.name)


def _on_purpose(call: TracedCall, allowed: Collection[str]) -> bool:
    error = call.raised
    if error is None:
        return False
    names = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, (ToolFailure, ToolExecutionError)) or not names.isdisjoint(allowed)


def invalid_call(subject: Subject, backend: Backend, request: ToolCallRequest) -> None:
    """A call with invalid arguments is refused, and its function does not run."""
    limits = Limits()
    [call] = _run(subject, backend, [request], limits).calls
    if call.kind != "invalid_arguments" or call.starts:
        raise Problem(f"takes invalid arguments: {call.kind}", [request], limits, request.name)


def batch(subject: Subject, backend: Backend, requests: Sequence[ToolCallRequest], limits: Limits) -> None:
    """A batch under limits keeps every rule of the runtime, and leaves nothing behind."""
    _run(subject, backend, requests, limits)


def cancelled_batch(
    subject: Subject, backend: Backend, requests: Sequence[ToolCallRequest], limits: Limits, share: float
) -> None:
    """A batch that is cancelled, after a share of its time or at several steps, ends at once."""
    whole = _run(subject, backend, requests, limits)
    deadline = share * max((call.settled[0][0].time for call in whole.calls), default=0)

    async def in_time() -> None:
        trace = await _record(subject, requests, limits, lambda: _until(deadline))
        ended = trace.batches[0].ended
        if ended is not None and ended.time > deadline and not trace.batches[0].complete:
            raise InvariantError(f"went on for {ended.time - deadline:g} s after it was cancelled\n{trace}")

    async def at_steps(interruption: Interruption) -> None:
        await _record(subject, requests, limits, interruption.region)

    with _as_problems(requests, limits):
        run_virtual(in_time, backend=backend)
        cancel_everywhere(at_steps, forms=["scope"], backend=backend, points=_POINTS)


def _run(subject: Subject, backend: Backend, requests: Sequence[ToolCallRequest], limits: Limits) -> Trace:
    with _as_problems(requests, limits):
        return run_virtual(_record, subject, requests, limits, _undisturbed, backend=backend)


async def _record(
    subject: Subject, requests: Sequence[ToolCallRequest], limits: Limits, region: Region
) -> Trace:
    """Run a batch in the region, and check what it did and what it left behind."""
    before = snapshot()
    tools = RecordedToolbox(subject.toolbox)
    async with subject.client(tools, limits) as client:
        async with region():
            await record_batch(client, tools, requests, context=subject.context)
        trace = tools.trace(client)
        check_trace(trace)
        # Scripted tools keep their threads busy in virtual time, an application's tools in real time.
        await anyio.sleep(_PATIENCE)
        await wait_for_abandoned_threads()
    check_no_leaks(client, before=before)
    return trace


@asynccontextmanager
async def _undisturbed() -> AsyncGenerator[None]:
    yield


@asynccontextmanager
async def _until(deadline: float) -> AsyncGenerator[None]:
    with anyio.CancelScope(deadline=deadline):
        yield


@contextmanager
def _as_problems(requests: Sequence[ToolCallRequest], limits: Limits) -> Generator[None]:
    """Raise what goes wrong in a run as a `Problem`, with the calls that show it."""
    tool = requests[0].name if len(requests) == 1 else None
    try:
        yield
    except (InvariantError, LeakError, ScheduleFailure, VirtualTimeDeadlock) as error:
        raise Problem(str(error), requests, limits, tool) from error
    except SystemExit as error:
        raise Problem(f"a tool raised SystemExit: {error}", requests, limits, tool) from error
