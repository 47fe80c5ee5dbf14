"""The subcommand `demo`: one turn with a graph of tools, a scripted model and nothing to set up."""

from ._command import DEMO

__all__ = ["DEMO"]
