"""The rules that every trace must keep, one function for each; each raises `InvariantError`.

Times are seconds of the event loop's clock.
"""

from collections.abc import Callable, Iterable, Sequence

from seqoria_runtime.models import ToolCallResult

from ._model.scripted_provider import ScriptedProvider
from ._trace.capacity import check_caps, check_fairness, check_limit, check_makespan, check_prompt_start
from ._trace.histories import check_history
from ._trace.order import check_order, check_skips
from ._trace.trace import InvariantError, Trace, TracedCall

__all__ = [
    "InvariantError",
    "check_caps",
    "check_completion_order",
    "check_ended",
    "check_fairness",
    "check_fallback",
    "check_history",
    "check_isolation",
    "check_limit",
    "check_makespan",
    "check_order",
    "check_outcomes",
    "check_prompt_start",
    "check_skips",
    "check_timeouts",
    "check_trace",
]

_NEVER_RUN = {"unknown_tool", "invalid_arguments", "skipped", "cyclic_dependency"}


def check_trace(trace: Trace) -> None:
    """Check a trace against every rule; the error ends with the trace as text."""
    for check in _CHECKS:
        try:
            check(trace)
        except InvariantError as error:
            raise InvariantError(f"{error}\n{trace}") from None


def check_outcomes(trace: Trace) -> None:
    """Each call of a complete batch has exactly one outcome, which is its own, and ran at most once."""
    complete = {batch.number for batch in trace.batches if batch.complete}
    for call in trace.calls:
        if not call.settled and call.batch in complete:
            raise InvariantError(f"{call} has no outcome, though its batch is over")
        if len(call.settled) > 1:
            moment = call.settled[1][0]
            raise InvariantError(f"{call} was answered a second time at {moment.time:g} s")
        if len(call.starts) > 1:
            raise InvariantError(f"{call} was run a second time at {call.starts[1].time:g} s")
        _check_own_outcome(call)


def _check_own_outcome(call: TracedCall) -> None:
    outcome = call.outcome
    if outcome is None:
        return
    if isinstance(outcome, ToolCallResult) and not call.starts and call.asked is not None:
        raise InvariantError(f"{call} was answered with a result, and never ran")
    if isinstance(outcome, ToolCallResult) and call.returned is not None and call.returned != outcome.result:
        raise InvariantError(
            f"{call} was answered with {outcome.result!r}, but its function returned {call.returned!r}"
        )
    if call.starts and call.kind in _NEVER_RUN:
        raise InvariantError(f"{call} ran at {call.starts[0].time:g} s, but was answered as {call.kind}")
    if call.request is not None and outcome.tool_call_id != call.request.id:
        raise InvariantError(f"{call} was answered under the id {outcome.tool_call_id!r}")


def check_ended(trace: Trace) -> None:
    """No asynchronous function of a batch runs on when the batch is over. Threads may."""
    over = {batch.number: batch.ended for batch in trace.batches}
    for call in trace.calls:
        ended = None if call.batch is None else over[call.batch]
        if ended is None or call.blocking or not call.starts:
            continue
        if not call.ends or call.ends[0] > ended:
            raise InvariantError(f"{call} still ran when its batch was over, at {ended.time:g} s")


def check_completion_order(trace: Trace) -> None:
    """Outcomes come in the order in which the calls were over."""
    settled = sorted(
        (call for call in trace.calls if call.settled and call.ends and call.kind in {"result", "failed"}),
        key=lambda call: call.settled[0][0],
    )
    latest: TracedCall | None = None
    for call in settled:
        if latest is not None and call.batch == latest.batch and call.ends[0].time < latest.ends[0].time:
            raise InvariantError(
                f"{call} was over at {call.ends[0].time:g} s, but was answered after {latest}, "
                f"which was over at {latest.ends[0].time:g} s"
            )
        if latest is None or latest.ends[0].time < call.ends[0].time or call.batch != latest.batch:
            latest = call


def check_timeouts(trace: Trace) -> None:
    """A call's time counts from its slot on; a call that overran it times out, and no other does."""
    for call in trace.calls:
        if call.asked is not None and call.settled:
            _check_timeout(call, trace.timeout_of(call))


def _check_timeout(call: TracedCall, timeout: float | None) -> None:
    moment = call.settled[0][0]
    if call.entered is None:
        if call.kind == "timed_out":
            raise InvariantError(f"{call} timed out at {moment.time:g} s, and had never had a slot")
        return
    if timeout is None:
        if call.kind == "timed_out":
            raise InvariantError(f"{call} timed out at {moment.time:g} s, and has no timeout")
        return
    if call.kind == "timed_out" and moment.time < call.entered.time + timeout:
        raise InvariantError(
            f"{call} timed out at {moment.time:g} s: it had its slot at {call.entered.time:g} s, "
            f"and {timeout:g} s"
        )
    ended = call.ends[0].time if call.ends else moment.time
    if call.kind in {"result", "failed"} and ended >= call.entered.time + timeout:
        raise InvariantError(
            f"{call} had its slot at {call.entered.time:g} s and ended at {ended:g} s, past its "
            f"{timeout:g} s, but was answered with a {call.kind}"
        )


def check_isolation(trace: Trace) -> None:
    """No function sees the context variables that another call has set, unless that call requested it."""
    for call in trace.calls:
        if call.starts and call.saw != call.parent:
            other = "the code outside" if call.saw is None else str(trace.calls[call.saw])
            raise InvariantError(f"{call} saw the context variables of {other} at {call.starts[0].time:g} s")


def check_fallback(providers: Iterable[ScriptedProvider]) -> None:
    """A request that failed after its first output does not go to another model, or to the same one again."""
    streams = [(stream, provider.name) for provider in providers for stream in provider.streams]
    for failed, first in streams:
        if failed.end != "failed" or not failed.events or failed.closed_at is None:
            continue
        for other, second in streams:
            again = other is not failed and other.request.messages == failed.request.messages
            if again and other.opened_at >= failed.closed_at:
                raise InvariantError(
                    f"{second!r} was asked at {other.opened_at:g} s what {first!r} had been asked, which had "
                    f"given {failed.events} events before it failed at {failed.closed_at:g} s"
                )


_CHECKS: Sequence[Callable[[Trace], None]] = (
    check_outcomes,
    check_ended,
    check_limit,
    check_caps,
    check_order,
    check_skips,
    check_timeouts,
    check_completion_order,
    check_isolation,
    check_fairness,
    check_prompt_start,
    check_makespan,
)
