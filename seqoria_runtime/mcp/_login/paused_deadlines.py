"""Owns the clocks that stand still while a person is waited for, as somebody who logs in is.

Knows nothing of what is timed, or of what the person does.
"""

import math
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

import anyio
from anyio import CancelScope

_timed: ContextVar[tuple[CancelScope, ...]] = ContextVar("timed", default=())


@contextmanager
def timed(scope: CancelScope) -> Generator[None]:
    """While open, the scope's deadline moves with every wait for a person that begins in this context."""
    token = _timed.set((*_timed.get(), scope))
    try:
        yield
    finally:
        _timed.reset(token)


@contextmanager
def waiting_for_a_person() -> Generator[None]:
    """While open, no deadline of this context's timed scopes comes nearer."""
    scopes = _timed.get()
    left = [scope.deadline - anyio.current_time() for scope in scopes]
    for scope in scopes:
        scope.deadline = math.inf
    try:
        yield
    finally:
        for scope, seconds in zip(scopes, left, strict=True):
            scope.deadline = anyio.current_time() + seconds
