"""The rules of slots and caps: how many calls run at once, which one is next, how long a batch takes."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .trace import InvariantError, Moment, Trace, TracedBatch, TracedCall

_ROUNDING = 1e-9


class _Change(NamedTuple):
    at: Moment
    starts: bool
    call: TracedCall


class _HeldPlaces(NamedTuple):
    slots: int
    under_caps: Counter[str | None]


def check_limit(trace: Trace) -> None:
    """At most as many calls hold a slot as there are slots. An abandoned thread holds its slot to its end.

    A call that waits for a nested call has lent it its slot. A limit that falls stops no call that runs.
    """
    for at, held, call in _usage(trace):
        limit = max(trace.limits_at(at.time))
        if held > limit and at == call.entered:
            raise InvariantError(
                f"{call} started at {at.time:g} s as number {held} of the calls that hold one of "
                f"{limit} slots"
            )


def check_caps(trace: Trace) -> None:
    """Never do more calls of a capped tool run than its cap allows, but for those that wait for their own."""
    for at, live, call in _live(trace):
        if call.cap is None or at != call.entered:
            continue
        working = [
            one.number for one in live if one.cap == call.cap and not _waits_for_its_own(trace, one, at)
        ]
        if len(working) > call.cap_limit:
            raise InvariantError(
                f"{call} started at {at.time:g} s as number {len(working)} of the calls under the cap "
                f"{call.cap} of {call.cap_limit}"
            )


def _waits_for_its_own(trace: Trace, call: TracedCall, at: Moment) -> bool:
    nested = (one for one in trace.calls if one.parent == call.number and one.asked is not None)
    return any(
        one.asked is not None and one.asked <= at and (one.over is None or one.over >= at) for one in nested
    )


def _usage(trace: Trace) -> Iterator[tuple[Moment, int, TracedCall]]:
    """Yield how many slots are held after each start and end, in order of time."""
    for at, live, call in _live(trace):
        yield at, _held(live), call


def _live(trace: Trace) -> Iterator[tuple[Moment, list[TracedCall], TracedCall]]:
    """Yield the calls that hold a slot after each start and end of one, in order of time."""
    live: dict[int, TracedCall] = {}
    for at, starts, call in sorted(_changes(trace.calls), key=lambda change: change.at):
        if starts:
            live[call.number] = call
        else:
            live.pop(call.number, None)
        yield at, list(live.values()), call


def _changes(calls: Iterable[TracedCall]) -> Iterator[_Change]:
    for call in calls:
        if call.entered is None or not (call.starts or call.settled):
            continue
        ends = call.ends[-1:]
        if not call.starts and call.settled:
            # It returned its slot at the same moment, some time before its answer was seen.
            ends = (Moment(call.settled[0][0].time, 0),)
        if not ends or ends[0] > call.entered:
            yield _Change(call.entered, True, call)
            yield from (_Change(end, False, call) for end in ends)


def _held(live: Iterable[TracedCall]) -> int:
    calls = list(live)
    lenders = {call.parent for call in calls if call.parent is not None} & {call.number for call in calls}
    return len(calls) - len(lenders)


def check_prompt_start(trace: Trace) -> None:
    """A call that waits for nothing but a slot does so only while all slots, or its cap, are held.

    So a call starts as soon as what it depends on is over, and no slot is ever lost.
    """
    held_from = _held_over_time(trace)
    for batch in trace.batches:
        for call in trace.of(batch.number):
            ready = _ready_at(trace, batch, call)
            if ready is not None and call.entered is not None:
                _check_prompt(trace, call, ready, held_from)


def _check_prompt(
    trace: Trace, call: TracedCall, ready: float, held_from: Sequence[tuple[float, _HeldPlaces]]
) -> None:
    assert call.entered is not None
    for time, (held, under_caps) in held_from:
        limit = min(trace.limits_at(time))
        full = call.cap is not None and under_caps[call.cap] >= call.cap_limit
        if ready <= time < call.entered.time and held < limit and not full:
            raise InvariantError(
                f"{call} could have started at {time:g} s, when {held} of {limit} slots were held, "
                f"but started at {call.entered.time:g} s"
            )


def _held_over_time(trace: Trace) -> list[tuple[float, _HeldPlaces]]:
    """Return pairs of a time and the places held from then on, for each time at which that changes."""
    last: dict[float, _HeldPlaces] = {}
    for at, live, _ in _live(trace):
        last[at.time] = _HeldPlaces(_held(live), Counter(call.cap for call in live))
    return list(last.items())


def _ready_at(trace: Trace, batch: TracedBatch, call: TracedCall) -> float | None:
    """Return when a call waits for nothing but a slot, if that is known."""
    times = [batch.began.time if call.asked is None else call.asked.time]
    for mates in trace.prerequisites(call).values():
        for mate in mates:
            if mate.over is None:
                return None
            times.append(mate.over.time)
    return max(times)


def check_makespan(trace: Trace) -> None:
    """A batch that has all slots to itself is as fast as its calls allow.

    It takes at least as long as its longest chain of calls, and at most Graham's bound: that chain,
    plus the rest of the work divided by the slots. Caps may make it longer than that.
    """
    slots = min((limit for _, limit in trace.limits), default=trace.limit)
    for batch in trace.batches:
        calls = [call for call in trace.of(batch.number) if call.entered is not None]
        if not calls or not batch.complete or not _alone(trace, calls):
            continue
        start = min(call.entered.time for call in calls if call.entered is not None)
        took = max((call.settled[0][0].time for call in calls if call.settled), default=start) - start
        chain, work = longest_chain(trace, calls), sum(map(_occupied, calls))
        bound = chain + (work - chain) / slots
        if any(call.cap is not None for call in calls):
            bound = math.inf
        if took < chain * (1 - _ROUNDING):
            raise InvariantError(f"the batch took {took:g} s, less than its longest chain of {chain:g} s")
        if took > bound * (1 + _ROUNDING) + _ROUNDING:
            raise InvariantError(
                f"the batch took {took:g} s, more than Graham's bound of {bound:g} s: {work:g} s of work, "
                f"{slots} slots, a longest chain of {chain:g} s"
            )


def _alone(trace: Trace, calls: Sequence[TracedCall]) -> bool:
    others = {call.number for call in trace.calls if call.entered is not None} - {
        call.number for call in calls
    }
    # The share of a thread that has not ended yet is unknown.
    return not others and all(call.parent is None and (call.ends or not call.starts) for call in calls)


def _duration(call: TracedCall) -> float:
    """Return the seconds for which a call keeps the calls that depend on it waiting."""
    if call.entered is None or call.over is None:
        return 0.0
    return call.over.time - call.entered.time


def _occupied(call: TracedCall) -> float:
    """Return the seconds for which a call, or its abandoned thread, holds its slot."""
    if call.entered is None:
        return 0.0
    ends = [*call.ends, *(moment for moment, _ in call.settled)]
    return max((moment.time for moment in ends), default=call.entered.time) - call.entered.time


def longest_chain(trace: Trace, calls: Sequence[TracedCall]) -> float:
    """Return the seconds that the calls of a batch take if none ever waits for a slot."""
    ends: dict[int, float] = {}
    for call in sorted(calls, key=lambda call: (call.entered, call.number)):
        mates = [mate for mates in trace.prerequisites(call).values() for mate in mates]
        before = max((ends.get(mate.number, 0.0) for mate in mates), default=0.0)
        ends[call.number] = before + _duration(call)
    return max(ends.values(), default=0.0)


def check_fairness(trace: Trace) -> None:
    """A batch that waits for its first slot is overtaken at most once by each other batch.

    This covers only batches that hold no slot, and no nested ones: those have the slot of the call that
    started them. A batch whose calls all wait for caps may be overtaken.
    """
    for batch in trace.batches:
        calls = [call for call in trace.of(batch.number) if call.asked is not None and call.parent is None]
        waiting = [
            call for call in calls if call.entered is not None and not call.depends_on and call.cap is None
        ]
        if waiting:
            first = min(waiting, key=lambda call: call.entered or _NEVER)
            _check_overtaken(trace, max(call.asked for call in calls if call.asked), first)


def _check_overtaken(trace: Trace, asked: Moment, first: TracedCall) -> None:
    assert first.entered is not None
    overtakers: Counter[int | None] = Counter()
    for call in sorted(trace.calls, key=lambda call: call.entered or _NEVER):
        if call.entered is None or call.batch == first.batch or call.parent is not None:
            continue
        # A thread's start is noted a little late, so events of the same moment have no order here.
        if asked.time < call.entered.time < first.entered.time:
            overtakers[call.batch] += 1
            if overtakers[call.batch] > 1:
                raise InvariantError(
                    f"{first} waited for its batch's first slot from {asked.time:g} s to "
                    f"{first.entered.time:g} s, and {call} of batch {call.batch} overtook it at "
                    f"{call.entered.time:g} s as the second one of that batch"
                )


_NEVER = Moment(float("inf"), 0)
