"""The line of batches that wait for a place of one pool."""

from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .places import Ticket
    from .pool import Pool


class Line:
    """Batches that wait for a place of a pool, in the order of their numbers.

    Nested ones are kept apart, since only these may borrow a place. A batch that has lost its turn, or has
    another number now, is not taken out but passed over when its old number comes up.
    """

    __slots__ = ("_nested", "_pool", "_roots")

    def __init__(self, pool: "Pool") -> None:
        self._pool = pool
        self._roots: list[tuple[int, Ticket]] = []
        self._nested: list[tuple[int, Ticket]] = []

    def push(self, ticket: "Ticket") -> None:
        """Put a batch where its number belongs."""
        heappush(self._roots if ticket.caller is None else self._nested, (ticket.turns[self._pool], ticket))

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

    def _head(self, heap: "list[tuple[int, Ticket]]") -> "Ticket | None":
        while heap:
            number, ticket = heap[0]
            if ticket.turns.get(self._pool) == number:
                return ticket
            heappop(heap)
        return None
