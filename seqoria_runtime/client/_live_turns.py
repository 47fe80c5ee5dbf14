"""Keeps one live turn for each history list, over all clients of the process."""

from collections.abc import Awaitable

from anyio.lowlevel import EventLoopToken, current_token

from seqoria_runtime._execution.streams.hosted import HostedWork, hosted_in, post_to_loop
from seqoria_runtime.models.errors import TurnInProgressError

from ._history.record import HistoryRecord
from ._turn import TurnEvent

_live: "dict[int, LiveTurn]" = {}
"""The live turn of each list, by the list's `id`; the turn's record holds the list."""


class LiveTurn:
    """One turn's claim on its history list, from its start until its record has settled."""

    def __init__(self, record: HistoryRecord) -> None:
        self.record = record
        self.work: HostedWork[TurnEvent] | None = None
        self.token: EventLoopToken | None = None

    def start(self, work: HostedWork[TurnEvent]) -> Awaitable[None] | None:
        """Claim the list for `work` and start the record; raise for a bad history, claiming nothing.

        If the list has a live turn, return an awaitable that does the same after that turn. It waits
        for a turn that is being closed, and raises `TurnInProgressError` for any other.
        """
        self.work = work
        self.token = current_token()
        if self._earlier() is not None:
            return self._start_after_earlier()
        self._claim()
        return None

    async def _start_after_earlier(self) -> None:
        while (earlier := self._earlier()) is not None:
            if earlier.token != self.token:
                raise TurnInProgressError(
                    "this history has a turn in progress in another event loop: give each conversation a "
                    "list of its own"
                )
            work = earlier.work
            assert work is not None
            if work.reason is None or work.would_wait_for(hosted_in.get()):
                raise TurnInProgressError(
                    "this history has a turn in progress: finish or close it before the next one, or give "
                    "each conversation a list of its own"
                )
            await work.settled()
        self._claim()

    def _earlier(self) -> "LiveTurn | None":
        """Return the live turn of this list, unless it has settled or its event loop is gone."""
        earlier = _live.get(id(self.record.history))
        if earlier is not None and earlier.token != self.token:
            # A loop that was closed in the middle of a turn settles nothing any more, and the advice to
            # close that turn could not be followed.
            assert earlier.token is not None
            post_to_loop(earlier.token, _do_nothing, otherwise=earlier.end)
        return None if earlier is None or earlier.record.settled else earlier

    def _claim(self) -> None:
        _live[id(self.record.history)] = self
        try:
            self.record.start()
        except BaseException:
            self._release()
            raise

    def end(self) -> None:
        """Settle the record and free the list; the turn has ended."""
        try:
            self.record.settle()
        finally:
            self._release()

    def _release(self) -> None:
        # The list may have a later turn by now: the last message settles the record, and the stream is
        # closed after that.
        if _live.get(id(self.record.history)) is self:
            del _live[id(self.record.history)]


def _do_nothing() -> None: ...
