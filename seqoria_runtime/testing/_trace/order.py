"""The rules of order in one batch: which call waits for which, and which is skipped or refused."""

from collections.abc import Iterable, Mapping

from .trace import InvariantError, Trace, TracedCall

_PLANNED = {"skipped", "cyclic_dependency"}


def check_order(trace: Trace) -> None:
    """A call starts only when all requested calls of the tools that it depends on are over."""
    for call in trace.calls:
        if not call.starts:
            continue
        for name, mates in trace.prerequisites(call).items():
            for mate in mates:
                _check_was_over(call, name, mate)


def _check_was_over(call: TracedCall, name: str, mate: TracedCall) -> None:
    start = call.starts[0]
    over = mate.over
    if over is None or over.time > start.time:
        when = "is not over yet" if over is None else f"was over only at {over.time:g} s"
        raise InvariantError(
            f"{call} started at {start.time:g} s, but depends on {name!r}, and {mate} {when}"
        )
    # Within one moment only the functions show the order: outcomes are seen a little later.
    if mate.ends and mate.kind in {"result", "failed"} and mate.ends[0] > start:
        raise InvariantError(
            f"{call} started at {start.time:g} s before {mate}, which it depends on, had ended at that time"
        )


def check_skips(trace: Trace) -> None:
    """A call is skipped exactly if all calls of a tool that it depends on failed.

    Calls on or behind a cycle, and only those, are refused as such.
    """
    for batch in trace.batches:
        if not batch.complete:
            continue
        calls = trace.of(batch.number)
        waits = {call.number: trace.prerequisites(call) for call in calls}
        cyclic = cyclic_calls(calls, waits)
        for call in calls:
            if call.asked is not None and call.kind != "invalid_arguments":
                _check_verdict(call, waits[call.number], call.number in cyclic)


def _check_verdict(
    call: TracedCall, waits: Mapping[str, tuple[TracedCall, ...]], on_or_behind_cycle: bool
) -> None:
    if on_or_behind_cycle is not (call.kind == "cyclic_dependency"):
        place = "on or behind a cycle" if on_or_behind_cycle else "neither on nor behind a cycle"
        raise InvariantError(f"{call} is {place}, but was answered with {call.kind}")
    if on_or_behind_cycle:
        return
    failed = sorted(name for name, mates in waits.items() if all(mate.kind != "result" for mate in mates))
    if failed and call.kind != "skipped":
        raise InvariantError(
            f"{call} was not skipped, though every call of {failed[0]!r} failed: {call.kind}"
        )
    if call.kind == "skipped" and not failed:
        raise InvariantError(f"{call} was skipped, though no name that it depends on has failed")


def cyclic_calls(
    calls: Iterable[TracedCall], waits: Mapping[int, Mapping[str, tuple[TracedCall, ...]]]
) -> frozenset[int]:
    """Return the numbers of the calls that can never start: they wait for themselves, or for such a call."""
    left = {call.number: call for call in calls}
    while True:
        free = [
            number
            for number in left
            if not any(mate.number in left for mates in waits[number].values() for mate in mates)
        ]
        if not free:
            return frozenset(left)
        for number in free:
            del left[number]
