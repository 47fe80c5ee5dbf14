"""The subcommand `check`: property tests of an application's own toolbox."""

from ._command import CHECK

__all__ = ["CHECK"]
