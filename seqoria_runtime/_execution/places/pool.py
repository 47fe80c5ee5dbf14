"""A pool of places: the slots of a client, or the limit of one tool or server."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from .line import Line

if TYPE_CHECKING:
    from .places import Grant


class Place:
    """The right of one call to run under the limit of a pool.

    It is the pool's own, or borrowed from the place of a parked call, which then has lent it.
    """

    __slots__ = ("borrowed_from", "grant", "lent_to", "pool")

    grant: "Grant"

    def __init__(self, pool: "Pool", borrowed_from: "Place | None" = None) -> None:
        self.pool = pool
        self.borrowed_from = borrowed_from
        self.lent_to: Place | None = None

    @property
    def root(self) -> "Place":
        """The pool's own place at the beginning of a chain of loans."""
        place = self
        while place.borrowed_from is not None:
            place = place.borrowed_from
        return place

    def is_at_work_for_others(self) -> bool:
        """Whether a call that has not ended works in this place, on loan.

        Its own nested calls have all ended when a call asks this; their abandoned threads do not count.
        """
        loan = self.lent_to
        while loan is not None and loan.grant.over:
            loan = loan.lent_to
        return loan is not None


class Pool:
    """At most `limit` places. Loans do not count, since a lender does not work.

    `now` is the clock, in seconds, that `stuck_since` is measured on.
    """

    __slots__ = (
        "_abandoned",
        "_now",
        "in_use",
        "lendable",
        "limit",
        "line",
        "resuming",
        "stuck_since",
        "woken_nested",
        "woken_roots",
    )

    def __init__(self, limit: int, now: Callable[[], float]) -> None:
        self._now = now
        self._abandoned: dict[Place, str] = {}
        self.limit = limit
        self.in_use = 0
        """How many places are out, loans apart. May exceed a limit that was lowered, for a while."""
        self.lendable: dict[Place, None] = {}
        """Places of parked calls that are not lent out."""
        self.line = Line()
        """Batches whose next call lacks nothing but a place of this pool."""
        self.woken_roots = self.woken_nested = 0
        """How many of these wait for a slot now, since there is a place for them here."""
        self.resuming: dict[Place, None] = {}
        """Lent places of calls that could go on, had they their place back."""
        self.stuck_since: float | None = None
        """Since when abandoned threads hold every place, with none back since; `None` if they do not."""

    @property
    def free(self) -> int:
        """How many places nobody holds."""
        return max(0, self.limit - self.in_use)

    @property
    def abandoned(self) -> Iterable[str]:
        """The tools whose abandoned threads hold places, one entry a thread."""
        return tuple(self._abandoned.values())

    def take(self, source: "Place | Pool") -> Place:
        """Borrow this lendable place, or take a free one of the pool itself."""
        if not isinstance(source, Place):
            self.in_use += 1
            return Place(self)
        place = source.lent_to = Place(self, source)
        del self.lendable[source]
        return place

    def abandon(self, place: Place, tool: str) -> bool:
        """Leave a place with the thread of a call that is over; return whether that made the pool stuck."""
        self._abandoned[place] = tool
        return self.check_stuck()

    def thread_ended(self, place: Place) -> bool:
        """The thread that held this place has ended; return whether the pool is stuck anew."""
        del self._abandoned[place]
        if place.root not in self._blocked():
            self.stuck_since = None
        return self.check_stuck()

    def check_stuck(self) -> bool:
        """Find out whether abandoned threads hold every place; return whether that has just come about."""
        if len(self._abandoned) < self.limit or len(self._blocked()) < self.limit:
            self.stuck_since = None
            return False
        if self.stuck_since is not None:
            return False
        self.stuck_since = self._now()
        return True

    def _blocked(self) -> set[Place]:
        return {place.root for place in self._abandoned}
