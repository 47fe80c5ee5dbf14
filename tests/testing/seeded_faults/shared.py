"""Slots and parts of streams with one fault each."""

import math
from collections.abc import AsyncGenerator, Callable
from typing import Any

import anyio
from seqoria_runtime._execution.places.slots import CallLease, Lane, Slot, Slots

from seqoria_runtime._execution.streams.hosted import HostedWork
from seqoria_runtime.models import ToolCallOutcome, ToolCallRequest


class OneMoreSlots(Slots):
    """Has one slot more than it reports."""

    def __init__(self, total: int, now: Callable[[], float]) -> None:
        super().__init__(total, now)
        self._free.append(Slot())


class ForgettingSlots(Slots):
    """Frees a slot at a timeout although the call's thread still runs."""

    def end(self, lease: CallLease, *, abandoned: bool = False) -> bool:
        return super().end(lease)

    def reclaim(self, slot: Slot) -> None:
        pass


class UnfairSlots(Slots):
    """Lets a batch keep its slots as long as it can use them."""

    def alone(self, lane: Lane) -> bool:
        return True


class LeakingSlots(Slots):
    """Loses the slots that are released in a cancelled task."""

    def release(self, slot: Slot) -> None:
        if anyio.current_effective_deadline() != -math.inf:
            super().release(slot)


def lends_nothing(lease: CallLease | None, slots: Any) -> None:
    """Lends no slot to a nested batch."""


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
