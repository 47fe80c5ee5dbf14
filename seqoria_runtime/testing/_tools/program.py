"""Owns how values print that functions make: as the program that makes them, for Hypothesis too."""

from typing import Any


class PrintsAsProgram:
    """A value whose `repr` can be pasted."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        # Hypothesis writes dataclasses by their fields unless they have this.
        printer.text(repr(self))
