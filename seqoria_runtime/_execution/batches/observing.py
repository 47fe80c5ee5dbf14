"""Reports what happens to the calls of a batch to observers, synchronously."""

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from logging import Logger
from typing import Any, TypeAlias

from seqoria_runtime._base.catalogue import Catalogue
from seqoria_runtime._base.tools import ConcurrencyCap, Tool
from seqoria_runtime._execution.places.pool import Pool
from seqoria_runtime.models import CallEvent, CallEventKind, ToolCallError, ToolCallOutcome, ToolCallRequest

from .batch import Batch

_batch_numbers = count(1)


Listener: TypeAlias = Callable[[CallEvent], None]


class ObservedBatch(Batch):
    """A batch that reports each `CallEvent` to its listeners, which must not raise."""

    def __init__(
        self,
        calls: Sequence[ToolCallRequest],
        catalogue: Catalogue,
        pool_of: Callable[[ConcurrencyCap], Pool],
        *,
        listeners: Iterable[Listener],
        now: Callable[[], float],
        **options: Any,
    ) -> None:
        super().__init__(calls, catalogue, pool_of, **options)
        self._number = next(_batch_numbers)
        self._requests = calls
        self._listeners = tuple(listeners)
        self._now = now
        self._told: set[int] = set()

    def settle_refused(self) -> None:
        for call in range(len(self._requests)):
            self._tell("queued", call)
        super().settle_refused()

    def begin(self, call: int) -> tuple[ToolCallRequest, Tool, Any]:
        begun = super().begin(call)
        self._tell("started", call)
        return begun

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


def guarded(observer: Callable[[CallEvent], object], logger: Logger) -> Listener:
    """Return a listener that calls an application's observer, and logs what it raises."""

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
