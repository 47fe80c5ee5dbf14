"""Keeps the state of one batch: its calls, how far each has come, and the outcomes so far.

Synchronous: it decides, its scheduler acts. Knows nothing of tasks or time.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from seqoria_runtime._base.catalogue import Catalogue
from seqoria_runtime._base.tools import ConcurrencyCap, Tool, ToolFailure
from seqoria_runtime._execution.places.pool import Pool
from seqoria_runtime.models import (
    ToolCallError,
    ToolCallOutcome,
    ToolCallRequest,
    ToolCallResult,
    ToolProgress,
)
from seqoria_runtime.models._arguments import NULL

from . import outcomes
from .planner import GraphNode, Planner, SkippedCall


class Batch:
    """The calls of one response, or of one `run_tool_calls`; calls are known by their position.

    `pool_of` finds the pool of a cap. `on_settled` is called with each outcome, in the order of completion,
    `on_progress` with what running calls report meanwhile.
    """

    def __init__(
        self,
        calls: Sequence[ToolCallRequest],
        catalogue: Catalogue,
        pool_of: Callable[[ConcurrencyCap], Pool],
        *,
        allow_override: bool = False,
        on_settled: Callable[[ToolCallRequest, ToolCallOutcome], None] | None = None,
        on_progress: Callable[[ToolProgress], None] | None = None,
    ) -> None:
        self._calls = calls
        self._catalogue = catalogue
        self._pool_of = pool_of
        self._allow_override = allow_override
        self._on_settled = on_settled
        self.on_progress = on_progress
        self._outcomes: list[ToolCallOutcome | None] = [None] * len(calls)
        self._prepared: list[Any] = [None] * len(calls)
        self._running: dict[int, None] = {}
        known: dict[str, tuple[Tool | None, GraphNode]] = {}
        found = [known.get(call.name) or self._look_up(known, call.name) for call in calls]
        self._tools = [tool for tool, _ in found]
        self.order = Planner([planned for _, planned in found])
        self.unsettled = len(calls)
        self.begun = False
        """Whether any call has been started."""

    def settle_refused(self) -> None:
        """Settle the calls that cannot run, and those on or behind a dependency cycle."""
        refused = []
        for call in range(len(self._calls)):
            refusal = self._prepare(call)
            if refusal is not None:
                self._publish(call, refusal)
                refused.append(call)
        if refused:
            self._skip(self.order.refuse(refused))
        for call in sorted(self.order.cyclic):
            if self._outcomes[call] is None:
                self._publish(call, outcomes.cyclic(self._calls[call]))

    def end(self) -> None:
        """Note that nothing more of the batch will run."""

    def begin(self, call: int) -> tuple[ToolCallRequest, Tool, Any]:
        """Start a call that was taken from `order`; return its request, tool and checked arguments."""
        tool = self._tools[call]
        assert tool is not None
        self._running[call] = None
        self.begun = True
        prepared, self._prepared[call] = self._prepared[call], None
        return self._calls[call], tool, prepared

    def put_back(self, call: int) -> None:
        """Put back a call that was taken from `order`, unless it has started."""
        if call not in self._running:
            self.order.put_back(call)

    def settle(self, call: int, outcome: ToolCallOutcome) -> None:
        """Record the outcome of a call, and skip the calls that cannot run because of it."""
        self.cut_short(call, outcome)
        skipped = self.order.settle(call, ok=type(outcome) is ToolCallResult)
        if skipped:
            self._skip(skipped)

    def cut_short(self, call: int, outcome: ToolCallOutcome) -> None:
        """Record the outcome of a call that ended with its batch; what depends on it stays as it is."""
        self._running.pop(call, None)
        self._publish(call, outcome)

    def give_up(self) -> None:
        """Settle every call that has not, as an error that tells how far it came."""
        if self.unsettled:
            for call, outcome in enumerate(self.outcomes_so_far()):
                if self._outcomes[call] is None:
                    self.cut_short(call, outcome)

    def refuse_ready(
        self, refuse: Callable[[ToolCallRequest], ToolCallError], *, pool: Pool | None = None
    ) -> None:
        """Settle every ready call, or every one under the cap of `pool`, as the error that `refuse` makes."""
        groups = [group for group in self.order.ready_groups() if pool is None or pool in group]
        for group in groups:
            calls = []
            while group in self.order.ready_groups():
                calls.append(self.order.take_from(group))
            for call in calls:
                self.settle(call, refuse(self._calls[call]))

    def outcomes_so_far(self) -> list[ToolCallOutcome]:
        """Return one outcome per call, in their order; that of an unsettled call says how far it came."""
        return [
            outcome if outcome is not None else self._unfinished(call)
            for call, outcome in enumerate(self._outcomes)
        ]

    def running(self) -> Iterator[str]:
        """Return the tools of the calls that run, one entry a call."""
        return (self._calls[call].name for call in self._running)

    def waiting(self) -> Iterator[str]:
        """Yield the tools of the calls that have neither started nor settled, one entry a call."""
        for call, request in enumerate(self._calls):
            if self._outcomes[call] is None and call not in self._running:
                yield request.name

    def _look_up(
        self, known: dict[str, tuple[Tool | None, GraphNode]], name: str
    ) -> tuple[Tool | None, GraphNode]:
        entry = self._catalogue.get(name)
        if entry is None:
            known[name] = None, GraphNode((name,))
        else:
            cap = entry.tool.cap
            group = () if cap is None else (self._pool_of(cap),)
            known[name] = entry.tool, GraphNode(entry.names, entry.tool.depends_on, group)
        return known[name]

    def _prepare(self, call: int) -> ToolCallError | None:
        """Check a call's arguments and keep them; return an error if it cannot run."""
        request, tool = self._calls[call], self._tools[call]
        if tool is None:
            return outcomes.unknown(request, self._catalogue.entries)
        if request.truncated:
            return outcomes.cut_off(request)
        if request.invalid_arguments is not None and not _means_none(request.invalid_arguments, tool):
            return outcomes.not_an_object(request, request.invalid_arguments)
        try:
            self._prepared[call] = tool.validate(request.arguments, allow_override=self._allow_override)
        except ToolFailure as failure:
            return outcomes.error(request, failure.kind, str(failure))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as exc:  # noqa: BLE001 - validators run the application's own code
            return outcomes.raised(request, exc)
        return None

    def _skip(self, skips: Iterable[SkippedCall]) -> None:
        for skip in skips:
            self._publish(skip.call, outcomes.skipped(self._calls[skip.call], skip.failed))

    def _publish(self, call: int, outcome: ToolCallOutcome) -> None:
        self._outcomes[call] = outcome
        self.unsettled -= 1
        if self._on_settled is not None:
            self._on_settled(self._calls[call], outcome)

    def _unfinished(self, call: int) -> ToolCallError:
        request = self._calls[call]
        if call in self._running:
            return outcomes.cancelled_while_running(request)
        return outcomes.cancelled_before_start(request)


def _means_none(arguments: str, tool: Tool) -> bool:
    """Whether the model wrote `null` for a tool that takes no arguments."""
    return arguments == NULL and not tool.parameters.get("properties")
