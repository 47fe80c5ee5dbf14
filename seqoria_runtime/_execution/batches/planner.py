"""Orders the calls of one batch, as a pure state machine: which may start, and which is skipped.

Knows names, positions and groups only: nothing of tools, tasks or time.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from seqoria_runtime._execution.places.pool import Group


class GraphNode(NamedTuple):
    """A call as the planner sees it.

    `names` are those by which other calls may depend on it (its alias and the tool's own name),
    `depends_on` the names that it waits for. Calls of one `group` need the same places.
    """

    names: tuple[str, ...]
    depends_on: frozenset[str] = frozenset()
    group: Group = ()


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
        self.unordered = 0  # calls of it that have no position yet, while the order is computed
        self.height = 0
        """The longest chain of calls that wait for it."""


_BLOCKED, _READY, _TAKEN, _SETTLED = range(4)


class Planner:
    """The dependency graph of one batch; calls are known by their position.

    A call is ready once all requested calls of every name that it depends on have settled and
    at least one call of each of these names has succeeded. A name that was not requested is not
    waited for. Calls on or behind a cycle are never ready: `cyclic` lists them, settled from the start.
    `ready` counts the calls that can be taken. Of these the one with the longest chain of dependents behind
    it goes first, ties in the order of position.
    """

    def __init__(self, calls: Sequence[GraphNode]) -> None:
        self._state = bytearray(len(calls))
        self._group_of = [call.group for call in calls]
        self._heaps: dict[Group, list[tuple[int, int]]] = {group: [] for group in self._group_of}
        self._queue: deque[int] | None = None  # in place of the heap where no call depends on another
        self._feeds: dict[int, list[_Prerequisite]] = {}
        self._waits: dict[int, list[_Prerequisite]] = {}
        self._blockers: dict[int, int] = {}
        self._height: list[int] = []
        self.ready = 0
        self.cyclic: frozenset[int] = frozenset()
        if any(call.depends_on for call in calls):
            self._link(calls)
        if self._waits:
            self._rank(len(calls))
        elif len(self._heaps) == 1:
            self._state = bytearray((_READY,)) * len(calls)
            self._queue = deque(range(len(calls)))
            self.ready = len(calls)
            return
        else:
            self._height = [0] * len(calls)
        for call in range(len(calls)):
            if call not in self._waits:
                self._release(call)

    @property
    def only_group(self) -> Group | None:
        """The group of all calls, if they form a single one."""
        return self._group_of[0] if len(self._heaps) == 1 else None

    def ready_groups(self) -> list[Group]:
        """Return the groups that have a ready call."""
        if self._queue is not None:
            return list(self._heaps) if self.ready else []
        for heap in self._heaps.values():
            while heap and self._state[heap[0][1]] != _READY:
                heappop(heap)
        return [group for group, heap in self._heaps.items() if heap]

    def first_group(self, full: Sequence[Group]) -> Group | None:
        """Return the group of the ready call that goes first, without the groups in `full`."""
        if not self.ready:
            return None
        if len(self._heaps) == 1:
            return None if full else self._group_of[0]
        groups = [group for group in self.ready_groups() if group not in full]
        return min(groups, key=lambda group: self._heaps[group][0], default=None)

    def take_from(self, group: Group) -> int:
        """Take the ready call of this group that goes first; return its position. There must be one."""
        while True:
            call = self._queue.popleft() if self._queue is not None else heappop(self._heaps[group])[1]
            if self._state[call] == _READY:
                self._state[call] = _TAKEN
                self.ready -= 1
                return call

    def take(self) -> int | None:
        """Take the ready call that goes first of all; return `None` if none is ready."""
        group = self.first_group(())
        return None if group is None else self.take_from(group)

    def put_back(self, call: int) -> None:
        """Make a call ready again that was taken and has not started."""
        if self._queue is not None:
            self._state[call] = _READY
            self.ready += 1
            self._queue.appendleft(call)
        else:
            self._release(call)

    def settle(self, call: int, *, ok: bool) -> Sequence[SkippedCall]:
        """Record how a call ended; return the calls that are skipped because of it, in order.

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
        """Record that these calls, none of them taken, will not run; return the others that are skipped then.

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

    def _link(self, calls: Sequence[GraphNode]) -> None:
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
        self._state[call] = _READY
        self.ready += 1
        heappush(self._heaps[self._group_of[call]], (-self._height[call], call))

    def _mark_settled(self, call: int) -> None:
        if self._state[call] == _READY:
            self.ready -= 1
        self._state[call] = _SETTLED


def _count_down(dependents: Iterable[int], blockers: dict[int, int]) -> list[int]:
    """Take one blocker off each call; return those that have none left."""
    free = []
    for call in dependents:
        left = blockers[call] = blockers[call] - 1
        if not left:
            free.append(call)
    return free
