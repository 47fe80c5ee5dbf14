"""The state of the demo's calls: when each started and settled, and how. For the loop's thread only."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seqoria_runtime.models import ToolCallError, ToolCallOutcome, ToolCallRequest


@dataclass(slots=True)
class DemoCall:
    """One call. Times are seconds since the start of the batch, or `None` while unknown."""

    name: str
    waits_for: tuple[str, ...]
    started_at: float | None = None
    settled_at: float | None = None
    thread_ended_at: float | None = None
    in_thread: bool = False
    arguments: Mapping[str, Any] | None = None
    outcome: ToolCallOutcome | None = None

    @property
    def state(self) -> str:
        if self.outcome is None:
            return "waiting" if self.started_at is None else "running"
        if isinstance(self.outcome, ToolCallError):
            return self.outcome.kind.replace("_", " ")
        return "done"

    @property
    def thread_runs_on(self) -> bool:
        """Whether the call is answered while its thread still runs."""
        return self.in_thread and self.settled_at is not None and self.thread_ended_at is None


class Board:
    """The calls of one batch by name; each tool is called once. `clock` returns seconds.

    `on_change` is called with each call that changes.
    """

    def __init__(self, calls: Sequence[DemoCall], clock: Callable[[], float]) -> None:
        self.calls = {call.name: call for call in calls}
        self.on_change: Callable[[DemoCall], None] = _ignore
        self._clock = clock
        self._start: float | None = None

    @property
    def now(self) -> float:
        """Seconds since the start of the batch, which is when its first call starts."""
        if self._start is None:
            self._start = self._clock()
        return self._clock() - self._start

    def started(self, name: str, arguments: Mapping[str, Any], *, in_thread: bool) -> None:
        call = self.calls[name]
        call.started_at = self.now
        call.arguments = arguments
        call.in_thread = in_thread
        self.on_change(call)

    def settled(self, request: ToolCallRequest, outcome: ToolCallOutcome) -> None:
        call = self.calls[request.name]
        call.settled_at = self.now
        call.outcome = outcome
        self.on_change(call)

    def thread_ended(self, name: str) -> None:
        call = self.calls[name]
        overdue = call.thread_runs_on
        call.thread_ended_at = self.now
        if overdue:
            self.on_change(call)

    def unsettled_before(self, call: DemoCall) -> list[str]:
        """Return the calls that this one still waits for."""
        return [name for name in call.waits_for if self.calls[name].outcome is None]

    def free_to_start_at(self, call: DemoCall) -> float:
        """Return when the last call that this one waits for settled, or 0 if it waits for none."""
        return max((self.calls[name].settled_at or 0.0 for name in call.waits_for), default=0.0)

    @property
    def end(self) -> float:
        """When the last call settled, or its thread ended."""
        times = [time for call in self.calls.values() for time in (call.settled_at, call.thread_ended_at)]
        return max((time for time in times if time is not None), default=0.0)


def _ignore(_call: DemoCall) -> None:
    pass
