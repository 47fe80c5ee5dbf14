"""Scripted tools, alone, as graphs, and as faults of other tools; in virtual time, too."""

from ._tools.behaviours import (
    Behaviour,
    ToolStep,
    blocks_thread,
    fails,
    hangs,
    ignores_cancel,
    returns,
    sleeps,
)
from ._tools.dag import FaultPlan, ScriptedTool, ToolDag

__all__ = [
    "Behaviour",
    "FaultPlan",
    "ScriptedTool",
    "ToolDag",
    "ToolStep",
    "blocks_thread",
    "fails",
    "hangs",
    "ignores_cancel",
    "returns",
    "sleeps",
]
