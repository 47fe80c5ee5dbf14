"""Places and parts of streams with one fault each."""

import math
from collections.abc import AsyncGenerator, Callable
from typing import Any

import anyio

from seqoria_runtime._execution.places.places import Places
from seqoria_runtime._execution.places.pool import Grant, Place
from seqoria_runtime._execution.streams.hosted import HostedWork
from seqoria_runtime.models import ToolCallOutcome, ToolCallRequest


class OneMoreSlot(Places):
    """Has one slot more than it reports."""

    def __init__(self, slots: int, now: Callable[[], float]) -> None:
        super().__init__(slots, now)
        self.slots.in_use = -1


class ForgettingPlaces(Places):
    """Takes places back at a timeout although the call's thread still runs."""

    def over(self, grant: Grant, *, thread_runs: bool = False) -> list[Grant]:
        return super().over(grant)

    def thread_ended(self, grant: Grant) -> list[Grant]:
        return []


class UnfairPlaces(Places):
    """Lets a batch keep its places as long as it can use them."""

    def _successor(self, grant: Grant) -> Grant | None:
        ticket, order = grant.ticket, grant.ticket.order
        group = order.first_group(())
        if ticket.closed or group is None or group != tuple(place.pool for place in grant.places[1:]):
            return None
        return Grant(ticket, order.take_from(group), grant.places, next(self._sequence))


class LeakingPlaces(Places):
    """Loses the places that come back in a cancelled task."""

    def _let_go(self, place: Place) -> None:
        if anyio.current_effective_deadline() != -math.inf:
            super()._let_go(place)


def lends_nothing(places: Places, place: Place) -> None:
    """Lends no place to a nested call."""


async def close_without_waiting(work: HostedWork[Any]) -> None:
    """Cancels a stream's work and does not wait for its end."""
    work.cancel("closed by its consumer")
    work._settle()


def yielding_call_stream(session: Any, calls: Any, context: Any) -> Any:
    """A batch as an asynchronous generator with a task group inside."""
    return _Entered(_yield_outcomes(session, calls, context))


async def _yield_outcomes(
    session: Any, calls: Any, context: Any
) -> AsyncGenerator[tuple[ToolCallRequest, ToolCallOutcome], None]:
    async def run(place: int) -> None:
        [outcome] = await session.run_calls([calls[place]], context)
        await send.send((calls[place], outcome))

    send, receive = anyio.create_memory_object_stream[Any](len(calls))
    async with send, receive, anyio.create_task_group() as group:
        for place in range(len(calls)):
            group.start_soon(run, place)
        for _ in calls:
            yield await receive.receive()


class _Entered:
    """The generator as an asynchronous context manager."""

    def __init__(self, generator: AsyncGenerator[Any, None]) -> None:
        self._generator = generator

    async def __aenter__(self) -> AsyncGenerator[Any, None]:
        return self._generator

    async def __aexit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if error is not None:
            await self._generator.athrow(error)
        await self._generator.aclose()
