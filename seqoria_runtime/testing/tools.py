"""Tools that do as they are told, in virtual time too: alone, as graphs, and as faults of others."""

from ._tools.behaviours import Behaviour, blocks_thread, fails, hangs, ignores_cancel, returns, sleeps
from ._tools.dag import FaultPlan, ScriptedTool, ToolDag

__all__ = [
    "Behaviour",
    "FaultPlan",
    "ScriptedTool",
    "ToolDag",
    "blocks_thread",
    "fails",
    "hangs",
    "ignores_cancel",
    "returns",
    "sleeps",
]
