"""A model that follows a script, and records what it was asked and how each stream ended."""

import math
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Literal, Self, TypeAlias

import anyio
from anyio.lowlevel import checkpoint

from seqoria_runtime.models import ToolCallRequestList
from seqoria_runtime.providers import AsyncBaseProvider, ModelRequest, ModelResponse, ProviderEvent

from .script import Reply, Unanswered

ScriptedReply: TypeAlias = Reply | Callable[[ModelRequest], Reply]
StreamEnd: TypeAlias = Literal["exhausted", "failed", "cancelled", "closed"]


class ScriptError(AssertionError):
    """A scripted model was asked more or less often than its script says, or a stream was left open."""


@dataclass(slots=True)
class StreamRecord:
    """How one request went: opened and closed at these times of the event loop's clock, in seconds.

    `end` says how the stream ended: it was read to its end, it raised, its reader was cancelled in it,
    or its reader closed it; `None` while it is open. `events` counts the events that were read.
    """

    request: ModelRequest
    opened_at: float
    closed_at: float | None = None
    end: StreamEnd | None = None
    events: int = 0


class ScriptedProvider(AsyncBaseProvider):
    """A model that answers with the replies of `script` in order, one for each request.

    A reply is made with `says`, `calls`, `fails`, `cuts_off`, `stalls` or `emits`, or is a function
    that makes one from the request; a script that is itself such a function never ends. A request
    beyond the script raises `ScriptError`. As a context manager it checks, unless its body raised, that
    the script was used up and every stream closed. Use a different `name` for each provider of a
    client: the ids of calls and responses start with it.
    """

    def __init__(
        self, script: Iterable[ScriptedReply] | Callable[[ModelRequest], Reply], *, name: str = "scripted"
    ) -> None:
        self._endless = script if callable(script) else None
        self._replies = [] if callable(script) else [_checked(reply) for reply in script]
        self._name = name
        self._streams: list[StreamRecord] = []
        self._calls = 0

    @property
    def name(self) -> str:
        return self._name

    @property
    def requests(self) -> tuple[ModelRequest, ...]:
        """The requests so far, each with its messages as they were then."""
        return tuple(stream.request for stream in self._streams)

    @property
    def streams(self) -> tuple[StreamRecord, ...]:
        """How each request went, in order."""
        return tuple(self._streams)

    @property
    def open_streams(self) -> int:
        """The number of streams that are neither read to their end nor closed."""
        return sum(stream.end is None for stream in self._streams)

    def stream(self, request: ModelRequest) -> AsyncIterator[ProviderEvent]:
        """Play the next reply. Each event is a checkpoint, and a cancelled reader ends the stream."""
        asked = replace(request, messages=tuple(request.messages))
        number = len(self._streams)
        reply = self._reply(number, asked)
        record = StreamRecord(asked, anyio.current_time())
        self._streams.append(record)
        return _Stream(reply, record, self._final(reply, number, asked))

    def assert_exhausted(self) -> None:
        """Raise `ScriptError` if replies are left. A script that is a function is never used up."""
        left = len(self._replies) - len(self._streams)
        if self._endless is None and left:
            raise ScriptError(
                f"{left} of the {len(self._replies)} replies of {self._name!r} were not asked for"
            )

    def assert_closed(self) -> None:
        """Raise `ScriptError` if a stream was left open."""
        left = [str(number) for number, stream in enumerate(self._streams, 1) if stream.end is None]
        if left:
            raise ScriptError(
                f"streams of {self._name!r} that were left open: those of request {', '.join(left)}"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc is None:
            self.assert_exhausted()
            self.assert_closed()

    def _reply(self, number: int, request: ModelRequest) -> Reply:
        if self._endless is not None:
            reply: ScriptedReply = self._endless
        elif number < len(self._replies):
            reply = self._replies[number]
        else:
            raise ScriptError(
                f"request {number + 1} to {self._name!r}, whose script has {len(self._replies)} replies; "
                f"its last message: {request.messages[-1] if request.messages else None!r}"
            )
        return reply if isinstance(reply, Reply) else _made(reply(request))

    def _final(self, reply: Reply, number: int, request: ModelRequest) -> ModelResponse | None:
        if isinstance(reply.ending, (BaseException, Unanswered)):
            return None
        shared = {"response_id": f"{self._name}-response-{number + 1}"}
        described = {**shared, "model": request.model}
        if not isinstance(reply.ending, ToolCallRequestList):
            return reply.ending.model_copy(update=described)
        requested = []
        for one in reply.calls:
            self._calls += 1
            requested.append(one.request(f"{self._name}-call-{self._calls}").model_copy(update=shared))
        message = reply.ending.message and reply.ending.message.model_copy(update=described)
        return reply.ending.model_copy(update={"tool_calls": requested, "message": message})


class _Stream(AsyncIterator[ProviderEvent]):
    """The stream of one reply. It is closed once it was read to its end, raised, or was closed."""

    def __init__(self, reply: Reply, record: StreamRecord, final: ModelResponse | None) -> None:
        self._reply = reply
        self._record = record
        self._rest: list[ProviderEvent] = [*reply.events, *([] if final is None else [final])]
        self._busy = False

    async def __anext__(self) -> ProviderEvent:
        if self._busy:
            raise RuntimeError("two tasks read one stream of a scripted model at once")
        if self._record.end is not None:
            raise StopAsyncIteration
        self._busy = True
        try:
            event = await self._next()
        except StopAsyncIteration:
            self._close("exhausted")
            raise
        except anyio.get_cancelled_exc_class():
            self._close("cancelled")
            raise
        except BaseException:
            self._close("failed")
            raise
        finally:
            self._busy = False
        self._record.events += 1
        return event

    async def aclose(self) -> None:
        self._close("closed")

    def _close(self, end: StreamEnd) -> None:
        if self._record.end is None:
            self._record.end = end
            self._record.closed_at = anyio.current_time()

    async def _next(self) -> ProviderEvent:
        await self._pause()
        if self._record.events < len(self._rest):
            return self._rest[self._record.events]
        if isinstance(self._reply.ending, BaseException):
            raise self._reply.ending
        if self._reply.ending is Unanswered.STALL:
            await anyio.sleep(math.inf)
        raise StopAsyncIteration

    async def _pause(self) -> None:
        done = self._record.events
        seconds = (
            self._reply.delay if done == 0 else self._reply.every if done < len(self._reply.events) else 0
        )
        if seconds:
            await anyio.sleep(seconds)
        else:
            await checkpoint()


def _checked(reply: ScriptedReply) -> ScriptedReply:
    return reply if callable(reply) else _made(reply)


def _made(reply: object) -> Reply:
    if not isinstance(reply, Reply):
        raise TypeError(f"a script holds replies, such as says('...'), not {reply!r}")
    return reply
