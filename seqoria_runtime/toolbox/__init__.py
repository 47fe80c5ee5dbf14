"""Functions of the application as tools."""

from seqoria_runtime._base.tools import ConcurrencyCap, HiddenParameter, Tool, ToolFailure

from ._hidden.marker import HIDDEN
from ._toolbox import LocalToolbox, TextContent, ToolInfo, ToolOptions

__all__ = [
    "HIDDEN",
    "ConcurrencyCap",
    "HiddenParameter",
    "LocalToolbox",
    "TextContent",
    "Tool",
    "ToolFailure",
    "ToolInfo",
    "ToolOptions",
]
