"""Holds what all calls of a client have in common, and makes its batches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seqoria_runtime._base.catalogue import Catalogue
from seqoria_runtime._execution.batches.batch import Batch
from seqoria_runtime._execution.batches.observing import Listener, ObservedBatch
from seqoria_runtime._execution.places.places import Places
from seqoria_runtime.models import ToolCallOutcome, ToolCallRequest, ToolProgress

from .hidden_parameters import ParameterRegistry


@dataclass(frozen=True, slots=True)
class ExecutionSettings:
    """What all calls of a client have in common. Times are seconds; `now` is the event loop's clock."""

    places: Places
    now: Callable[[], float]
    tool_timeout: float | None = None
    abandoned_grace: float = 30.0
    registry: ParameterRegistry | None = None
    allow_override: bool = False
    listeners: tuple[Listener, ...] = ()

    def new_batch(
        self,
        calls: Sequence[ToolCallRequest],
        catalogue: Catalogue,
        *,
        on_settled: Callable[[ToolCallRequest, ToolCallOutcome], None] | None = None,
        on_progress: Callable[[ToolProgress], None] | None = None,
    ) -> Batch:
        """Return a new batch; an observed one if there are listeners."""
        if not self.listeners:
            return Batch(
                calls,
                catalogue,
                self.places.pool_of,
                allow_override=self.allow_override,
                on_settled=on_settled,
                on_progress=on_progress,
            )
        return ObservedBatch(
            calls,
            catalogue,
            self.places.pool_of,
            listeners=self.listeners,
            now=self.now,
            allow_override=self.allow_override,
            on_settled=on_settled,
            on_progress=on_progress,
        )
