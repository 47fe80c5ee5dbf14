"""Handles Ctrl-C: the first one stops what runs, the second one leaves the program at once."""

import os
import signal
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TypeVarTuple, Unpack

import anyio
from anyio.abc import TaskStatus

from ._command import INTERRUPTED

Ts = TypeVarTuple("Ts")


class Interrupts:
    """Cancels the scope that is interruptible now. There is at most one at a time."""

    def __init__(self) -> None:
        self._scope: anyio.CancelScope | None = None
        self._on_stop: Callable[[], None] = _ignore

    async def watch(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Receive the signal until cancelled; ready when `task_status` has started."""
        if sys.platform == "win32":
            task_status.started()  # asyncio receives no signals there: Ctrl-C ends the program
            return
        with anyio.open_signal_receiver(signal.SIGINT) as signals:
            task_status.started()
            async for _ in signals:
                self._interrupt()

    @contextmanager
    def interruptible(self, on_stop: Callable[[], None] | None = None) -> Generator[anyio.CancelScope]:
        """While open, let Ctrl-C cancel this scope and call `on_stop`."""
        with anyio.CancelScope() as scope:
            self._scope, self._on_stop = scope, on_stop or _ignore
            try:
                yield scope
            finally:
                self._scope = None

    def _interrupt(self) -> None:
        if self._scope is None or self._scope.cancel_called:
            # A tool that ignores its cancellation could block every other way out.
            print(file=sys.stderr, flush=True)
            sys.stdout.flush()
            os._exit(INTERRUPTED)
        self._scope.cancel("Ctrl-C")
        self._on_stop()


async def run_interruptibly(async_fn: Callable[[Unpack[Ts]], Awaitable[int]], *args: *Ts) -> int:
    """Await `async_fn(*args)`; return its exit code, or that of an interruption if Ctrl-C cancels it.

    This is better than a `KeyboardInterrupt`, which may strike in the middle of the runtime's own code.
    A cancelled caller cancels `async_fn`, too.
    """
    interrupts = Interrupts()
    code = INTERRUPTED
    async with anyio.create_task_group() as group:
        await group.start(interrupts.watch)
        with interrupts.interruptible():
            code = await async_fn(*args)
        group.cancel_scope.cancel("the work is over")
    return code


def _ignore() -> None:
    pass
