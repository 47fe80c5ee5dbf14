"""Pauses deadlines while a user logs in."""

import math
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

import anyio
from anyio import CancelScope

_timed: ContextVar[tuple[CancelScope, ...]] = ContextVar("timed", default=())


@contextmanager
def timed(scope: CancelScope) -> Generator[None]:
    """Move the scope's deadline by every wait for a user that starts in this context."""
    token = _timed.set((*_timed.get(), scope))
    try:
        yield
    finally:
        _timed.reset(token)


@contextmanager
def waiting_for_user() -> Generator[None]:
    """Pause the deadlines of this context's timed scopes."""
    scopes = _timed.get()
    left = [scope.deadline - anyio.current_time() for scope in scopes]
    for scope in scopes:
        scope.deadline = math.inf
    try:
        yield
    finally:
        for scope, seconds in zip(scopes, left, strict=True):
            scope.deadline = anyio.current_time() + seconds
