"""Decides how a call ended, from the evidence of its end. Pure.

Whatever a tool does becomes an outcome here; a real cancellation is passed on besides.
"""

from typing import NamedTuple

from seqoria_runtime._base.tools import ToolFailure
from seqoria_runtime._execution.batches import outcomes
from seqoria_runtime.models import ToolCallOutcome, ToolCallRequest


class Ended(NamedTuple):
    """How a call ended.

    `suspended`: other tasks could run meanwhile. `thread_runs`: its thread has not ended.
    """

    outcome: ToolCallOutcome
    suspended: bool
    thread_runs: bool
    interruption: BaseException | None = None
    """The real cancellation that ended it; its worker has to raise it."""
    crash: BaseException | None = None
    """A `KeyboardInterrupt` or `SystemExit` out of it."""
    cut_short: bool = False
    """Whether it ended only because a scope around it was cancelled; it has then not overrun."""
    cancelled_own_task: bool = False
    """Whether a native cancel that it requested itself may still be pending in the worker's task."""


class Evidence(NamedTuple):
    """Everything that `judge` needs to know of a call that ended in an unusual way."""

    failure: BaseException | None
    """What it raised, or what its thread did."""
    text: str
    """Its rendered result, if it did not fail."""
    timeout: float | None
    """Its timeout in seconds, if that had passed by the clock."""
    began: bool
    """Whether the tool itself had started, and not only the search for its trusted values."""
    scope_cancelled: bool
    delivered: BaseException | None
    """What the event loop threw into it last."""
    natively_cancelled: bool
    """Whether other code cancelled the task that it ran in, with asyncio's `Task.cancel`."""
    cancelled_own_task: bool
    cancelled_class: type[BaseException]

    @property
    def interruption(self) -> BaseException | None:
        """The real cancellation, if there was one.

        The scopes, the loop and the task decide, never the type of an exception alone: a tool can raise
        anything.
        """
        if self.scope_cancelled:
            return self.failure if isinstance(self.failure, self.cancelled_class) else None
        if isinstance(self.delivered, GeneratorExit):
            return self.delivered
        if isinstance(self.delivered, self.cancelled_class) and self.natively_cancelled:
            # A new exception: the one that was delivered may belong to a scope inside the call, which has
            # been cancelled since, and would end there.
            return self.cancelled_class()
        return None


def judge(request: ToolCallRequest, seen: Evidence, *, suspended: bool, thread_runs: bool) -> Ended:
    """Return how a call ended that failed, overran, was cancelled, or cancelled its own task."""
    interruption = seen.interruption
    cut_off = interruption is not None and isinstance(seen.failure, seen.cancelled_class)
    return Ended(
        _outcome(request, seen, cut_off=cut_off),
        suspended,
        thread_runs,
        interruption,
        _crash(seen.failure),
        cut_off and seen.scope_cancelled and seen.timeout is None,
        seen.cancelled_own_task,
    )


def _outcome(request: ToolCallRequest, seen: Evidence, *, cut_off: bool) -> ToolCallOutcome:
    failure = seen.failure
    if seen.timeout is not None:
        return outcomes.timed_out(request, seen.timeout, began=seen.began)
    if failure is None:
        return outcomes.result(request, seen.text)
    if isinstance(failure, ToolFailure):
        return outcomes.error(request, failure.kind, str(failure))
    if cut_off:
        text = outcomes.cancelled_while_running if seen.began else outcomes.cancelled_before_start
        return text(request)
    return outcomes.raised(request, failure) if seen.began else outcomes.unresolved(request, failure)


def _crash(failure: BaseException | None) -> BaseException | None:
    """Return the `KeyboardInterrupt` or `SystemExit` in what a call raised, if there is one."""
    if not isinstance(failure, BaseExceptionGroup):
        return failure if isinstance(failure, (KeyboardInterrupt, SystemExit)) else None
    leaves = outcomes.leaves(failure)
    return next((leaf for leaf in leaves if isinstance(leaf, (KeyboardInterrupt, SystemExit))), None)
