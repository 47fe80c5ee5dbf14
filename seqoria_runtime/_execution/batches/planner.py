"""Owns the order of one batch: which call may start, and which is skipped, as a pure state machine.

Knows names and positions only: nothing of tools, slots, tasks or time.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple


class PlannedCall(NamedTuple):
    """A call as the planner sees it.

    `names` are those by which other calls may depend on it (its alias and the tool's own name),
    `depends_on` the names that it waits for.
    """

    names: tuple[str, ...]
    depends_on: frozenset[str] = frozenset()


class SkippedCall(NamedTuple):
    """A call that will not run, since every call of each of `failed` (sorted names) failed."""

    call: int
    failed: tuple[str, ...]


class _Prerequisite:
    """All requested calls of one name, as something to wait for."""

    __slots__ = ("dependents", "height", "name", "succeeded", "unordered", "unsettled")

    def __init__(self, name: str) -> None:
        self.name = name
        self.unsettled = 0
        self.succeeded = False
        self.dependents: list[int] = []
        self.unordered = 0  # of its calls, while the order is looked for
        self.height = 0
        """The longest chain of calls that wait for it."""


_BLOCKED, _READY, _TAKEN, _SETTLED = range(4)


class Planner:
    """The dependency graph of one batch; calls are known by their position.

    A call is ready once all requested calls of every name that it depends on have settled and
    at least one call of each of these names has succeeded. A name that was not requested is not
    waited for. Calls on or behind a cycle are never ready: `cyclic` lists them, settled from the start.
    `ready` counts the calls that `take` would give; a gate may hold some of them back.
    """

    def __init__(self, calls: Sequence[PlannedCall]) -> None:
        self._state = bytearray(len(calls))
        self._order: deque[int] | None = None
        self._heap: list[tuple[int, int]] = []
        self._feeds: dict[int, list[_Prerequisite]] = {}
        self._waits: dict[int, list[_Prerequisite]] = {}
        self._blockers: dict[int, int] = {}
        self._height: list[int] = []
        self._admit: Callable[[int], bool] | None = None
        self.ready = 0
        self.cyclic: frozenset[int] = frozenset()
        if any(call.depends_on for call in calls):
            self._link(calls)
        if not self._waits:
            self._state = bytearray((_READY,)) * len(calls)
            self._order = deque(range(len(calls)))
            self.ready = len(calls)
            return
        self._rank(len(calls))
        for call in range(len(calls)):
            if call not in self._waits:
                self._release(call)

    def take(self) -> int | None:
        """Give the ready call that goes first, or `None` where none is ready.

        That is the one with the longest chain of dependents behind it, ties in order of position.
        """
        while self.ready:
            call = self._order.popleft() if self._order is not None else heappop(self._heap)[1]
            if self._state[call] == _READY:
                self._state[call] = _TAKEN
                self.ready -= 1
                return call
        return None

    def hold_back(self, admit: Callable[[int], bool]) -> None:
        """From now on, let a call that becomes ready, or is so already, pass only if `admit` says so.

        It is asked in the order in which `take` would give the calls.
        """
        calls = []
        while (call := self.take()) is not None:
            calls.append(call)
        self._admit = admit
        if self._order is not None:
            self._order = None
            self._height = [0] * len(self._state)
        for call in calls:
            self._release(call)

    def hold(self, call: int) -> None:
        """Take back a call that is ready; it waits for `let_through`."""
        self._state[call] = _BLOCKED
        self.ready -= 1

    def let_through(self, call: int) -> None:
        """Make a call ready that was held back."""
        self._state[call] = _READY
        self.ready += 1
        heappush(self._heap, (-self._height[call], call))

    def rank(self, call: int) -> tuple[int, int]:
        """Where a call stands in the order, while calls are held back; the smaller one goes first."""
        return -self._height[call], call

    def settle(self, call: int, *, ok: bool) -> Sequence[SkippedCall]:
        """Record how a call ended; give the calls that are skipped because of it, in order.

        A skipped call is settled, as failed, by this. Raises `ValueError` for a call that has
        settled before.
        """
        state = self._state[call]
        if state == _SETTLED:
            raise ValueError(f"call {call} has settled before")
        if state == _READY:
            self.ready -= 1
        self._state[call] = _SETTLED
        return self._skipped_by([(call, ok)]) if call in self._feeds else ()

    def refuse(self, calls: Iterable[int]) -> Sequence[SkippedCall]:
        """Record that these calls, none of them taken, will not run; give the others that are skipped then.

        Those of them that are on or behind a cycle have settled before, and stay as they are.
        """
        refused = [call for call in calls if self._state[call] != _SETTLED]
        for call in refused:
            self._mark_settled(call)
        return self._skipped_by([(call, False) for call in refused])

    def _skipped_by(self, ended: Iterable[tuple[int, bool]]) -> list[SkippedCall]:
        skipped: list[SkippedCall] = []
        pending = deque(ended)
        while pending:
            call, succeeded = pending.popleft()
            for dependent in self._unblocked_by(call, succeeded):
                failed = [group.name for group in self._waits[dependent] if not group.succeeded]
                if failed:
                    self._mark_settled(dependent)
                    skipped.append(SkippedCall(dependent, tuple(sorted(failed))))
                    pending.append((dependent, False))
                else:
                    self._release(dependent)
        return skipped

    def _unblocked_by(self, call: int, succeeded: bool) -> Iterable[int]:
        unblocked: list[int] = []
        for group in self._feeds.get(call, ()):
            group.unsettled -= 1
            if succeeded:
                group.succeeded = True
            if not group.unsettled:
                free = _count_down(group.dependents, self._blockers)
                unblocked += [dependent for dependent in free if self._state[dependent] != _SETTLED]
        if len(unblocked) > 1:
            unblocked.sort()
        return unblocked

    def _link(self, calls: Sequence[PlannedCall]) -> None:
        names = frozenset[str]().union(*[call.depends_on for call in calls])
        groups = {name: _Prerequisite(name) for name in names}
        for position, call in enumerate(calls):
            if names.isdisjoint(call.names):
                continue
            feeds = self._feeds[position] = [groups[name] for name in {*call.names} & names]
            for group in feeds:
                group.unsettled += 1
        for position, call in enumerate(calls):
            if not call.depends_on:
                continue
            waits = [group for name in call.depends_on if (group := groups[name]).unsettled]
            if waits:
                self._waits[position] = waits
                self._blockers[position] = len(waits)
                for group in waits:
                    group.dependents.append(position)

    def _rank(self, count: int) -> None:
        """Find the calls on or behind a cycle, and the longest chain of dependents behind each other one."""
        order = self._topological_order(count)
        self.cyclic = frozenset(range(count)).difference(order)
        for call in self.cyclic:
            self._state[call] = _SETTLED
        self._height = [0] * count
        for call in reversed(order):
            height = 0
            for group in self._feeds.get(call, ()):
                height = max(height, group.height)
            self._height[call] = height = height + 1
            for group in self._waits.get(call, ()):
                group.height = max(group.height, height)

    def _topological_order(self, count: int) -> list[int]:
        blockers = dict(self._blockers)
        for groups in self._feeds.values():
            for group in groups:
                group.unordered = group.unsettled
        order = [call for call in range(count) if call not in blockers]
        following = deque(order)
        while following:
            for group in self._feeds.get(following.popleft(), ()):
                group.unordered -= 1
                if not group.unordered:
                    free = _count_down(group.dependents, blockers)
                    order += free
                    following += free
        return order

    def _release(self, call: int) -> None:
        if self._admit is not None:
            if self._admit(call):
                self.let_through(call)
            return
        self._state[call] = _READY
        self.ready += 1
        if self._order is not None:
            self._order.append(call)
        else:
            heappush(self._heap, (-self._height[call], call))

    def _mark_settled(self, call: int) -> None:
        if self._state[call] == _READY:
            self.ready -= 1
        self._state[call] = _SETTLED


def _count_down(dependents: Iterable[int], blockers: dict[int, int]) -> list[int]:
    """Take one blocker off each call; give those that have none left."""
    free = []
    for call in dependents:
        left = blockers[call] = blockers[call] - 1
        if not left:
            free.append(call)
    return free
