"""Tools for an application's tests: virtual time, scripted models and tools, orders of tasks, leaks.

Importing it needs neither trio nor hypothesis; what needs them loads them when it is used.
"""

from ._clock.deadlock import VirtualTimeDeadlock
from ._clock.deadlock_watch import Backend, fail_on_deadlock
from ._explore.everywhere import Coverage, cancel_everywhere, fail_everywhere, replay_interruption
from ._explore.explore import Exploration, ScheduleFailure, TokenMismatch, explore, replay
from ._explore.interruption import InjectedError, Interruption, SwallowedCancellationError
from ._leaks import LeakError, Snapshot, check_no_leaks, no_leaks, snapshot
from ._model.script import (
    Reply,
    ScriptedCall,
    Unanswered,
    broken_call,
    call,
    calls,
    cuts_off,
    emits,
    fails,
    says,
    stalls,
)
from ._model.scripted_provider import ScriptedProvider, ScriptError, StreamRecord
from ._schedules.backends import ScheduleUnavailable, require_schedules
from ._schedules.schedule import Chooser, FixedSchedule, PrioritySchedule, RandomSchedule, Schedule, TaskStep
from ._trace.histories import CallPair, HistoryResponse, HistoryTurn, check_history
from ._trace.recorded import RecordedToolbox, record_batch, record_turn
from ._trace.trace import InvariantError, Moment, Trace, TracedBatch, TracedCall
from ._virtual_time import run_on_both, run_virtual, virtual_backend, wait_for_abandoned_threads
from .invariants import check_trace

__all__ = [
    "Backend",
    "CallPair",
    "Chooser",
    "Coverage",
    "Exploration",
    "FixedSchedule",
    "HistoryResponse",
    "HistoryTurn",
    "InjectedError",
    "Interruption",
    "InvariantError",
    "LeakError",
    "Moment",
    "PrioritySchedule",
    "RandomSchedule",
    "RecordedToolbox",
    "Reply",
    "Schedule",
    "ScheduleFailure",
    "ScheduleUnavailable",
    "ScriptError",
    "ScriptedCall",
    "ScriptedProvider",
    "Snapshot",
    "StreamRecord",
    "SwallowedCancellationError",
    "TaskStep",
    "TokenMismatch",
    "Trace",
    "TracedBatch",
    "TracedCall",
    "Unanswered",
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
    "no_leaks",
    "record_batch",
    "record_turn",
    "replay",
    "replay_interruption",
    "require_schedules",
    "run_on_both",
    "run_virtual",
    "says",
    "snapshot",
    "stalls",
    "virtual_backend",
    "wait_for_abandoned_threads",
]
