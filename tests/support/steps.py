"""Acts at the n-th scheduling step of a run, on either backend, in virtual time.

A step is what an event loop runs between two checks for what is ready: a handle on asyncio, a task's
step on trio. A test that acts at each step in turn has acted at every await.
"""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import anyio
import trio

from seqoria_runtime.testing import fail_on_deadlock, virtual_backend
from seqoria_runtime.testing._clock.virtual_loop import VirtualLoop

T = TypeVar("T")


class Steps:
    """Counts steps while `counting`; at the step `at` calls `action`, between two tasks, and has `fired`."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.count = 0
        self.counting = False
        self.fired = False
        self.action: Callable[[], object] = lambda: None

    def step(self) -> None:
        if not self.counting:
            return
        self.count += 1
        if self.count == self.at:
            self.fired = True
            self.action()


def run_stepped(
    main: Callable[[Steps], Awaitable[T]], backend: str, at: int, *, seed: int = 0
) -> tuple[T, Steps]:
    """Run `main(steps)` in a new event loop, in virtual time; trio orders its tasks by `seed`."""
    steps = Steps(at)
    if backend == "asyncio":
        options: dict[str, Any] = {"loop_factory": lambda: _SteppedLoop(steps)}
    else:
        _, options = virtual_backend("trio")
        options["instruments"].append(_StepInstrument(steps))
        trio._core._run._r.seed(seed)  # the order within a batch of ready tasks is random, but for this
    return anyio.run(fail_on_deadlock(main), steps, backend=backend, backend_options=options), steps


def every_step(
    main: Callable[[Steps], Awaitable[T]], backend: str, *, seed: int = 0
) -> Iterator[tuple[int, T]]:
    """Run `main` once for each of its steps, acting at that step; return all results."""
    at = 0
    while True:
        at += 1
        result, steps = run_stepped(main, backend, at, seed=seed)
        if not steps.fired:
            return
        yield at, result


class _SteppedLoop(VirtualLoop):
    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        super().__init__()

    def _call_soon(
        self, callback: Callable[..., object], args: Any, context: contextvars.Context | None
    ) -> asyncio.Handle:
        handle = _Step(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle


class _Step(asyncio.Handle):
    __slots__ = ()

    def _run(self) -> None:
        self._loop.steps.step()  # type: ignore[attr-defined]
        super()._run()


class _StepInstrument(trio.abc.Instrument):
    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._steps.step()
