"""The subcommand `bench`: measurements of an application's own tools."""

from ._command import BENCH

__all__ = ["BENCH"]
