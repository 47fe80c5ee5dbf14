"""Runs one batch: workers, each of which runs calls one after another in places that it holds.

The rules of order are the planner's, those of admission the places', those of one call the runner's. A call
that waits costs an entry in a list, not a task: a worker is started only for a call that has its places.
"""

import math
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context
from typing import Any

import anyio
from anyio import (
    CancelScope,
    Event,
    TaskHandle,
    TaskInfo,
    current_effective_deadline,
    get_cancelled_exc_class,
    get_current_task,
)
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from seqoria_runtime._execution.batches import outcomes
from seqoria_runtime._execution.batches.batch import Batch
from seqoria_runtime._execution.places.places import launch
from seqoria_runtime._execution.places.pool import Grant, Pool, Ticket
from seqoria_runtime.models import ToolCallOutcome
from seqoria_runtime.models.errors import CallEndedError

from .driver import absorb_native_cancellation
from .runner import CallRunner
from .settings import ExecutionSettings
from .verdict import Ended

_CALLS_PER_CHECKPOINT = 64
_DEEPEST = 200
# Each level of calls in calls nests three cancel scopes. The event loops follow these recursively: with some
# 1,000 of them trio refuses to go on, and on asyncio a cancellation is lost.


class _Worker:
    """A task of the batch, and the call that it runs or is about to run."""

    __slots__ = ("calls_left", "grant", "task")

    def __init__(self, grant: Grant | None) -> None:
        self.grant = grant
        self.task: TaskInfo | None = None
        self.calls_left = _CALLS_PER_CHECKPOINT
        """How many more calls may end without a suspension before other tasks get a turn."""

    def is_cancelled(self) -> bool:
        """Whether a cancellation of the worker's task is pending."""
        if self.task is None:
            self.task = get_current_task()
        return self.task.has_pending_cancellation()


class Scheduler:
    """Runs one batch, once.

    Each call gets a copy of the context variables in `variables`. `context` holds the trusted values of the
    request, `caller` is the call that started this batch, if any.
    """

    def __init__(
        self,
        batch: Batch,
        settings: ExecutionSettings,
        *,
        variables: Context,
        context: Mapping[str, Any],
        caller: Grant | None = None,
    ) -> None:
        self._batch = batch
        self._settings = settings
        self._places = settings.places
        self._variables = variables
        self._context = context
        self._caller = caller
        self._ticket: Ticket | None = None
        self._group: TaskGroup | None = None
        self._scope: CancelScope | None = None
        self._entered = False
        self._launched: deque[Grant] = deque()
        self._unstarted: dict[object, TaskHandle[None]] = {}
        self._depth = 0
        self._workers = 0
        self._watching = False
        self._news: Event | None = None
        self._stop: BaseException | None = None
        self._cancelled = False

    async def run(self, *, in_this_task: bool = False) -> list[ToolCallOutcome]:
        """Run all calls in tasks of a group of this task; return one outcome per call, in their order.

        With `in_this_task`, which is for tasks of the runtime itself, calls run in this one too. Raises bare,
        once every call has ended, a `KeyboardInterrupt` or `SystemExit` that a call raised, or the error
        passed to `stop`. A cancelled caller finds every call ended as well, and in the batch how far each
        one came.
        """
        try:
            # Not `checkpoint_if_cancelled`: if a worker thread called into the loop through anyio, and the
            # scope around that thread has been cancelled and left, it never returns.
            if get_current_task().has_pending_cancellation():
                await checkpoint()
            if self._caller is not None:
                self._caller.require_live()
                if not in_this_task:
                    self._depth = _one_deeper(self._caller)
            self._batch.settle_refused()
            if self._batch.unsettled:
                await self._run_all(in_this_task=in_this_task)
                if self._stop is None:
                    # A worker that asyncio has cancelled before its first step takes the group along.
                    self._batch.give_up()
            else:
                await checkpoint()
        finally:
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
            if self._group is not None:
                self._group.cancel_scope.cancel()
            elif self._scope is not None:
                self._scope.cancel()

    def launch(self, grant: Grant) -> None:
        """Start a worker for a call that has its places."""
        assert self._group is not None
        self._launched.append(grant)
        self._start(self._group, self._work_in_group)

    def places_stuck(self) -> None:
        """Check again how long the calls of the batch have waited for abandoned threads."""
        if self._news is not None:
            self._news.set()
        elif self._group is not None and not self._watching and self._batch.unsettled and self._stop is None:
            self._watching = True
            self._start(self._group, self._watch)

    def caller_ended(self, error: CallEndedError) -> None:
        """End the batch, since the call that started it has ended."""
        self.stop(error)

    async def _run_all(self, *, in_this_task: bool) -> None:
        ticket = self._ticket = Ticket(self._places.slots, self, self._batch.order, self._caller)
        try:
            if in_this_task and self._batch.unsettled == 1:
                await self._work(_Worker(None))
            if self._batch.unsettled and self._stop is None:
                await self._run_in_group(in_this_task=in_this_task)
        finally:
            self._start_no_more()
            # On asyncio a task that is cancelled before its first step never runs at all.
            for task in self._unstarted.values():
                task.coro.close()
            while self._launched:
                launch(self._places.over(self._launched.popleft()))
            may_go_on = self._places.leave(ticket, self._go_on)
            if not may_go_on and (sys.exc_info()[0] is not None or self._stop is not None):
                self._places.go_on_regardless(ticket)
                may_go_on = True
        if not may_go_on:
            await self._wait_to_go_on(ticket)

    async def _run_in_group(self, *, in_this_task: bool) -> None:
        async with anyio.create_task_group() as group:
            self._group = group
            if not in_this_task:
                # Enter the places in a task of the batch, since its stack is short. The caller may be a tool
                # that recurses: a RecursionError in the middle of `Places.assign` would lose places.
                self._start(group, self._work_in_group)
                return
            if not self._entered:
                await self._work(_Worker(None))
            await self._watch_if_last()

    async def _wait_to_go_on(self, ticket: Ticket) -> None:
        """Wait until the call that started this batch has back the places that it lent."""
        self._news = Event()
        launch(self._places.assign())
        try:
            await self._news.wait()
        except BaseException:
            self._places.go_on_regardless(ticket)
            raise

    def _go_on(self) -> None:
        if self._news is not None:
            self._news.set()

    def _start_no_more(self) -> None:
        if self._ticket is not None and not self._ticket.closed:
            launch(self._places.close(self._ticket))

    def _start(self, group: TaskGroup, function: Callable[[object], Coroutine[Any, Any, None]]) -> None:
        key = object()
        self._unstarted[key] = group.start_soon(function, key)

    async def _work_in_group(self, key: object) -> None:
        """Work in a task started for this; a native cancel of that task alone retires just this worker."""
        self._unstarted.pop(key, None)  # an eager task starts before its key is there
        # Take calls in their order, in whatever order their tasks start: trio shuffles them.
        grant = self._launched.popleft() if self._launched else None
        try:
            await self._work(_Worker(grant))
        except get_cancelled_exc_class():
            if self._cancelled:
                raise
        await self._watch_if_last()

    async def _work(self, worker: _Worker) -> None:
        """Run calls while there are places for them; return the places on any way out."""
        self._workers += 1
        try:
            await self._run_calls(worker)
        except (KeyboardInterrupt, SystemExit) as exc:
            self.stop(exc)
        except BaseException:
            self._check_cancelled()
            raise
        finally:
            self._workers -= 1
            if worker.grant is not None:
                self._batch.put_back(worker.grant.call)
                launch(self._places.over(worker.grant))
            if not self._batch.unsettled and self._news is not None:
                self._news.set()

    def _check_cancelled(self) -> None:
        """Start nothing more if the batch is cancelled: each worker would end at once and start the next."""
        if not self._cancelled and current_effective_deadline() == -math.inf:
            self._cancelled = True
            self._start_no_more()

    async def _watch_if_last(self) -> None:
        """Keep the group open for calls that wait for places, if no other task does."""
        if not self._workers and not self._launched and not self._watching:
            self._watching = True
            await self._watch()

    def _continue_with(self, worker: _Worker, starts: list[Grant]) -> None:
        """Let the worker go on with a call of this batch, if one may start, and launch all others."""
        worker.grant = None
        for grant in starts:
            if worker.grant is None and grant.ticket is self._ticket:
                worker.grant = grant
            else:
                grant.ticket.batch.launch(grant)

    async def _run_calls(self, worker: _Worker) -> None:
        if current_effective_deadline() == -math.inf:
            await checkpoint()
        if not self._entered and self._ticket is not None and self._stop is None:
            self._entered = True
            self._continue_with(worker, self._places.enter(self._ticket))
        if not self._goes_on(worker):
            return
        runner = CallRunner(
            self._settings,
            variables=self._variables,
            context=self._context,
            on_suspend=self._note_suspended,
            on_progress=self._batch.on_progress,
        )
        while self._goes_on(worker):
            with CancelScope() as scope:
                if self._group is None:
                    self._scope = scope
                await self._run_under(scope, worker, runner)
            if not worker.calls_left:
                worker.calls_left = _CALLS_PER_CHECKPOINT
                await checkpoint()

    def _goes_on(self, worker: _Worker) -> bool:
        return worker.grant is not None and self._stop is None

    async def _run_under(self, scope: CancelScope, worker: _Worker, runner: CallRunner) -> None:
        """Run calls until the scope's deadline has passed, no call has places, or a checkpoint is due."""
        while (grant := worker.grant) is not None and self._stop is None:
            grant.depth = self._depth
            request, tool, prepared = self._batch.begin(grant.call)
            ended = await runner.run(request, tool, prepared, grant, scope)
            self._settle(worker, grant, ended)
            if ended.interruption is not None:
                raise ended.interruption
            if ended.cancelled_own_task:
                await absorb_native_cancellation()
            if ended.suspended:
                worker.calls_left = _CALLS_PER_CHECKPOINT
                if worker.grant is not None and worker.is_cancelled():
                    await checkpoint()
                if scope.cancel_called:
                    return
            else:
                worker.calls_left -= 1
                if not worker.calls_left:
                    return

    def _settle(self, worker: _Worker, grant: Grant, ended: Ended) -> None:
        """Record how a call ended, return its places, and let the worker go on with the next call."""
        if ended.cut_short:
            # Do not skip what depends on it: the batch is cancelled, so those calls were cancelled too.
            self._batch.cut_short(grant.call, ended.outcome)
        else:
            self._batch.settle(grant.call, ended.outcome)
        if ended.crash is not None:
            self.stop(ended.crash)
        starts = self._places.over(grant, thread_runs=ended.thread_runs)
        self._continue_with(worker, starts)

    def _note_suspended(self) -> None:
        ticket = self._ticket
        if ticket is not None and not ticket.eager:
            launch(self._places.take_all(ticket))

    async def _watch(self, key: object = None) -> None:
        """Wait until all calls have settled or stopped; refuse those that waited too long for threads."""
        self._unstarted.pop(key, None)
        try:
            while self._batch.unsettled and self._stop is None:
                await self._watch_once()
        except BaseException:
            self._start_no_more()
            raise
        self._watching, self._news = False, None

    async def _watch_once(self) -> None:
        stuck = self._stuck()
        self._news = Event()
        if stuck is None:
            await self._news.wait()
            return
        since, pool = stuck
        deadline = since + self._settings.abandoned_grace
        with CancelScope(deadline=deadline):
            await self._news.wait()
        if self._settings.now() >= deadline and self._stuck() == stuck:
            self._refuse_waiting(pool)

    def _stuck(self) -> tuple[float, Pool] | None:
        """Of the pools that ready calls need, return the one stuck for the longest, and since when."""
        stuck = [
            (pool.stuck_since, pool)
            for group in self._batch.order.ready_groups()
            for pool in (self._places.slots, *group)
            if pool.stuck_since is not None
        ]
        return min(stuck, key=lambda found: found[0], default=None)

    def _refuse_waiting(self, pool: Pool) -> None:
        grace, holders = self._settings.abandoned_grace, pool.abandoned
        if pool is self._places.slots:
            self._batch.refuse_ready(lambda request: outcomes.unavailable(request, grace, holders))
        else:
            limit = pool.limit
            self._batch.refuse_ready(
                lambda request: outcomes.unavailable(request, grace, holders, limit=limit), pool=pool
            )
        if self._ticket is not None:
            launch(self._places.more(self._ticket))


def _one_deeper(caller: Grant) -> int:
    if caller.depth >= _DEEPEST:
        raise RecursionError(
            f"tool calls are nested more than {_DEEPEST} deep; the last one is of the tool {caller.tool!r}"
        )
    return caller.depth + 1
