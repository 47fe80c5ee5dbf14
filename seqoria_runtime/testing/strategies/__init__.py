"""Hypothesis strategies for tool graphs, batches of calls, faults, histories and models' scripts.

Needs hypothesis (extra `testing`). Failing examples print as Python that can be pasted.
"""

from . import _needs_hypothesis  # noqa: F401 - it raises before an import below fails
from ._arguments import json_values
from ._batches import INVALID, Invalid, batches, tool_arguments
from ._dags import behaviours, fault_plans, tool_dags, toolboxes
from ._histories import histories
from ._schedules import schedules
from ._scripts import provider_scripts

__all__ = [
    "INVALID",
    "Invalid",
    "batches",
    "behaviours",
    "fault_plans",
    "histories",
    "json_values",
    "provider_scripts",
    "schedules",
    "tool_arguments",
    "tool_dags",
    "toolboxes",
]
