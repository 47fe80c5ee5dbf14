"""Owns the running of one batch: workers that hold a slot and run what is ready, in one task group.

The rules of order are the planner's, those of capacity the slots', those of one call the
executor's. A call that waits costs an entry in a list, not a task: a worker is started only when a
call suspends while another one is ready and a slot is free.
"""

import math
from collections.abc import Mapping
from contextvars import Context
from typing import Any

import anyio
from anyio import (
    CancelScope,
    Event,
    TaskInfo,
    current_effective_deadline,
    get_cancelled_exc_class,
    get_current_task,
)
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from seqoria_runtime._execution.batches.batch import Batch
from seqoria_runtime._execution.places import circles
from seqoria_runtime._execution.places.gate import Demand, GateOptions
from seqoria_runtime._execution.places.slots import CallLease, Lane, Slot
from seqoria_runtime.models import ToolCallOutcome
from seqoria_runtime.models.errors import CallEndedError

from . import patience
from .driver import absorb_native_cancellation
from .runner import CallRunner, ExecutionSettings
from .worker import CALLS_PER_CHECKPOINT, Worker


class Scheduler:
    """Runs one batch, once.

    `variables` are the context variables of which each call gets a copy, `context` the trusted
    values of the request, `caller` the call by which this batch was started, if any.
    """

    def __init__(
        self,
        batch: Batch,
        settings: ExecutionSettings,
        *,
        variables: Context,
        context: Mapping[str, Any],
        caller: CallLease | None = None,
    ) -> None:
        self._batch = batch
        self._settings = settings
        self._variables = variables
        self._context = context
        self._caller = caller
        self._lender = circles.nearest(caller, settings.slots)
        self._lane = Lane(settings.slots, self, self._lender)
        self._group: TaskGroup | None = None
        self._scope: CancelScope | None = None
        self._news: Event | None = None
        self._stop: BaseException | None = None
        self._over = False
        self._cancelled = False
        self._starting = 0

    async def run(self) -> list[ToolCallOutcome]:
        """Run all calls in the caller's task and in a task group of it; give one outcome per call, in order.

        Raises bare, once every call has ended, a `KeyboardInterrupt` or `SystemExit` that a call
        raised, or the error given to `stop`. A cancelled caller finds every call ended as well; the
        batch then tells how far each one came.
        """
        try:
            # Not `checkpoint_if_cancelled`, which never returns in a task that anyio runs for a worker
            # thread whose own scope was cancelled and left.
            task = get_current_task()
            if task.has_pending_cancellation():
                await checkpoint()
            if self._caller is not None:
                self._caller.require_live()
            self._batch.settle_refused()
            if self._batch.capped:
                self._open_gate()
            if self._batch.unsettled == 0:
                await checkpoint()
            elif self._batch.unsettled > 1 or not await self._run_alone(task):
                await self._run_in_group(task)
        finally:
            self._lane.close()
            self._batch.end()
            if isinstance(self._stop, (KeyboardInterrupt, SystemExit)):
                raise self._stop
        if self._stop is not None:
            raise self._stop
        return self._batch.outcomes_so_far()

    def stop(self, error: BaseException) -> None:
        """Cancel every call; `run` then raises `error`, or that of an earlier stop."""
        if self._stop is None:
            self._stop = error
            self._start_no_more()
            if self._scope is not None:
                self._scope.cancel()

    def demand(self) -> Demand:
        return self._batch.demand(self._starting)

    def slot_offered(self, slot: Slot) -> bool:
        if self._group is None or self._over or self._batch.ready <= self._starting:
            return False
        self._start_worker(self._group, slot)
        if self._batch.ready > self._starting:
            self._lane.wait()
        return True

    def slots_stuck(self) -> None:
        self._tell_news()

    def lease_ended(self, error: CallEndedError) -> None:
        self.stop(error)

    async def _run_alone(self, task: TaskInfo) -> bool:
        """Run a single call in the caller's task, without a task group, if a slot is free now."""
        slot = self._lane.acquire_nowait() if self._batch.ready and self._stop is None else None
        if slot is None:
            return False
        await self._work(Worker(slot, task))
        return True

    async def _run_in_group(self, task: TaskInfo) -> None:
        async with anyio.create_task_group() as group:
            self._group = group
            self._scope = group.cancel_scope
            if self._stop is not None:
                group.cancel_scope.cancel()
            try:
                slot = self._lane.acquire_nowait() if self._batch.ready else None
                if slot is not None:
                    await self._work(Worker(slot, task))
                self._expand()
                while self._batch.unsettled and self._stop is None:
                    await self._wait_for_news()
            finally:
                # trio takes no new task from here on, though this task has still to be told that all ended.
                self._start_no_more()

    async def _wait_for_news(self) -> None:
        """Wait until all has settled or been stopped, or calls have waited too long for abandoned threads."""
        self._resolve_circles()
        stuck = patience.stuck(self._batch, self._settings)
        self._news = Event()
        if stuck is None:
            await self._news.wait()
            return
        deadline = stuck.since + self._settings.abandoned_grace
        with CancelScope(deadline=deadline):
            await self._news.wait()
        if self._settings.now() >= deadline:
            patience.lose(stuck, self._batch, self._settings)

    def _tell_news(self) -> None:
        if self._news is not None:
            self._news.set()

    def _open_gate(self) -> None:
        options = GateOptions(
            caller=self._lender,
            lenders=tuple(circles.permits_of(self._lender, self._settings.slots)),
            starting=lambda: self._starting,
            on_ready=self._expand,
            on_stuck=self.slots_stuck,
        )
        self._batch.open_gate(self._settings.slots.caps, options)

    def _resolve_circles(self) -> None:
        if self._lender is not None:
            circles.resolve(self._settings.slots)

    def _expand(self) -> None:
        """Start a worker for each ready call that gets a slot, and ask for a slot for the others."""
        if self._group is None or self._over:
            return
        while self._batch.ready > self._starting:
            slot = self._lane.acquire_nowait()
            if slot is None:
                self._lane.wait()
                return
            self._start_worker(self._group, slot)

    def _start_no_more(self) -> None:
        self._over = True
        self._lane.stop_waiting()
        self._batch.close_gate()

    def _start_worker(self, group: TaskGroup, slot: Slot) -> None:
        self._starting += 1
        group.start_soon(self._work_in_group, slot)

    async def _work_in_group(self, slot: Slot) -> None:
        """Work as a task of the group; a native cancellation of this task alone retires just this worker."""
        self._starting -= 1
        try:
            await self._work(Worker(slot, get_current_task(), new_task=True))
        except get_cancelled_exc_class():
            if self._cancelled:
                raise

    async def _work(self, worker: Worker) -> None:
        """Run ready calls one after another while the slot may be kept; give it up on any way out."""
        try:
            if worker.new_task and worker.task.has_pending_cancellation():
                await checkpoint()
            await self._run_ready(worker)
        except BaseException:
            # A worker that is started in a cancelled group ends at once, and would start the next one.
            if not self._cancelled and current_effective_deadline() == -math.inf:
                self._cancelled = True
                self._start_no_more()
            raise
        finally:
            if worker.slot is not None:
                self._lane.release(worker.slot)
            if not self._batch.ready:
                self._lane.stop_waiting()
            self._expand()
            if not self._batch.unsettled:
                self._tell_news()
            self._resolve_circles()

    async def _run_ready(self, worker: Worker) -> None:
        runner = CallRunner(
            self._settings,
            variables=self._variables,
            context=self._context,
            caller=self._caller,
            on_suspend=self._expand,
            on_progress=self._batch.on_progress,
        )
        while worker.slot is not None and self._batch.ready and self._stop is None:
            with CancelScope() as scope:
                if self._group is None:
                    self._scope = scope
                await self._run_under(scope, worker, runner)
            if not worker.calls_left:
                worker.calls_left = CALLS_PER_CHECKPOINT
                await checkpoint()

    async def _run_under(self, scope: CancelScope, worker: Worker, runner: CallRunner) -> None:
        """Run calls until the scope's deadline has struck, the slot is gone or a checkpoint is due."""
        while worker.slot is not None and self._stop is None:
            started = self._batch.start()
            if started is None:
                return
            call, request, tool, prepared, worker.slot.permit = started
            outcome = await runner.run(request, tool, prepared, worker.slot, scope)
            self._settle(call, outcome, worker, runner)
            if runner.disturbed and self._look_after(runner):
                await absorb_native_cancellation()
            if runner.suspended:
                worker.calls_left = CALLS_PER_CHECKPOINT
                if self._batch.ready and worker.task.has_pending_cancellation():
                    await checkpoint()
                if scope.cancel_called:
                    return
            else:
                worker.calls_left -= 1
                if not worker.calls_left:
                    return

    def _settle(self, call: int, outcome: ToolCallOutcome, worker: Worker, runner: CallRunner) -> None:
        """Record what a call came to, and pass its slot on if that is another batch's now."""
        if not runner.slot_kept:
            worker.slot = None
        if runner.cut_short:
            # What depends on it is not skipped for its failure: it never began.
            self._batch.cut_short(call, outcome)
        else:
            self._batch.settle(call, outcome)
        slot = worker.slot
        if slot is None:
            return
        if slot.permit is not None:
            self._starting += 1  # the worker will itself take a call that may start now
            slot.end_permit()
            self._starting -= 1
        if self._batch.ready and not self._over and not self._lane.keep(slot):
            self._lane.pass_on(slot)
            worker.slot = None

    def _look_after(self, runner: CallRunner) -> bool:
        """Raise the cancellation that was real; give whether one that was not may still be on its way."""
        if runner.crash is not None:
            self.stop(runner.crash)
        if runner.interruption is not None:
            raise runner.interruption
        return runner.self_cancelled
