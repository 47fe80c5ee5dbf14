"""Owns asyncio's own cancellation of a task, for which anyio has no word."""

import asyncio
from typing import Any


class NativeCancellation:
    """`Task.cancel` for the task that makes this, and the telling of what came of it."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task: asyncio.Task[Any] = task
        self._before = task.cancelling()

    def strike(self) -> None:
        self._task.cancel()

    def was_swallowed(self, raised: BaseException | None) -> bool:
        """Take the request back; tell whether somebody kept the cancellation to themselves.

        It is called in the task, with what came out of the code under test: the next step after a
        request always begins with it.
        """
        while self._task.cancelling() > self._before:
            self._task.uncancel()
        return raised is None
