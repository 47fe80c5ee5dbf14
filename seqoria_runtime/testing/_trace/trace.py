"""What is known of the calls of a test once they are over: frozen records, in the event loop's time.

Holds values only; `_recorder` makes them, `invariants` judges them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from seqoria_runtime.models import ToolCallOutcome, ToolCallRequest, ToolCallResult


class Moment(NamedTuple):
    """When something was seen: seconds of the loop's clock, and its place among all that was seen."""

    time: float
    place: int


@dataclass(frozen=True, slots=True)
class TracedCall:
    """One call: what it was, and when it did what.

    `number` is its place in the trace and `batch` the number of its batch. `asked` is when its
    arguments were checked, `entered` when it had its slot (so far as its tool could tell), `starts`
    and `ends` when its function began and really ended, `returned` the text that it gave, and
    `raised` what it raised.
    `settled` are its outcomes in the order in which they were told. `parent` is the number of the
    call in which it was asked for, `saw` that of the call whose context variables its function saw.
    """

    number: int
    batch: int | None
    tool: str
    blocking: bool = False
    depends_on: frozenset[str] = frozenset()
    timeout: float | None = None
    request: ToolCallRequest | None = None
    asked: Moment | None = None
    entered: Moment | None = None
    starts: tuple[Moment, ...] = ()
    ends: tuple[Moment, ...] = ()
    returned: str | None = None
    raised: BaseException | None = None
    settled: tuple[tuple[Moment, ToolCallOutcome], ...] = ()
    parent: int | None = None
    saw: int | None = None

    @property
    def outcome(self) -> ToolCallOutcome | None:
        """The first outcome that was told, if any was."""
        return self.settled[0][1] if self.settled else None

    @property
    def kind(self) -> str:
        """ "result", the kind of the error, or "unsettled"."""
        outcome = self.outcome
        if outcome is None:
            return "unsettled"
        return "result" if isinstance(outcome, ToolCallResult) else outcome.kind

    @property
    def names(self) -> frozenset[str]:
        """The names by which other calls may depend on this one."""
        return frozenset({self.tool} if self.request is None else {self.tool, self.request.name})

    @property
    def over(self) -> Moment | None:
        """When other calls could know that it was over: its outcome was told, or its function ended."""
        moments = [self.settled[0][0]] if self.settled else []
        moments += self.ends[:1] if self.kind not in {"timed_out", "cancelled"} else ()
        return min(moments, default=None)

    def __str__(self) -> str:
        name = self.tool if self.request is None else f"{self.request.id!r} ({self.tool})"
        return f"call {name}" if not self.batch else f"call {name} of batch {self.batch}"


@dataclass(frozen=True, slots=True)
class TracedBatch:
    """A batch: when it began and ended, and whether all of it was waited for (`complete`)."""

    number: int
    began: Moment
    ended: Moment | None
    complete: bool


@dataclass(frozen=True, slots=True)
class Trace:
    """All calls of a recorded toolbox so far, and the limits they ran under.

    `str()` of it tells the story, one line for each thing that happened.
    """

    calls: tuple[TracedCall, ...]
    batches: tuple[TracedBatch, ...]
    limit: int
    tool_timeout: float | None = None

    def of(self, batch: int | None) -> tuple[TracedCall, ...]:
        """The calls of one batch."""
        return tuple(call for call in self.calls if call.batch == batch)

    def timeout_of(self, call: TracedCall) -> float | None:
        """The seconds that a call may take: its tool's own, or those of the client."""
        return call.timeout if call.timeout is not None else self.tool_timeout

    def prerequisites(self, call: TracedCall) -> dict[str, tuple[TracedCall, ...]]:
        """The requested calls of each name that a call depends on, in its own batch."""
        mates = self.of(call.batch)
        named = {name: tuple(mate for mate in mates if name in mate.names) for name in call.depends_on}
        return {name: calls for name, calls in named.items() if calls}

    def __str__(self) -> str:
        lines = sorted(self._lines())
        return "\n".join(f"{moment.time:>10g} s  {text}" for moment, text in lines)

    def _lines(self) -> Iterator[tuple[Moment, str]]:
        for call in self.calls:
            if call.asked is not None:
                yield call.asked, f"{call} is asked for"
            yield from ((moment, f"{call} starts") for moment in call.starts)
            yield from ((moment, f"{call} ends") for moment in call.ends)
            for moment, outcome in call.settled:
                text = outcome.result if isinstance(outcome, ToolCallResult) else f"[{outcome.kind}]"
                yield moment, f"{call} is answered: {text}"
