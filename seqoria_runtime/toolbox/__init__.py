"""Functions of the application as tools."""

from ._box import LocalToolbox, TextContent, ToolInfo, ToolOptions
from ._marker import HIDDEN

__all__ = ["HIDDEN", "LocalToolbox", "TextContent", "ToolInfo", "ToolOptions"]
