import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.abc
import pytest
from anyio.lowlevel import EventLoopToken, current_token

from seqoria_runtime._execution.streams.channel import Channel
from seqoria_runtime._execution.streams.hosted import HostedWork, hosted_in, post_to_loop
from seqoria_runtime._execution.streams.stream import Stream
from seqoria_runtime.models.errors import ClientClosedError, ClientStateError
from seqoria_runtime.testing import Backend, run_virtual


class Host:
    """A task group as a host of work."""

    def __init__(self, group: anyio.abc.TaskGroup) -> None:
        self._group = group
        self._token = current_token()
        self.open = True
        self.hosted: list[HostedWork[Any]] = []

    @property
    def token(self) -> EventLoopToken:
        return self._token

    def host(self, work: HostedWork[Any]) -> None:
        if not self.open:
            raise ClientStateError("not open")
        self.hosted.append(work)
        work.variables.run(self._group.start_soon, work.run)


class Hosting:
    """A host, and streams on it that note when their work was settled."""

    def __init__(self) -> None:
        self.settled: list[float] = []
        self.note: Callable[[], None] = lambda: self.settled.append(anyio.current_time())
        self.before: Callable[[], Awaitable[None] | None] | None = None

    async def __aenter__(self) -> "Hosting":
        self.group = anyio.create_task_group()
        await self.group.__aenter__()
        self.host = Host(self.group)
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self.group.__aexit__(*exc)

    def stream(self, work: Callable[[Channel[Any]], Awaitable[None]], limit: int = 4) -> Stream[Any]:
        return Stream(
            HostedWork(
                self.host,
                lambda hosted: work(hosted.channel),
                name="this work",
                limit=limit,
                before_start=lambda _: None if self.before is None else self.before(),
                at_end=lambda: self.note(),
            )
        )


async def three(channel: Channel[Any]) -> None:
    for number in range(3):
        await anyio.sleep(1)
        await channel.send(number)


async def forever(channel: Channel[Any]) -> None:
    await channel.send("event")
    await anyio.sleep_forever()


async def two_and_forever(channel: Channel[Any]) -> None:
    await channel.send("event")
    await channel.send("unread")
    await anyio.sleep_forever()


class Own(Exception):
    """A failure of the work."""


@pytest.mark.clause("C30")
async def test_the_work_runs_in_a_task_of_the_host_and_is_settled_as_its_end_is_seen() -> None:
    async with Hosting() as hosting:
        stream = hosting.stream(three)
        assert [await anext(stream) for _ in range(3)] == [0, 1, 2]
        await anyio.sleep(5)
        assert hosting.settled == []
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert hosting.settled == [8.0]


@pytest.mark.clause("C20")
async def test_a_failure_comes_after_what_was_sent_before_it() -> None:
    async def fail(channel: Channel[Any]) -> None:
        await channel.send("event")
        raise Own

    async with Hosting() as hosting:
        stream = hosting.stream(fail)
        assert await anext(stream) == "event"
        with pytest.raises(Own):
            await anext(stream)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
    assert hosting.settled == [0.0]


@pytest.mark.clause("C3")
async def test_work_that_its_host_stops_tells_its_consumer_and_drops_what_was_not_seen() -> None:
    async with Hosting() as hosting:
        stream = hosting.stream(forever)
        async with stream:
            await anyio.sleep(1)
            hosting.host.hosted[0].cancel("client closed")
            await anyio.sleep(1)
            assert hosting.settled == [1.0]
            with pytest.raises(ClientClosedError, match="the client was closed before this work had ended"):
                await anext(stream)


@pytest.mark.clause("C3", "C36")
async def test_work_that_its_host_refuses_is_settled_and_not_tried_again() -> None:
    prepared: list[bool] = []
    async with Hosting() as hosting:
        hosting.before = lambda: prepared.append(True)
        hosting.host.open = False
        stream = hosting.stream(three)
        with pytest.raises(ClientStateError, match="not open"):
            await anext(stream)
        hosting.host.open = True
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
    assert (prepared, hosting.settled) == ([True], [0.0])


@pytest.mark.clause("C36")
async def test_what_forbids_the_start_may_have_passed_at_the_next_one() -> None:
    obstacles = [Own()]

    async def prepare() -> None:
        await anyio.sleep(1)
        if obstacles:
            raise obstacles.pop()

    async with Hosting() as hosting:
        hosting.before = prepare
        stream = hosting.stream(three)
        with pytest.raises(Own):
            await anext(stream)
        assert hosting.settled == []
        assert await anext(stream) == 0


@pytest.mark.clause("C31")
@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_stream_that_is_closed_while_it_prepares_does_not_start(stubborn: bool) -> None:
    async def prepare() -> None:
        with anyio.CancelScope(shield=stubborn):
            await anyio.sleep(1)

    events: list[Any] = []

    async def read() -> None:
        events.extend([event async for event in stream])

    async with Hosting() as hosting, anyio.create_task_group() as group:
        hosting.before = prepare
        stream = hosting.stream(three)
        group.start_soon(read)
        await anyio.sleep(0.5)
        await stream.aclose()
    assert events == []
    assert hosting.host.hosted == []
    assert hosting.settled == ([1.0] if stubborn else [])


async def stray_cancellation(channel: Channel[Any]) -> None:
    """Raise a cancellation that nobody asked for, as code does that keeps one for later."""
    kept: BaseException | None = None
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.sleep(1)
        except anyio.get_cancelled_exc_class() as exc:
            kept = exc
    assert kept is not None
    raise kept


@pytest.mark.clause("C20", "C53")
async def test_a_cancellation_that_the_work_made_up_is_a_failure_and_not_the_consumers() -> None:
    async with Hosting() as hosting:
        stream = hosting.stream(stray_cancellation)
        with pytest.raises(RuntimeError, match="this work was cancelled from inside") as caught:
            await anext(stream)
        assert isinstance(caught.value.__cause__, anyio.get_cancelled_exc_class())
        await anyio.sleep(1)
    assert len(hosting.settled) == 1


@pytest.mark.clause("C20", "C53")
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_native_cancel_of_the_works_own_task_is_a_failure_too(anyio_backend: str) -> None:
    tasks: list[asyncio.Task[Any] | None] = []

    async def work(channel: Channel[Any]) -> None:
        tasks.append(asyncio.current_task())
        await forever(channel)

    async with Hosting() as hosting:
        stream = hosting.stream(work)
        assert await anext(stream) == "event"
        assert tasks[0] is not None
        tasks[0].cancel()
        with pytest.raises(RuntimeError, match="this work was cancelled from inside"):
            await anext(stream)


@pytest.mark.clause("C3")
async def test_work_whose_host_is_cancelled_from_outside_ends_like_work_of_a_closed_client() -> None:
    async with Hosting() as hosting:
        stream = hosting.stream(two_and_forever)
        assert await anext(stream) == "event"
        hosting.group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await anyio.sleep(1)
            with pytest.raises(ClientClosedError):
                await anext(stream)


@pytest.mark.clause("C31")
async def test_code_knows_the_works_that_it_is_part_of() -> None:
    inside: list[Any] = []
    refused: list[str] = []

    async def outer(channel: Channel[Any]) -> None:
        async def inner(channel: Channel[Any]) -> None:
            inside.append(hosted_in.get())
            for stream in streams:
                with anyio.move_on_after(1):
                    try:
                        await stream.aclose()
                    except RuntimeError as error:
                        refused.append(str(error))

        streams.append(hosting.stream(inner))
        async for _ in streams[1]:
            pass

    async with Hosting() as hosting:
        streams = [hosting.stream(outer)]
        async for _ in streams[0]:
            pass
    assert [len(works) for works in inside] == [2]
    assert len(refused) == 2
    assert all("this work cannot be closed by code that" in text for text in refused)
    assert hosted_in.get() == ()


@pytest.mark.clause("C34")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_what_is_posted_to_an_event_loop_that_is_gone_is_done_otherwise(backend: str) -> None:
    done: list[str] = []

    async def main() -> EventLoopToken:
        token = current_token()
        post_to_loop(token, lambda: done.append("in the loop"), otherwise=lambda: done.append("no"))
        assert done == []
        await anyio.sleep(0.01)
        return token

    token = anyio.run(main, backend=backend)
    post_to_loop(token, lambda: done.append("no"), otherwise=lambda: done.append("here"))
    assert done == ["in the loop", "here"]


@pytest.mark.clause("C34")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_stream_that_outlives_its_event_loop_is_settled_when_it_is_dropped(backend: Backend) -> None:
    hosting = Hosting()
    streams: list[Stream[Any]] = []

    async def main() -> None:
        async with hosting:
            streams.append(hosting.stream(three))
            await streams[0].__aenter__()

    run_virtual(main, backend=backend)
    hosting.note = lambda: hosting.settled.append(-1.0)
    assert hosting.settled == []
    streams.clear()
    assert hosting.settled == [-1.0]
