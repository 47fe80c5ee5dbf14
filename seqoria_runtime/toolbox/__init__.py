"""Functions of the application as tools."""

from ._hidden.marker import HIDDEN
from ._toolbox import LocalToolbox, TextContent, ToolInfo, ToolOptions

__all__ = ["HIDDEN", "LocalToolbox", "TextContent", "ToolInfo", "ToolOptions"]
