"""The rule of fairness between batches that share the slots of one client."""

from collections import Counter

from .invariant import InvariantError
from .trace import Moment, Trace, TracedCall


def check_fairness(trace: Trace) -> None:
    """A batch that waits for its first slot is overtaken at most once by each other batch.

    Only batches that hold no slot of their own are looked at, and nested ones are not: they have
    the slot of the call that they were started in.
    """
    for batch in trace.batches:
        calls = [call for call in trace.of(batch.number) if call.asked is not None and call.parent is None]
        waiting = [call for call in calls if call.entered is not None and not call.depends_on]
        if waiting:
            first = min(waiting, key=lambda call: call.entered or _NEVER)
            _check_overtaken(trace, max(call.asked for call in calls if call.asked), first)


def _check_overtaken(trace: Trace, asked: Moment, first: TracedCall) -> None:
    assert first.entered is not None
    overtakers: Counter[int | None] = Counter()
    for call in sorted(trace.calls, key=lambda call: call.entered or _NEVER):
        if call.entered is None or call.batch == first.batch or call.parent is not None:
            continue
        # A thread's start is noted a little late, so what happens within one moment has no order here.
        if asked.time < call.entered.time < first.entered.time:
            overtakers[call.batch] += 1
            if overtakers[call.batch] > 1:
                raise InvariantError(
                    f"{first} waited for its batch's first slot from {asked.time:g} s to "
                    f"{first.entered.time:g} s, and {call} of batch {call.batch} overtook it at "
                    f"{call.entered.time:g} s as the second one of that batch"
                )


_NEVER = Moment(float("inf"), 0)
