"""The command `seqoria-runtime`; what needs `rich` is loaded when a subcommand runs."""

from ._main import main

__all__ = ["main"]
