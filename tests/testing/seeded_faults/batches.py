"""Batches and planners with one fault each."""

from collections.abc import Sequence
from typing import Any

from anyio import Event
from anyio.lowlevel import checkpoint

from seqoria_runtime._execution.batches.batch import Batch
from seqoria_runtime._execution.batches.planner import Planner, SkippedCall
from seqoria_runtime._execution.calls.scheduler import Scheduler
from seqoria_runtime._execution.places.pool import Group
from seqoria_runtime.models import ToolCallError, ToolCallOutcome


class ForgetfulBatch(Batch):
    """Publishes no outcomes of skipped calls."""

    def _publish(self, call: int, outcome: ToolCallOutcome) -> None:
        if isinstance(outcome, ToolCallError) and outcome.kind == "skipped":
            self._outcomes[call] = outcome
            self.unsettled -= 1
        else:
            super()._publish(call, outcome)


class TalkativeBatch(Batch):
    """Publishes the first call's outcome again when the last call has settled."""

    def _publish(self, call: int, outcome: ToolCallOutcome) -> None:
        super()._publish(call, outcome)
        first = self._outcomes[0]
        if not self.unsettled and len(self._calls) > 1 and self._on_settled is not None and first is not None:
            self._on_settled(self._calls[0], first)


class DedupingBatch(Batch):
    """Answers calls of one id and name with the outcome of the first."""

    def settle(self, call: int, outcome: ToolCallOutcome) -> None:
        super().settle(call, outcome)
        done = self._calls[call]
        for other, request in enumerate(self._calls):
            same = (request.id, request.name) == (done.id, done.name)
            if same and self._outcomes[other] is None and other not in self._running:
                super().settle(other, outcome)


class OrderedBatch(Batch):
    """Publishes outcomes in the order of the calls."""

    _told = 0

    def _publish(self, call: int, outcome: ToolCallOutcome) -> None:
        self._outcomes[call] = outcome
        self.unsettled -= 1
        while self._told < len(self._outcomes):
            next_one = self._outcomes[self._told]
            if next_one is None:
                return
            if self._on_settled is not None:
                self._on_settled(self._calls[self._told], next_one)
            self._told += 1


class LayeredPlanner(Planner):
    """Starts no call before all calls that were ready together have settled."""

    _layer = 0
    _running = 0

    only_group = None  # so that it is asked for each call

    def first_group(self, full: Sequence[Group]) -> Group | None:
        if not self._layer and not self._running:
            self._layer = self.ready
        return super().first_group(full) if self._layer else None

    def take_from(self, group: Group) -> int:
        self._layer -= 1
        self._running += 1
        return super().take_from(group)

    def settle(self, call: int, *, ok: bool) -> Sequence[SkippedCall]:
        self._running -= 1
        return super().settle(call, ok=ok)


class HopefulPlanner(Planner):
    """Treats every call as a success."""

    def settle(self, call: int, *, ok: bool) -> Sequence[SkippedCall]:
        return super().settle(call, ok=True)


class EagerPlanner(Planner):
    """Releases dependents when one call of the name they wait for has succeeded."""

    def _unblocked_by(self, call: int, succeeded: bool) -> Any:
        for group in self._feeds.get(call, ()):
            if succeeded and group.unsettled > 0:
                group.unsettled = 1
        return super()._unblocked_by(call, succeeded)


class PoisonedPlanner(Planner):
    """Refuses the whole batch if there is a cycle in it."""

    def __init__(self, calls: Any) -> None:
        super().__init__(calls)
        if self.cyclic:
            self.cyclic = frozenset(range(len(calls)))
            for call in self.cyclic:
                self._mark_settled(call)


class ForgettingScheduler(Scheduler):
    """Loses a notification that comes just before it starts to wait."""

    async def _watch_if_last(self) -> None:
        waits = self._batch.unsettled and not self._launched
        await checkpoint()
        if waits:
            self._news = Event()
            await self._news.wait()
