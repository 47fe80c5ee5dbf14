"""The record of a test's calls, in the event loop's time, and the error for a broken rule.

`recorder` makes the records, and `seqoria_runtime.testing.invariants` checks them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from seqoria_runtime.models import ToolCallOutcome, ToolCallRequest, ToolCallResult


class InvariantError(AssertionError):
    """The runtime, or a tool, broke a rule; the text says which call broke which rule when."""


class Moment(NamedTuple):
    """When something happened: seconds of the loop's clock, and its place among all that happened."""

    time: float
    place: int


@dataclass(frozen=True, slots=True)
class TracedCall:
    """One call: what it was, and when it did what.

    `number` is its place in the trace and `batch` the number of its batch. `asked` is when its
    arguments were checked, `entered` when it had its slot (as far as its tool can see), `starts` and
    `ends` when its function started and really ended, `returned` the text that it returned, and
    `raised` what it raised. `settled` has its outcomes in order. `parent` is the number of the call
    that requested it, `saw` that of the call whose context variables its function saw. `cap` names the
    cap of its tool, if it has one, of `cap_limit` calls.
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
    cap: str | None = None
    cap_limit: int = 0

    @property
    def outcome(self) -> ToolCallOutcome | None:
        """The first outcome, if there is one."""
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
        """When other calls could see that it was over: its outcome was out, or its function had ended."""
        moments = [self.settled[0][0]] if self.settled else []
        moments += self.ends[:1] if self.kind not in {"timed_out", "cancelled"} else ()
        return min(moments, default=None)

    def __str__(self) -> str:
        name = self.tool if self.request is None else f"{self.request.id!r} ({self.tool})"
        return f"call {name}" if not self.batch else f"call {name} of batch {self.batch}"


@dataclass(frozen=True, slots=True)
class TracedBatch:
    """A batch: when it started and ended, and whether its caller waited for all of it (`complete`)."""

    number: int
    began: Moment
    ended: Moment | None
    complete: bool


@dataclass(frozen=True, slots=True)
class Trace:
    """All calls of a recorded toolbox so far, and the limits they ran under.

    `limit` is the number of slots at the end, and `limits` the times at which it was set to how many,
    if it changed. `str()` of it lists what happened, one line for each event.
    """

    calls: tuple[TracedCall, ...]
    batches: tuple[TracedBatch, ...]
    limit: int
    tool_timeout: float | None = None
    limits: tuple[tuple[float, int], ...] = ()

    def limits_at(self, time: float) -> tuple[int, ...]:
        """Return the number of slots at a time: two or more where it changes at that very time."""
        changes = self.limits or ((-math.inf, self.limit),)
        before = [limit for at, limit in changes if at < time]
        return (*before[-1:], *(limit for at, limit in changes if at == time)) or (changes[0][1],)

    def of(self, batch: int | None) -> tuple[TracedCall, ...]:
        """Return the calls of one batch."""
        return tuple(call for call in self.calls if call.batch == batch)

    def timeout_of(self, call: TracedCall) -> float | None:
        """Return the seconds that a call may take, by its tool or else by the client."""
        return call.timeout if call.timeout is not None else self.tool_timeout

    def prerequisites(self, call: TracedCall) -> dict[str, tuple[TracedCall, ...]]:
        """Return the calls that a call waits for, by the tools that it depends on, in its batch."""
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
