"""What applications test their tools and turns with: virtual time and scripted models.

Importing it needs neither trio nor hypothesis; what needs them loads them when it is used.
"""

from ._clock.deadlock import VirtualTimeDeadlock
from ._explore.everywhere import Coverage, cancel_everywhere, fail_everywhere, replay_interruption
from ._explore.explore import Exploration, ScheduleFailure, TokenMismatch, explore, replay
from ._explore.interruption import InjectedError, Interruption, SwallowedCancellationError
from ._leaks import LeakError, Surroundings, check_no_leaks, leaks, surroundings
from ._model.script import Reply, ScriptedCall, broken_call, call, calls, cuts_off, emits, fails, says, stalls
from ._model.scripted_provider import ScriptedProvider, ScriptError, StreamRecord
from ._schedules.backends import ScheduleUnavailable, require_schedules
from ._schedules.schedule import FixedSchedule, PctSchedule, RandomSchedule, Schedule
from ._trace.histories import Exchange, Response, check_history
from ._trace.invariant import InvariantError
from ._trace.recorded import RecordedToolbox, record_batch, record_turn
from ._trace.trace import Moment, Trace, TracedBatch, TracedCall
from ._virtual_time import (
    Backend,
    fail_on_deadlock,
    run_on_both,
    run_virtual,
    virtual_backend,
    wait_for_abandoned_threads,
)
from .invariants import check_trace

__all__ = [
    "Backend",
    "Coverage",
    "Exchange",
    "Exploration",
    "FixedSchedule",
    "InjectedError",
    "Interruption",
    "InvariantError",
    "LeakError",
    "Moment",
    "PctSchedule",
    "RandomSchedule",
    "RecordedToolbox",
    "Reply",
    "Response",
    "Schedule",
    "ScheduleFailure",
    "ScheduleUnavailable",
    "ScriptError",
    "ScriptedCall",
    "ScriptedProvider",
    "StreamRecord",
    "Surroundings",
    "SwallowedCancellationError",
    "TokenMismatch",
    "Trace",
    "TracedBatch",
    "TracedCall",
    "VirtualTimeDeadlock",
    "broken_call",
    "call",
    "calls",
    "cancel_everywhere",
    "check_history",
    "check_no_leaks",
    "check_trace",
    "cuts_off",
    "emits",
    "explore",
    "fail_everywhere",
    "fail_on_deadlock",
    "fails",
    "leaks",
    "record_batch",
    "record_turn",
    "replay",
    "replay_interruption",
    "require_schedules",
    "run_on_both",
    "run_virtual",
    "says",
    "stalls",
    "surroundings",
    "virtual_backend",
    "wait_for_abandoned_threads",
]
