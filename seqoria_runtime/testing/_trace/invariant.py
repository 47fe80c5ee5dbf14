"""Owns the error that says which promise of the runtime a test saw broken."""


class InvariantError(AssertionError):
    """The runtime, or a tool, did what it must never do; the text says which call broke which rule when."""
