"""What applications test their tools and turns with: virtual time and scripted models.

Importing it needs neither trio nor hypothesis; what needs them loads them when it is used.
"""

from ._deadlock import VirtualTimeDeadlock
from ._script import (
    Reply,
    ScriptedCall,
    broken_call,
    call,
    calls,
    cuts_off,
    emits,
    fails,
    says,
    stalls,
)
from ._scripted_provider import ScriptedProvider, ScriptError, StreamRecord
from ._virtual_time import (
    Backend,
    fail_on_deadlock,
    run_on_both,
    run_virtual,
    virtual_backend,
    wait_for_abandoned_threads,
)

__all__ = [
    "Backend",
    "Reply",
    "ScriptError",
    "ScriptedCall",
    "ScriptedProvider",
    "StreamRecord",
    "VirtualTimeDeadlock",
    "broken_call",
    "call",
    "calls",
    "cuts_off",
    "emits",
    "fail_on_deadlock",
    "fails",
    "run_on_both",
    "run_virtual",
    "says",
    "stalls",
    "virtual_backend",
    "wait_for_abandoned_threads",
]
