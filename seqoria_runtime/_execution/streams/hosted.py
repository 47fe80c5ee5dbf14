"""Runs the work behind a stream in the client's root task group, never in the consumer's task.

The consumer holds a `Stream`, and that holds the `HostedWork`. No task holds the stream, so that it can be
collected. Knows nothing of what the work does.
"""

import logging
import math
from collections.abc import Awaitable, Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any, Generic, Literal, Protocol, TypeVar

from anyio import CancelScope, Event, current_effective_deadline, get_cancelled_exc_class
from anyio.lowlevel import EventLoopToken

from seqoria_runtime.models.errors import ClientClosedError

from .channel import Channel

T = TypeVar("T")
Reason = Literal["closed by its consumer", "dropped by its consumer", "client closed"]

_logger = logging.getLogger("seqoria_runtime")

hosted_in: "ContextVar[tuple[HostedWork[Any], ...]]" = ContextVar("hosted_in", default=())
"""The hosted works that this code runs inside, outermost first."""


class WorkHost(Protocol):
    """Where work can be hosted: an open client."""

    @property
    def token(self) -> EventLoopToken: ...

    def host(self, work: "HostedWork[Any]") -> None:
        """Start `work.run` as a child of the root task group; raise `ClientStateError` if it is not open."""


class HostedWork(Generic[T]):
    """The work of one stream and its state; shared by the consumer's stream and the hosted task.

    `work` and `before_start` are called with this object. `before_start` is called in the consumer's task
    before the work is hosted, and what it returns is awaited there; either may raise. `at_end` is called
    once, when the work has ended: as the consumer sees the end or closes the stream, or at once if the
    stream was dropped or the client closes. Error texts start with `name`.
    """

    def __init__(
        self,
        host: WorkHost,
        work: "Callable[[HostedWork[T]], Awaitable[None]]",
        *,
        name: str,
        limit: int,
        before_start: "Callable[[HostedWork[T]], Awaitable[None] | None] | None" = None,
        at_end: Callable[[], None] | None = None,
    ) -> None:
        self._host = host
        self._work = work
        self._before_start = before_start
        self._at_end = at_end
        self._scope: CancelScope | None = None
        self._end: Event | None = None
        self._settlement: Event | None = None
        self._failure: BaseException | None = None
        self.name = name
        self.channel: Channel[T] = Channel(limit)
        self.variables: Context = copy_context()
        self.variables.run(hosted_in.set, (*hosted_in.get(), self))
        self.started: bool = False
        self.ended: bool = False
        """Whether the hosted task has ended, its cleanup included."""
        self.reason: Reason | None = None
        self.waits_for: list[HostedWork[Any]] = []
        """Works that code inside this one is waiting for, until they end."""

    async def start(self) -> None:
        """Start the work. If this raises, as `before_start` and a closed client may, it has not started.

        A stream that is closed meanwhile does not start either, and raises nothing. A cancelled caller has
        started nothing.
        """
        prepared = await self._prepare()
        if self.reason is not None:
            if prepared:
                self._settle()
            return
        self._scope = CancelScope()
        try:
            self._host.host(self)
        except BaseException:
            self.reason = "client closed"
            self._settle()
            raise
        self.started = True

    async def _prepare(self) -> bool:
        waiting = self._before_start(self) if self._before_start is not None else None
        if waiting is None:
            return True
        with CancelScope() as self._scope:
            await waiting
            return True
        return False

    async def run(self) -> None:
        """Do the work, in the task that the host starts for it; raise nothing."""
        assert self._scope is not None
        try:
            with self._scope:
                await self._work(self)
        except get_cancelled_exc_class() as exc:
            self._note_cancelled(exc)
        except BaseException as exc:  # noqa: BLE001 - it is for the consumer, and must not reach the root group
            self._failure = exc
        if self.reason is not None:
            self._log_failure()
        if self.reason in {"dropped by its consumer", "client closed"}:
            self._settle_alone()
        # The context and the closures hold this object in turn: break the cycles.
        del self.variables, self._work, self._before_start
        self.ended = True
        if self._end is not None:
            self._end.set()
        self.channel.close()

    def _note_cancelled(self, exc: BaseException) -> None:
        if current_effective_deadline() == -math.inf:
            self.reason = self.reason or "client closed"
            self.channel.cut()
        elif self.reason is None:
            # Neither the client nor the consumer cancelled, so the consumer must not see a cancellation.
            self._failure = RuntimeError(
                f"{self.name} was cancelled from inside, or by its task's own cancel"
            )
            self._failure.__cause__ = exc

    def _log_failure(self) -> None:
        """Log a failure that no consumer will see."""
        failure = self._failure
        if failure is None or (_ends_program(failure) and self.reason != "dropped by its consumer"):
            return
        self._failure = None
        _logger.warning("%s failed when it was %s", self.name, self.reason, exc_info=failure)

    def cancel(self, reason: Reason) -> None:
        """Cancel the work, for this reason unless it has one already."""
        if not self.ended:
            self.reason = self.reason or reason
            if reason == "client closed":
                self.channel.cut()
            self._cancel()

    def _cancel(self) -> None:
        if self._scope is not None:
            self._scope.cancel()

    def close_with_client(self) -> None:
        """Cancel the work, or drop what its consumer has not read, since the client closes."""
        if not self.ended:
            self.cancel("client closed")
            return
        if self.channel.cut():
            self.reason = self.reason or "client closed"
        self._settle_alone()

    async def join(self) -> None:
        """Wait until the work has ended; a cancelled caller waits all the same."""
        interruption: BaseException | None = None
        while not self.ended:
            if self._end is None:
                self._end = Event()
            try:
                with CancelScope(shield=True):
                    await self._end.wait()
            except get_cancelled_exc_class() as exc:
                # Only asyncio's own Task.cancel gets through a shield: keep it, and raise it at the end.
                interruption = exc
        if interruption is not None:
            raise interruption

    def would_wait_for(self, works: "tuple[HostedWork[Any], ...]") -> bool:
        """Return whether this work cannot end before code that runs inside one of `works` has ended."""
        return self in works or any(other.would_wait_for(works) for other in self.waits_for)

    async def close(self) -> None:
        """Cancel the work and return when it has ended. Raise only its `KeyboardInterrupt` or `SystemExit`.

        A cancelled caller waits all the same.
        """
        self.cancel("closed by its consumer")
        waiting = hosted_in.get()
        for work in waiting:
            work.waits_for.append(self)
        try:
            await self.join()
        finally:
            for work in waiting:
                work.waits_for.remove(self)
            self.channel.cut()
            self._settle()
        if self._failure is not None and _ends_program(self._failure):
            self.raise_failure()

    def finish(self) -> None:
        """Settle the ended work; raise its failure, or `ClientClosedError` if the client ended it."""
        self._settle()
        self.raise_failure()
        if self.reason == "client closed":
            raise ClientClosedError(f"the client was closed before {self.name} had ended")

    def raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure

    def drop(self) -> None:
        """End the work of a stream that was dropped; may be called in any thread."""
        # At once: the next turn on the same history may start before the event loop runs the callback.
        self.reason = self.reason or "dropped by its consumer"
        post_to_loop(self._host.token, self._end_dropped, otherwise=self._settle_alone)

    def _end_dropped(self) -> None:
        self._cancel()
        if self.ended:
            self._log_failure()
            self._settle_alone()

    def _settle(self) -> None:
        at_end, self._at_end = self._at_end, None
        if at_end is not None:
            try:
                at_end()
            finally:
                if self._settlement is not None:
                    self._settlement.set()

    async def settled(self) -> None:
        """Wait until `at_end` has been called; a cancelled caller changes nothing."""
        if self._at_end is not None:
            if self._settlement is None:
                self._settlement = Event()
            await self._settlement.wait()

    def _settle_alone(self) -> None:
        """Settle, and log a failure, as no code waits for it; a history may be a list that raises."""
        try:
            self._settle()
        except Exception:
            _logger.exception("%s could not be settled", self.name)


def post_to_loop(
    token: EventLoopToken, callback: Callable[[], None], *, otherwise: Callable[[], None]
) -> None:
    """Let the event loop call `callback` soon, from any thread; call `otherwise` here if it is gone.

    anyio's own way waits for an answer, which a finalizer cannot do.
    """
    native: Any = token.native_token
    post = getattr(native, "call_soon_threadsafe", None) or native.run_sync_soon
    try:
        post(callback)
    except RuntimeError:
        otherwise()


def _ends_program(failure: BaseException) -> bool:
    return isinstance(failure, (KeyboardInterrupt, SystemExit))
