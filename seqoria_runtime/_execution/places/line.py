"""A line of batches that wait for places, in the order of their numbers."""

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .places import Ticket

_FEW = 64


class Line:
    """Batches in the order of their numbers, nested ones apart, since only these may borrow a place.

    `for_slots` says what is waited for here: a slot, or a place under a cap. A batch that has left the
    line, or waits for the other kind now, is not taken out but passed over when its number comes up.
    """

    __slots__ = ("_for_slots", "_nested", "_roots", "_sweep_at")

    def __init__(self, *, for_slots: bool = False) -> None:
        self._for_slots = for_slots
        self._roots: list[tuple[int, Ticket]] = []
        self._nested: list[tuple[int, Ticket]] = []
        self._sweep_at = _FEW

    def push(self, ticket: "Ticket") -> None:
        """Put a batch where its number belongs."""
        assert ticket.number is not None
        if len(self._roots) + len(self._nested) >= self._sweep_at:
            self._sweep()
        heappush(self._roots if ticket.caller is None else self._nested, (ticket.number, ticket))

    def pop(self) -> "Ticket | None":
        """Take out the batch with the lowest number; `None` if nobody waits."""
        root, nested = self._head(self._roots), self._head(self._nested)
        if root is None and nested is None:
            return None
        first = nested is None or (root is not None and self._roots[0] < self._nested[0])
        return heappop(self._roots if first else self._nested)[1]

    def pop_root(self) -> "Ticket | None":
        """Take out the first batch that the application itself started."""
        return None if self._head(self._roots) is None else heappop(self._roots)[1]

    def pop_nested(self) -> "Ticket | None":
        """Take out the first batch that a call of the client started."""
        return None if self._head(self._nested) is None else heappop(self._nested)[1]

    def first_nested(self) -> "Ticket | None":
        """The first batch that a call of the client started; it stays in the line."""
        return self._head(self._nested)

    def has_others(self, ticket: "Ticket") -> bool:
        """Whether anybody but this batch may be waiting here. Can err on the side of yes."""
        roots, nested = self._roots, self._nested
        if len(roots) + len(nested) > 1:
            self.forget_the_gone()
            if len(roots) + len(nested) > 1:
                return True
        return bool((roots and roots[0][1] is not ticket) or (nested and nested[0][1] is not ticket))

    def forget_the_gone(self) -> None:
        """Take out those at the head of the line that have left it."""
        self._head(self._roots)
        self._head(self._nested)

    def _sweep(self) -> None:
        """Take out all that have left: behind a head that waits for long, they would pile up."""
        for heap in (self._roots, self._nested):
            heap[:] = [entry for entry in heap if self._waits(*entry)]
            heapify(heap)
        self._sweep_at = _FEW + 2 * (len(self._roots) + len(self._nested))

    def _waits(self, number: int, ticket: "Ticket") -> bool:
        return ticket.number == number and ticket.for_slot == self._for_slots

    def _head(self, heap: "list[tuple[int, Ticket]]") -> "Ticket | None":
        while heap:
            if self._waits(*heap[0]):
                return heap[0][1]
            heappop(heap)
        return None
