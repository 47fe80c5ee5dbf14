"""Records what a toolbox's calls do as they do it: their times, their order, and which call made which."""

import inspect
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
from anyio.lowlevel import EventLoopToken, current_token

from seqoria_runtime._execution.calls.threads import context_for_callbacks
from seqoria_runtime._execution.streams.hosted import post_to_loop
from seqoria_runtime.models import ToolCallOutcome, ToolCallRequest, ToolCallResult
from seqoria_runtime.testing._tools.behaviours import Behaviour
from seqoria_runtime.toolbox._tool import FunctionTool

from .trace import Moment, Trace, TracedBatch, TracedCall

current_batch: ContextVar[int | None] = ContextVar("recorded_batch", default=None)
_current_call: ContextVar["RecordedCall | None"] = ContextVar("recorded_call", default=None)


@dataclass(eq=False, slots=True)
class RecordedCall:
    """What is known of a call so far."""

    number: int
    batch: int | None
    around: int | None
    tool: FunctionTool | None
    name: str
    arguments: Mapping[str, Any] | None = None
    token: EventLoopToken | None = None
    variables: Context | None = None
    request: ToolCallRequest | None = None
    asked: Moment | None = None
    entered: Moment | None = None
    starts: list[Moment] = field(default_factory=list)
    ends: list[Moment] = field(default_factory=list)
    returned: str | None = None
    raised: BaseException | None = None
    settled: list[tuple[Moment, ToolCallOutcome]] = field(default_factory=list)
    parent: "RecordedCall | None" = None
    saw: "RecordedCall | None" = None

    def snapshot(self) -> TracedCall:
        tool = self.tool
        return TracedCall(
            number=self.number,
            batch=self.batch,
            tool=self.name if tool is None else tool.name,
            blocking=tool is not None and tool.blocking,
            depends_on=frozenset() if tool is None else tool.depends_on,
            timeout=None if tool is None else tool.timeout,
            request=self.request,
            asked=self.asked,
            entered=self.entered,
            starts=tuple(self.starts),
            ends=tuple(self.ends),
            returned=self.returned,
            raised=self.raised,
            settled=tuple(self.settled),
            parent=None if self.parent is None else self.parent.number,
            saw=None if self.saw is None else self.saw.number,
            cap=None if tool is None or tool.cap is None else tool.cap.name,
            cap_limit=0 if tool is None or tool.cap is None else tool.cap.limit,
        )


class Recorder:
    """Notes what calls do. Each method is called at the moment that it notes."""

    def __init__(self) -> None:
        self._calls: list[RecordedCall] = []
        self._batches: dict[int, TracedBatch] = {}
        self._places = itertools.count()
        self._started: Counter[str] = Counter()

    def moment(self) -> Moment:
        return Moment(anyio.current_time(), next(self._places))

    def asked(self, tool: FunctionTool, arguments: Mapping[str, Any]) -> RecordedCall:
        """Note that a call's arguments are checked: in the order of the calls, before any of them starts."""
        call = self._new(tool, tool.name)
        call.arguments = arguments
        call.token = current_token()
        call.variables = context_for_callbacks(call.token.native_token)
        call.asked = self.moment()
        return call

    def number(self, tool: str) -> int:
        """Count one more call of a tool that starts, and return its number."""
        self._started[tool] += 1
        return self._started[tool]

    def entered(self, call: RecordedCall) -> None:
        if call.entered is None:
            call.entered = self.moment()

    def started(self, call: RecordedCall) -> None:
        self.entered(call)
        call.starts.append(self.moment())

    def ended(self, call: RecordedCall) -> None:
        call.ends.append(self.moment())

    def settled(self, request: ToolCallRequest, outcome: ToolCallOutcome) -> None:
        """Note an outcome."""
        call = self._find(request, outcome)
        call.request = request
        call.settled.append((self.moment(), outcome))

    def batch_started(self) -> int:
        number = len(self._batches)
        self._batches[number] = TracedBatch(number, self.moment(), None, complete=False)
        return number

    def batch_ended(self, number: int, requests: Iterable[ToolCallRequest], *, complete: bool) -> None:
        """Note that a batch is over; `requests` are all its calls."""
        start = self._batches[number].began
        self._batches[number] = TracedBatch(number, start, self.moment(), complete)
        self._assign(number, requests)

    def round_ended(self, requests: Iterable[ToolCallRequest]) -> None:
        """Note that a round of a turn is over, with its calls, which become a batch."""
        number = len(self._batches)
        calls = self._assign(number, requests)
        now = self.moment()
        start = min((call.asked for call in calls if call.asked is not None), default=now)
        self._batches[number] = TracedBatch(number, start, now, complete=True)

    def _assign(self, number: int, requests: Iterable[ToolCallRequest]) -> list[RecordedCall]:
        free, assigned = list(self._calls), []
        for request in requests:
            call = next((call for call in free if _is_of(call, request)), None)
            if call is None:
                call = self._new(None, request.name)
            else:
                free.remove(call)
            call.request, call.batch = request, number
            assigned.append(call)
        return assigned

    def trace(
        self, limit: int, tool_timeout: float | None, limits: Iterable[tuple[float, int]] = ()
    ) -> Trace:
        calls = tuple(call.snapshot() for call in self._calls)
        return Trace(calls, tuple(self._batches.values()), limit, tool_timeout, tuple(limits))

    def _new(self, tool: FunctionTool | None, name: str) -> RecordedCall:
        around, parent = current_batch.get(), _current_call.get()
        # Calls that a call of a batch makes are not part of that batch.
        batch = None if parent is not None and parent.around == around else around
        call = RecordedCall(len(self._calls), batch, around, tool, name, parent=parent)
        self._calls.append(call)
        return call

    def _find(self, request: ToolCallRequest, outcome: ToolCallOutcome) -> RecordedCall:
        candidates = [call for call in self._calls if _is_of(call, request)]
        open_ones = [call for call in candidates if not call.settled]
        if isinstance(outcome, ToolCallResult):
            # The same request may occur twice in a batch; what each function returned shows which is which.
            open_ones.sort(key=lambda call: call.returned != outcome.result)
        if open_ones or candidates:
            return (open_ones or candidates)[0]
        return self._new(None, request.name)


def _is_of(call: RecordedCall, request: ToolCallRequest) -> bool:
    # A call id may repeat, but each request has its own arguments object.
    if call.request is not None:
        return call.request is request
    return call.arguments is request.arguments


class RecordedFunction:
    """A tool's function that records its calls, and plays the planned faults instead."""

    def __init__(
        self, tool: FunctionTool, recorder: Recorder, fault: Callable[[str, int], Behaviour | None]
    ) -> None:
        self._tool = tool
        self._recorder = recorder
        self._fault = fault

    def __call__(self, **arguments: Any) -> Any:
        call: RecordedCall | None = arguments.pop(CALL, None)
        if call is None:
            return self._tool.function(**arguments)
        if self._tool.blocking:
            return self._in_thread(call, arguments)
        return self._in_loop(call, arguments)

    async def _in_loop(self, call: RecordedCall, arguments: Mapping[str, Any]) -> Any:
        self._recorder.started(call)
        self._mark(call)
        return await self._finish(call, lambda: self._start(arguments, in_thread=False))

    def _in_thread(self, call: RecordedCall, arguments: Mapping[str, Any]) -> Any:
        self._post(call, self._recorder.started)
        self._mark(call)
        try:
            value = self._start(arguments, in_thread=True)
        except BaseException as error:
            call.raised = error
            self._post(call, self._recorder.ended)
            raise
        if inspect.isawaitable(value):
            return self._finish(call, lambda: value)
        self._note(call, value)
        self._post(call, self._recorder.ended)
        return value

    async def _finish(self, call: RecordedCall, start: Callable[[], Any]) -> Any:
        try:
            value = start()
            value = await value if inspect.isawaitable(value) else value
            self._note(call, value)
            return value
        except BaseException as error:
            call.raised = error
            raise
        finally:
            self._recorder.ended(call)

    def _start(self, arguments: Mapping[str, Any], *, in_thread: bool) -> Any:
        number = self._recorder.number(self._tool.name)
        fault = self._fault(self._tool.name, number)
        if fault is None:
            return self._tool.function(**arguments)
        text = f"{self._tool.name} {number}"
        return fault.play_in_thread(text) if in_thread and fault.blocking else fault.play(text)

    def _mark(self, call: RecordedCall) -> None:
        call.saw = _current_call.get()
        _current_call.set(call)

    def _note(self, call: RecordedCall, value: Any) -> None:
        if isinstance(value, str):
            call.returned = self._tool.render(value)

    def _post(self, call: RecordedCall, note: Callable[[RecordedCall], None]) -> None:
        assert call.token is not None
        assert call.variables is not None
        # In the thread's own context anyio would not know which loop's time to read.
        post_to_loop(call.token, partial(call.variables.run, note, call), otherwise=lambda: None)


CALL = "recorded call"
"""The key of a call among its arguments; no parameter can have this name."""
