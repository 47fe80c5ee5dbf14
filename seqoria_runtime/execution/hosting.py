"""Owns the work behind streams: it runs in the client's root task group, never in the consumer's task.

The consumer holds a stream object (`HostedStream`), the work holds no reference to it, and both
hold the `HostedWork` between them. Knows nothing of what the work does.
"""

import logging
import warnings
from collections.abc import Awaitable, Callable
from contextvars import Context, ContextVar, copy_context
from types import TracebackType
from typing import Any, Generic, Literal, Protocol, Self, TypeVar

from anyio import CancelScope, Event, get_cancelled_exc_class
from anyio.lowlevel import EventLoopToken

from seqoria_runtime.models.errors import ClientClosedError

from .channel import Channel

T = TypeVar("T")
Reason = Literal["closed by its consumer", "dropped by its consumer", "client closed"]

_logger = logging.getLogger("seqoria_runtime")

hosted_in: "ContextVar[tuple[HostedWork[Any], ...]]" = ContextVar("hosted_in", default=())
"""The streams' works in which this code runs, outermost first."""


class WorkHost(Protocol):
    """Where work can be hosted: an open client."""

    @property
    def token(self) -> EventLoopToken: ...

    def host(self, work: "HostedWork[Any]") -> None:
        """Start `work.run` as a child of the root task group; raises `ClientStateError` if it is not open."""


class HostedWork(Generic[T]):
    """One stream's work and how far it is; shared by the consumer's object and the hosted task.

    `before_start` is awaited in the consumer's task before the work is hosted, and may raise.
    `at_end` is called once, when the work has ended: as the consumer learns of it or closes the
    stream, or at once where the stream was dropped or the client is being closed. `name` begins
    the sentences of errors.
    """

    def __init__(
        self,
        host: WorkHost,
        work: Callable[[Channel[T]], Awaitable[None]],
        *,
        name: str,
        limit: int,
        before_start: Callable[[], Awaitable[None] | None] | None = None,
        at_end: Callable[[], None] | None = None,
    ) -> None:
        self._host = host
        self._work = work
        self._before_start = before_start
        self._at_end = at_end
        self._scope = CancelScope()
        self._ended = Event()
        self.settled = Event()
        """Set once `at_end` has been called."""
        self._failure: BaseException | None = None
        self.name = name
        self.channel: Channel[T] = Channel(limit)
        self.variables: Context = copy_context()
        self.variables.run(hosted_in.set, (*hosted_in.get(), self))
        self.started = False
        self.reason: Reason | None = None

    @property
    def ended(self) -> bool:
        """Whether the hosted task is through, its cleanup included."""
        return self._ended.is_set()

    @property
    def token(self) -> EventLoopToken:
        return self._host.token

    async def start(self) -> None:
        """Begin to work; raises what stands in the way, and has then not begun."""
        if self._before_start is not None:
            waiting = self._before_start()
            if waiting is not None:
                await waiting
        try:
            self._host.host(self)
        except BaseException:
            self._settle()
            raise
        self.started = True

    async def run(self) -> None:
        """Do the work, in a task of its own (called by the host). Raises nothing."""
        try:
            with self._scope:
                await self._work(self.channel)
        except get_cancelled_exc_class():
            self.reason = self.reason or "client closed"
        except BaseException as exc:  # noqa: BLE001 - it is the consumer's, and must not reach the root group
            self._failure = exc
        if self.reason is not None and self._failure is not None and not _ends_program(self._failure):
            _logger.warning(
                "%s failed while it was being stopped (%s)", self.name, self.reason, exc_info=self._failure
            )
            self._failure = None
        if self.reason in {"dropped by its consumer", "client closed"}:
            self._settle()
        # The context and the closures hold this object in turn: drop them, and spare a garbage collection.
        del self.variables, self._work, self._before_start
        self._ended.set()
        self.channel.close()

    def cancel(self, reason: Reason) -> None:
        """Make the work end soon, for this reason if there is none yet."""
        if not self.ended:
            self.reason = self.reason or reason
            self._scope.cancel()

    async def join(self) -> None:
        """Wait until the work has ended, whatever happens to the caller meanwhile."""
        interruption: BaseException | None = None
        while not self.ended:
            try:
                with CancelScope(shield=True):
                    await self._ended.wait()
            except get_cancelled_exc_class() as exc:
                # Only asyncio's own Task.cancel gets through a shield: it is kept, and raised in the end.
                interruption = exc
        if interruption is not None:
            raise interruption

    async def close(self) -> None:
        """Cancel the work and return when it has ended; raises only an interruption of the program."""
        self.cancel("closed by its consumer")
        try:
            await self.join()
        finally:
            self.channel.clear()
            self._settle()
        if self._failure is not None and _ends_program(self._failure):
            self.raise_failure()

    def finish(self) -> None:
        """Say how the ended work ended: raises its failure, `ClientClosedError`, or nothing."""
        self._settle()
        if self.reason == "client closed":
            raise ClientClosedError(f"the client was closed before {self.name} had ended")
        self.raise_failure()

    def raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure

    def drop(self) -> None:
        """End the work of a stream that nobody holds any more (in the event loop's thread)."""
        self.cancel("dropped by its consumer")
        if self.ended:
            self._settle()

    def forget(self) -> None:
        """Settle what the work leaves behind, its event loop being gone."""
        self._settle()

    def _settle(self) -> None:
        at_end, self._at_end = self._at_end, None
        if at_end is not None:
            at_end()
            self.settled.set()


class HostedStream(Generic[T]):
    """An asynchronous iterator of events whose work runs inside the client.

    Nothing starts before the first iteration or `async with`. Best used as
    `async with client.chat(...) as turn: async for event in turn: ...`, which closes it on any way
    out; `contextlib.aclosing` does the same. A cancelled `anext` loses nothing: the next one gets
    the event that would have come. Two iterations at once raise `RuntimeError`.
    """

    def __init__(self, work: HostedWork[T]) -> None:
        self._work = work
        self._iterating = False
        self._closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if self._iterating:
            raise RuntimeError(f"{self._work.name} is being iterated by another task already")
        self._iterating = True
        try:
            return await self._next()
        finally:
            self._iterating = False

    async def _next(self) -> T:
        work = self._work
        if not self._closed and not work.started:
            await work.start()
        has_event = not self._closed and await work.channel.wait()
        if has_event and not self._closed and work.reason != "client closed":
            return work.channel.take()
        if not self._closed:
            self._closed = True
            work.finish()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Cancel what is unfinished and return once every task of it has ended.

        May be called from any task, and more than once. An asynchronous tool that ignores its
        cancellation delays this; a worker thread does not. A cancelled caller waits all the same.
        Raises `RuntimeError` in a tool of this very stream, which could only wait for itself.
        """
        if self._work in hosted_in.get():
            raise RuntimeError(
                f"{self._work.name} cannot be closed by code that it runs itself, such as a tool"
            )
        self._closed = True
        if self._work.started:
            await self._work.close()

    async def __aenter__(self) -> Self:
        if not self._closed and not self._work.started:
            await self._work.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        work = self._work
        if self._closed or not work.started:
            return
        unfinished = not work.ended
        post_to_loop(work.token, work.drop, otherwise=work.forget)
        if unfinished:
            warnings.warn(
                f"{work.name} was dropped before it had ended: close it, or use 'async with'",
                ResourceWarning,
                source=self,
                stacklevel=1,
            )


def post_to_loop(
    token: EventLoopToken, callback: Callable[[], None], *, otherwise: Callable[[], None]
) -> None:
    """Have the event loop call `callback` soon, from any thread; call `otherwise` here if it is gone.

    anyio's own way waits for the answer, which a finalizer cannot do.
    """
    native: Any = token.native_token
    post = getattr(native, "call_soon_threadsafe", None) or native.run_sync_soon
    try:
        post(callback)
    except RuntimeError:
        otherwise()


def _ends_program(failure: BaseException) -> bool:
    return isinstance(failure, (KeyboardInterrupt, SystemExit))
