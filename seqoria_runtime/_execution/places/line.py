"""A line of batches that wait for places, in the order of their numbers."""

from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .places import Ticket


class Line:
    """Batches in the order of their numbers, nested ones apart, since only these may borrow a place.

    `for_slots` says what is waited for here: a slot, or a place under a cap. A batch that has left the
    line, or waits for the other kind now, is not taken out but passed over when its number comes up.
    """

    __slots__ = ("_for_slots", "_nested", "_roots")

    def __init__(self, *, for_slots: bool = False) -> None:
        self._for_slots = for_slots
        self._roots: list[tuple[int, Ticket]] = []
        self._nested: list[tuple[int, Ticket]] = []

    def push(self, ticket: "Ticket") -> None:
        """Put a batch where its number belongs."""
        assert ticket.number is not None
        heappush(self._roots if ticket.caller is None else self._nested, (ticket.number, ticket))

    def first(self) -> "Ticket | None":
        """The batch with the lowest number, or `None`; it stays in the line."""
        root, nested = self.first_root(), self.first_nested()
        if root is None or nested is None:
            return root or nested
        return root if self._roots[0] < self._nested[0] else nested

    def first_root(self) -> "Ticket | None":
        """The first batch that the application itself started."""
        return self._head(self._roots)

    def first_nested(self) -> "Ticket | None":
        """The first batch that a call of the client started."""
        return self._head(self._nested)

    def drop_first_nested(self) -> None:
        """Take out the first nested batch."""
        heappop(self._nested)

    def has_others(self, ticket: "Ticket") -> bool:
        """Whether anybody but this batch may be waiting here. Can err on the side of yes."""
        entries = len(self._roots) + len(self._nested)
        if not entries:
            return False
        return entries > 1 or (self._roots or self._nested)[0][1] is not ticket

    def _head(self, heap: "list[tuple[int, Ticket]]") -> "Ticket | None":
        while heap:
            number, ticket = heap[0]
            if ticket.number == number and ticket.for_slot == self._for_slots:
                return ticket
            heappop(heap)
        return None
