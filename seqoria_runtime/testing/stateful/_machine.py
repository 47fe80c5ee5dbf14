"""Owns the base of state machines with asynchronous rules, and the decorators that make them.

All rules and invariants of one example run in one task of one event loop, which stands still in
between: time passes only where a rule waits.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, Self, TypeVar

from hypothesis import stateful

from seqoria_runtime.testing._clock.deadlock_watch import Backend
from seqoria_runtime.testing._schedules.schedule import Schedule

from ._pump import Pump, start_pump

F = TypeVar("F", bound=Callable[..., Any])


class AsyncRuleBasedStateMachine(stateful.RuleBasedStateMachine):
    """Hypothesis's `RuleBasedStateMachine`, whose rules may be coroutine functions.

    Use this module's `rule`, `initialize` and `invariant` in place of Hypothesis's; `Bundle`,
    `precondition`, `consumes` and `multiple` are Hypothesis's own. `start` is awaited before the
    first of them, `stop` after the last, in the same task, so that `async with` may span an example.
    `Machine.on("trio").TestCase` is the test on trio.
    """

    backend: ClassVar[Backend] = "asyncio"
    schedule: ClassVar[Schedule | None] = None
    """In which order ready tasks go; the backend's own order where there is none."""

    def __init__(self) -> None:
        super().__init__()
        self._pump: Pump | None = None
        self.failed = False
        """Whether a rule or an invariant has raised, so that `stop` has only to clean up."""

    @classmethod
    def on(cls, backend: Backend, *, schedule: Schedule | None = None) -> type[Self]:
        """This machine on another backend, or with tasks in another order."""
        name = f"{cls.__name__}On{backend.capitalize()}"
        members = {"backend": backend, "schedule": schedule, "__module__": cls.__module__}
        machine: type[Self] = type(cls)(name, (cls,), members)  # type: ignore[misc]
        return machine

    async def start(self) -> None:
        """Awaited before the first rule."""

    async def stop(self) -> None:
        """Awaited after the last rule, also where one has failed, if `start` came to its end."""

    def run_in_loop(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call `function` in the example's main task, and await what it gives if that can be awaited."""

        async def job() -> Any:
            result = function(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result

        if self._pump is None:
            pump = start_pump(self.backend, self.schedule)
            try:
                pump.run(self.start)
            except BaseException:
                pump.close()
                raise
            self._pump = pump
        try:
            return self._pump.run(job)
        except BaseException:
            self.failed = True
            raise

    def teardown(self) -> None:
        pump, self._pump = self._pump, None
        if pump is None:
            return
        try:
            pump.run(self.stop)
        finally:
            pump.close()


def rule(**options: Any) -> Callable[[F], Callable[..., None]]:
    """Hypothesis's `rule`, for a function that runs in the machine's event loop, asynchronous or not."""

    def decorate(function: F) -> Callable[..., None]:
        return _made(stateful.rule(**options), function)

    return decorate


def initialize(**options: Any) -> Callable[[F], Callable[..., None]]:
    """Hypothesis's `initialize`, likewise."""

    def decorate(function: F) -> Callable[..., None]:
        return _made(stateful.initialize(**options), function)

    return decorate


def invariant(*, check_during_init: bool = False) -> Callable[[F], Callable[..., None]]:
    """Hypothesis's `invariant`, likewise."""

    def decorate(function: F) -> Callable[..., None]:
        return _made(stateful.invariant(check_during_init=check_during_init), function)

    return decorate


def _made(decorator: Any, function: Callable[..., Any]) -> Callable[..., None]:
    made: Callable[..., None] = decorator(_in_loop(function))
    return made


def _in_loop(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def run(machine: AsyncRuleBasedStateMachine, *args: Any, **kwargs: Any) -> Any:
        return machine.run_in_loop(function, machine, *args, **kwargs)

    return run
