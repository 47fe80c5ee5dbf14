"""Owns one batch's place at the caps of its tools: which ready calls have a permit, and which wait for one.

Synchronous: it holds calls back in the planner and lets them through. Knows nothing of slots or tasks.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from seqoria_runtime._execution.batches.planner import Planner

from .caps import Cap, Permit


class Demand(NamedTuple):
    """What a batch has and wants at one moment.

    `running` of its calls run, `starting` have a slot and are about to, `ready` wait for nothing but a
    slot (those that are about to run included); others are held back by the `gate`, if there is one.
    """

    running: int
    starting: int
    ready: int
    gate: "Gate | None"


class GateOptions(NamedTuple):
    """What a gate has to know of its batch.

    `caller` is the call that the batch was started by, if any, and `lenders` are the permits of that and
    of those around it, the nearest first. `starting` tells how many calls have a slot and are about to run.
    `on_ready` is called when a call that was held back has become ready, `on_stuck` when abandoned
    threads hold all permits of a cap that a call waits for.
    """

    caller: object
    lenders: Sequence[Permit]
    starting: Callable[[], int]
    on_ready: Callable[[], None]
    on_stuck: Callable[[], None]


class Gate:
    """The capped calls of one batch; the others pass. `caps` holds the caps of calls by position."""

    def __init__(self, planner: Planner, caps: Mapping[int, Cap], options: GateOptions) -> None:
        self._planner = planner
        self._caps = caps
        self._options = options
        self._held: dict[Cap, list[tuple[int, int]]] = {}
        self._permits: dict[int, Permit] = {}
        self._closed = False
        planner.hold_back(self._admit)

    @property
    def caller(self) -> object:
        return self._options.caller

    @property
    def waits_for(self) -> Iterable[Cap]:
        """The caps that calls are held back for."""
        return tuple(cap for cap, calls in self._held.items() if calls)

    def take(self, call: int) -> Permit | None:
        """The permit of a call that is about to start; `None` for one without a cap."""
        permit = self._permits.pop(call, None)
        if permit is not None:
            permit.cap.reserved.pop(permit, None)
        return permit

    def give_up(self, cap: Cap) -> list[int]:
        """Wait for this cap no longer; the calls that did, in order."""
        cap.stop_waiting(self)
        return [call for _, call in sorted(self._held.pop(cap, ()))]

    def close(self) -> None:
        """Hold every capped call back from now on, and give up every permit that none has begun to use."""
        self._closed = True
        for cap in self._held:
            cap.stop_waiting(self)
        self._held.clear()
        while self._permits:
            call, permit = self._permits.popitem()
            self._planner.hold(call)
            permit.cap.reserved.pop(permit, None)
            permit.cap.give_back(permit)

    def starting(self) -> int:
        return self._options.starting()

    def lenders(self, cap: Cap) -> Iterable[Permit]:
        return (permit for permit in self._options.lenders if permit.cap is cap)

    def granted(self, permit: Permit) -> bool:
        held = self._held.get(permit.cap)
        if not held:
            return False
        _, call = heappop(held)
        self._reserve(call, permit)
        self._planner.let_through(call)
        if held:
            permit.cap.wait(self)
        self._options.on_ready()
        return True

    def recalled(self, cap: Cap) -> Permit | None:
        call = self._last_with_permit(cap)
        if call is None or self.starting():
            return None
        permit = self._permits.pop(call)
        cap.reserved.pop(permit, None)
        self._planner.hold(call)
        self._hold_back(call, cap)
        cap.wait(self, first=True)
        return permit

    def cap_stuck(self) -> None:
        self._options.on_stuck()

    def _admit(self, call: int) -> bool:
        cap = self._caps.get(call)
        if cap is None:
            return True
        if self._closed:
            return False
        permit = cap.acquire_nowait(self)
        if permit is None:
            permit = self._permit_of_a_later_call(call, cap)
        if permit is None:
            self._hold_back(call, cap)
            cap.wait(self)
            return False
        self._reserve(call, permit)
        return True

    def _permit_of_a_later_call(self, call: int, cap: Cap) -> Permit | None:
        rival = self._last_with_permit(cap)
        if rival is None or self._planner.rank(rival) < self._planner.rank(call):
            return None
        permit = self._permits.pop(rival)
        self._planner.hold(rival)
        self._hold_back(rival, cap)
        cap.wait(self)
        return permit

    def _last_with_permit(self, cap: Cap) -> int | None:
        calls = (call for call, permit in self._permits.items() if permit.cap is cap)
        return max(calls, key=self._planner.rank, default=None)

    def _reserve(self, call: int, permit: Permit) -> None:
        self._permits[call] = permit
        permit.cap.reserved[permit] = self

    def _hold_back(self, call: int, cap: Cap) -> None:
        heappush(self._held.setdefault(cap, []), self._planner.rank(call))
