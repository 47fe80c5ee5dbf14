"""Owns what is told of the calls of a batch to those who observe them, and when.

Synchronous: it tells, and knows neither who listens nor what for.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from logging import Logger
from typing import Any, Literal, TypeAlias

from seqoria_runtime._base.catalogue import Catalogue
from seqoria_runtime._base.tools import Tool
from seqoria_runtime._execution.calls.runner import ExecutionSettings
from seqoria_runtime._execution.places.caps import Permit
from seqoria_runtime.models import ToolCallError, ToolCallOutcome, ToolCallRequest, ToolProgress

from .batch import Batch

CallEventKind: TypeAlias = Literal["queued", "started", "finished", "skipped", "cancelled"]

_batch_numbers = count(1)


@dataclass(frozen=True, slots=True)
class CallEvent:
    """Something that happened to a tool call, at `time` in seconds of the event loop's clock.

    `queued`: it was asked for. `started`: it has its slot. The other three come with its `outcome` and
    are the last one of it: `skipped` (a call that it depends on failed, or it is part of a cycle),
    `cancelled`, and `finished` for every other end. A call that cannot run, such as one of an unknown
    tool, finishes without having started. `batch` numbers the batches of the process; `position` is
    the call's place in its own.
    """

    kind: CallEventKind
    time: float
    batch: int
    position: int
    request: ToolCallRequest
    outcome: ToolCallOutcome | None = None


Listener: TypeAlias = Callable[[CallEvent], None]


class ObservedBatch(Batch):
    """A batch that tells its listeners what happens to its calls. Listeners must not raise."""

    def __init__(
        self,
        calls: Sequence[ToolCallRequest],
        catalogue: Catalogue,
        *,
        listeners: Iterable[Listener],
        now: Callable[[], float],
        **options: Any,
    ) -> None:
        super().__init__(calls, catalogue, **options)
        self._number = next(_batch_numbers)
        self._requests = calls
        self._listeners = tuple(listeners)
        self._now = now
        self._told: set[int] = set()

    def settle_refused(self) -> None:
        for call in range(len(self._requests)):
            self._tell("queued", call)
        super().settle_refused()

    def start(self) -> tuple[int, ToolCallRequest, Tool, Any, Permit | None] | None:
        started = super().start()
        if started is not None:
            call, *_, permit = started
            try:
                self._tell("started", call)
            except BaseException:
                if permit is not None:
                    permit.cap.give_back(permit)
                raise
        return started

    def end(self) -> None:
        super().end()
        for call, outcome in enumerate(self.outcomes_so_far()):
            if call not in self._told:
                self._tell_outcome(call, outcome)

    def _publish(self, call: int, outcome: ToolCallOutcome) -> None:
        super()._publish(call, outcome)
        self._tell_outcome(call, outcome)

    def _tell_outcome(self, call: int, outcome: ToolCallOutcome) -> None:
        self._told.add(call)
        self._tell(_kind_of(outcome), call, outcome)

    def _tell(self, kind: CallEventKind, call: int, outcome: ToolCallOutcome | None = None) -> None:
        event = CallEvent(kind, self._now(), self._number, call, self._requests[call], outcome)
        for listener in self._listeners:
            listener(event)


def new_batch(
    calls: Sequence[ToolCallRequest],
    catalogue: Catalogue,
    settings: ExecutionSettings,
    *,
    on_settled: Callable[[ToolCallRequest, ToolCallOutcome], None] | None = None,
    on_progress: Callable[[ToolProgress], None] | None = None,
) -> Batch:
    """A batch, observed where somebody listens."""
    if not settings.listeners:
        return Batch(
            calls,
            catalogue,
            allow_override=settings.allow_override,
            on_settled=on_settled,
            on_progress=on_progress,
        )
    return ObservedBatch(
        calls,
        catalogue,
        listeners=settings.listeners,
        now=settings.now,
        allow_override=settings.allow_override,
        on_settled=on_settled,
        on_progress=on_progress,
    )


def guarded(observer: Callable[[CallEvent], object], logger: Logger) -> Listener:
    """A listener for an application's observer, whose failures are logged and do no other harm."""

    def listen(event: CallEvent) -> None:
        try:
            observer(event)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # an observer can raise anything, a stray cancellation too
            logger.warning("An observer of tool calls failed", exc_info=True)

    return listen


def _kind_of(outcome: ToolCallOutcome) -> CallEventKind:
    if isinstance(outcome, ToolCallError):
        if outcome.kind in {"skipped", "cyclic_dependency"}:
            return "skipped"
        if outcome.kind == "cancelled":
            return "cancelled"
    return "finished"
