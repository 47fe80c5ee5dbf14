"""The root task group of an open client, and the work that has to end with it."""

import math
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

import anyio
from anyio import (
    CancelScope,
    Event,
    current_effective_deadline,
    get_cancelled_exc_class,
    get_current_task,
)
from anyio.abc import TaskGroup
from anyio.lowlevel import current_token

from seqoria_runtime._execution.streams.hosted import HostedWork
from seqoria_runtime.models.errors import ClientClosedError, ClientStateError

T = TypeVar("T")


class Stoppable(Protocol):
    """Work in a caller's task that has to end when the client closes."""

    def stop(self, error: BaseException) -> None:
        """Cancel the work, which then raises `error`."""


class Root:
    """The root task group of one open client. Entered and left by one task, in the order of nesting."""

    def __init__(self, group: TaskGroup) -> None:
        self._group = group
        self._task = get_current_task().id
        # Ended work stays here as long as its consumer may still read from it.
        self._hosted: WeakSet[HostedWork[Any]] = WeakSet()
        self._in_callers: dict[Stoppable, None] = {}
        self._callers_left: Event | None = None
        self.token = current_token()
        self.closing = False

    @classmethod
    async def open(cls) -> "Root":
        """Open the root task group in the caller's task; a cancelled caller opens nothing."""
        group = anyio.create_task_group()
        # Exited in `close`: the client's own `async with` is the block that this group spans.
        await group.__aenter__()  # noqa: PLC2801
        root = cls(group)
        _entered.setdefault(root._task, []).append(root)
        return root

    def check_leaving(self) -> None:
        """Raise `ClientStateError` unless this task entered the client, and has since left any other."""
        task = get_current_task()
        if task.id != self._task:
            raise ClientStateError(
                "the client has to be left by the task that entered it: keep its 'async with' in one task"
            )
        if _entered[self._task][-1] is not self:
            raise ClientStateError(
                "clients have to be left in the reverse order of entering: another client that this task "
                "entered later is still open"
            )

    def stop_work(self) -> None:
        """Start nothing new and cancel streams and batches; background tasks go on."""
        self.closing = True
        for caller in tuple(self._in_callers):
            caller.stop(ClientClosedError("the client was closed while this was running"))
        for work in tuple(self._hosted):
            work.close_with_client()

    async def close(self, body_failure: BaseException | None) -> None:
        """End everything and exit the task group, which adds nothing to what the body raised.

        A cancelled caller waits all the same.
        """
        self.stop_work()
        self._group.cancel_scope.cancel()
        try:
            await self._wait_for_callers()
        finally:
            self._unlist()
            await self._leave_group(body_failure)

    def host(self, work: HostedWork[Any]) -> None:
        """Start a stream's work as a child of the root task group."""
        self._require_open()
        self._hosted.add(work)
        work.variables.run(self._group.start_soon, work.run)

    def start_soon(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start a background task of the client; it has to handle its own failures."""
        self._group.start_soon(function)

    def enter_caller(self, work: Stoppable) -> None:
        """Register work that runs in its caller's task, to be stopped when the client closes."""
        self._require_open()
        self._in_callers[work] = None

    def leave_caller(self, work: Stoppable) -> None:
        """Unregister work that has ended."""
        del self._in_callers[work]
        if self._callers_left is not None and not self._in_callers:
            self._callers_left.set()

    def _require_open(self) -> None:
        if self.closing:
            raise ClientStateError("the client is being closed: nothing new can be started on it")
        if current_token() != self.token:
            raise ClientStateError("the client belongs to the event loop that it was entered in")

    async def _wait_for_callers(self) -> None:
        interruption: BaseException | None = None
        left = self._callers_left = Event()
        while self._in_callers:
            try:
                with CancelScope(shield=True):
                    await left.wait()
            except get_cancelled_exc_class() as exc:
                interruption = exc
        if interruption is not None:
            raise interruption

    async def _leave_group(self, body_failure: BaseException | None) -> None:
        try:
            await self._group.__aexit__(None, None, None)
        except get_cancelled_exc_class():
            # A cancelled scope around the client cancels again at the next checkpoint, and must not
            # replace what the body raised.
            if body_failure is None or current_effective_deadline() != -math.inf:
                raise

    def _unlist(self) -> None:
        stack = _entered[self._task]
        stack.remove(self)
        if not stack:
            del _entered[self._task]


_entered: dict[int, list[Root]] = {}
"""The open clients of each task, in the order of entering."""


class CallerScope:
    """A cancel scope around work in a caller's task; the closing client cancels it."""

    def __init__(self) -> None:
        self._scope = CancelScope()
        self._error: BaseException | None = None

    def stop(self, error: BaseException) -> None:
        """Cancel the work; `run` then raises `error`, or that of an earlier stop."""
        self._error = self._error or error
        self._scope.cancel()

    async def run(self, function: Callable[[], Awaitable[T]]) -> T:
        """Await `function()`; raise the error given to `stop` if that came first.

        A cancelled caller finds the function cancelled.
        """
        with self._scope:
            return await function()
        assert self._error is not None
        raise self._error
