"""Runs a workload under one limit after the other, and records its calls."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import anyio

from seqoria_runtime._base import checks as _checks
from seqoria_runtime.client import AdaptiveLimit, AsyncAIClient, CallEvent, LimitChange
from seqoria_runtime.models import ToolCallError, ToolCallRequest
from seqoria_runtime.testing import ScriptedProvider

from ._knee import capacities, finer_limits
from ._report import LimitReport, report_of
from ._runs import CallRecord, Run
from ._workload import Load, Workload

DEFAULT_LIMITS = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True, slots=True)
class Progress:
    """A run has ended: number `done` of the `planned` runs known so far."""

    done: int
    planned: int
    run: Run


async def measure_limits(
    workload: Workload,
    *,
    limits: Iterable[int] = DEFAULT_LIMITS,
    repetitions: int = 3,
    refine: bool = True,
    tool_timeout: float | None = None,
    on_progress: Callable[[Progress], object] | None = None,
) -> LimitReport:
    """Run a workload under each of `limits`, `repetitions` times over, and recommend one.

    The lowest limit stands for the tools without load, so it should be 1 or little more. Limits above
    the number of calls are left out. `refine` also measures limits around the knee. `tool_timeout` is
    in seconds. In virtual time, hours take seconds: see `run_virtual`. When a cancelled caller goes on,
    every asynchronous call has ended; pass `on_progress` to get the runs so far, for `report_of`.
    Raises `ValueError`, which names the option.
    """
    wanted = check_limits(limits, workload.size)
    _checks.positive_int("repetitions", repetitions)
    sweep = _LimitSweep(workload, repetitions, tool_timeout, on_progress)
    await sweep.measure(wanted)
    if refine:
        await sweep.measure(finer_limits(capacities(sweep.runs)))
    return report_of(sweep.runs)


async def measure_adaptive(
    workload: Workload, limit: AdaptiveLimit, *, repetitions: int = 1, tool_timeout: float | None = None
) -> tuple[LimitChange, ...]:
    """Run a workload repeatedly under an adaptive limit; return its changes, in seconds from the start.

    When a cancelled caller goes on, every asynchronous call has ended.
    """
    start = anyio.current_time()
    async with workload.open(0) as load:
        notes = _Notes(load)
        async with _client(load, limit, tool_timeout, notes) as client:
            for _ in range(repetitions):
                await _run_batches(client, load, notes.requests)
        history = client.limit_history()
    return tuple(LimitChange(time - start, value) for time, value in history)


def check_limits(limits: Iterable[int], calls: int) -> list[int]:
    """Return the limits in order, each once, without those above the number of calls."""
    wanted = sorted({_checks.positive_int("limits", limit) for limit in limits})
    if not wanted:
        raise ValueError("'limits' must hold at least one limit")
    useful = [limit for limit in wanted if limit <= calls]
    return useful if useful else [calls]


@dataclass
class _LimitSweep:
    workload: Workload
    repetitions: int
    tool_timeout: float | None
    on_progress: Callable[[Progress], object] | None
    runs: list[Run] = field(default_factory=list)
    planned: int = 0

    async def measure(self, limits: Sequence[int]) -> None:
        """Measure these limits, all of them once per repetition, so that a drift affects all alike."""
        self.planned += len(limits) * self.repetitions
        for repetition in range(self.repetitions):
            for limit in limits:
                run = await run_once(self.workload, limit, repetition, tool_timeout=self.tool_timeout)
                self.runs.append(run)
                if self.on_progress is not None:
                    self.on_progress(Progress(len(self.runs), self.planned, run))


async def run_once(
    workload: Workload, limit: int, repetition: int, *, tool_timeout: float | None = None
) -> Run:
    """Run all calls of a workload under one limit, and end them if cancelled."""
    async with workload.open(repetition) as load:
        notes = _Notes(load)
        async with _client(load, limit, tool_timeout, notes) as client:
            await _run_batches(client, load, notes.requests)
    return Run(limit, repetition, tuple(notes.records))


def _client(
    load: Load, limit: int | AdaptiveLimit, tool_timeout: float | None, notes: "_Notes"
) -> AsyncAIClient:
    return AsyncAIClient(
        [ScriptedProvider([])],
        local_toolbox=load.toolbox,
        max_concurrency=limit,
        tool_timeout=tool_timeout,
        observers=[notes.note],
    )


async def _run_batches(
    client: AsyncAIClient, load: Load, batches: Sequence[Sequence[ToolCallRequest]]
) -> None:
    async def run(batch: Sequence[ToolCallRequest]) -> None:
        await client.run_tool_calls(batch, context=load.context)

    async with anyio.create_task_group() as group:
        for batch in batches:
            group.start_soon(run, batch)


class _Notes:
    """Records the calls of one run."""

    def __init__(self, load: Load) -> None:
        self.requests = [
            [ToolCallRequest(id="call", name=call.name, arguments=call.arguments) for call in batch]
            for batch in load.batches
        ]
        flat = [request for batch in self.requests for request in batch]
        self._places = {id(request): place for place, request in enumerate(flat)}
        self._queued = [0.0] * len(flat)
        self._started: list[float | None] = [None] * len(flat)
        self.records = [CallRecord(0.0, None, 0.0)] * len(flat)

    def note(self, event: CallEvent) -> None:
        place = self._places.get(id(event.request))
        if place is None:
            return  # a call that a tool makes
        if event.kind == "queued":
            self._queued[place] = event.time
        elif event.kind == "started":
            self._started[place] = event.time
        else:
            kind = event.outcome.kind if isinstance(event.outcome, ToolCallError) else None
            self.records[place] = CallRecord(self._queued[place], self._started[place], event.time, kind)
