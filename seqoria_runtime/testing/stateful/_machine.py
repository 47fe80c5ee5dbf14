"""The base of state machines with asynchronous rules, and their decorators.

All rules and invariants of one example run in one task of one event loop, which stands still in
between: time passes only while a rule waits.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, Self, TypeVar

from hypothesis import stateful

from seqoria_runtime.testing._clock.deadlock_watch import Backend
from seqoria_runtime.testing._schedules.schedule import Schedule
from seqoria_runtime.testing._virtual_time import virtual_backend

from ._stepper import LoopStepper

F = TypeVar("F", bound=Callable[..., Any])


class AsyncRuleBasedStateMachine(stateful.RuleBasedStateMachine):
    """Hypothesis's `RuleBasedStateMachine` with rules that may be coroutine functions.

    Use the `rule`, `initialize` and `invariant` of this package instead of Hypothesis's; `Bundle`,
    `precondition`, `consumes` and `multiple` are Hypothesis's. `start` is awaited before the first rule
    and `stop` after the last, in the same task, so that `async with` may span an example.
    `Machine.on("trio").TestCase` is the test on trio.
    """

    backend: ClassVar[Backend] = "asyncio"
    schedule: ClassVar[Schedule | None] = None
    """The order in which ready tasks go; without one, the backend's own."""

    def __init__(self) -> None:
        super().__init__()
        self._stepper: LoopStepper | None = None
        self.failed: bool = False
        """Whether a rule or an invariant has raised, so that `stop` only has to clean up."""

    @classmethod
    def on(cls, backend: Backend, *, schedule: Schedule | None = None) -> type[Self]:
        """Return this machine on another backend, or with another order of tasks."""
        name = f"{cls.__name__}On{backend.capitalize()}"
        members = {"backend": backend, "schedule": schedule, "__module__": cls.__module__}
        machine: type[Self] = type(cls)(name, (cls,), members)  # type: ignore[misc]
        return machine

    async def start(self) -> None:
        """Prepare an example. Awaited before the first rule, never cancelled."""

    async def stop(self) -> None:
        """Clean up. Awaited after the last rule, even if a rule failed, and never cancelled."""

    def run_in_loop(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call `function` in the example's main task, and await its result if that is awaitable."""

        async def job() -> Any:
            result = function(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result

        if self._stepper is None:
            stepper = _start_stepper(self.backend, self.schedule)
            try:
                stepper.run(self.start)
            except BaseException:
                stepper.close()
                raise
            self._stepper = stepper
        try:
            return self._stepper.run(job)
        except BaseException:
            self.failed = True
            raise

    def teardown(self) -> None:
        stepper, self._stepper = self._stepper, None
        if stepper is None:
            return
        try:
            stepper.run(self.stop)
        finally:
            stepper.close()


def rule(**options: Any) -> Callable[[F], Callable[..., None]]:
    """Like Hypothesis's `rule`, for a function, async or not, that runs in the machine's event loop."""

    def decorate(function: F) -> Callable[..., None]:
        return _in_loop(stateful.rule(**options), function)

    return decorate


def initialize(**options: Any) -> Callable[[F], Callable[..., None]]:
    """Like Hypothesis's `initialize`, as `rule` here."""

    def decorate(function: F) -> Callable[..., None]:
        return _in_loop(stateful.initialize(**options), function)

    return decorate


def invariant(*, check_during_init: bool = False) -> Callable[[F], Callable[..., None]]:
    """Like Hypothesis's `invariant`, as `rule` here."""

    def decorate(function: F) -> Callable[..., None]:
        return _in_loop(stateful.invariant(check_during_init=check_during_init), function)

    return decorate


def _in_loop(decorator: Any, function: Callable[..., Any]) -> Callable[..., None]:
    @wraps(function)
    def run(machine: AsyncRuleBasedStateMachine, *args: Any, **kwargs: Any) -> Any:
        return machine.run_in_loop(function, machine, *args, **kwargs)

    decorated: Callable[..., None] = decorator(run)
    return decorated


def _start_stepper(backend: Backend, schedule: Schedule | None) -> LoopStepper:
    """Start an event loop in virtual time, whose tasks go in the order of the schedule, if any."""
    _, options = virtual_backend(backend, schedule=schedule)
    if backend == "asyncio":
        from ._asyncio_stepper import AsyncioStepper

        return AsyncioStepper(options["loop_factory"])
    from ._trio_stepper import TrioStepper

    return TrioStepper(options)
