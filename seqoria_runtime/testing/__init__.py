"""What applications test their tools and turns with: virtual time and scripted models.

Importing it needs neither trio nor hypothesis; what needs them loads them when it is used.
"""

from ._deadlock import VirtualTimeDeadlock
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
    "VirtualTimeDeadlock",
    "fail_on_deadlock",
    "run_on_both",
    "run_virtual",
    "virtual_backend",
    "wait_for_abandoned_threads",
]
