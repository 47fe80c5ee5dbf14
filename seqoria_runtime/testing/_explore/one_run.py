"""Runs a scenario once under a schedule: its result or exception, and the log of the run."""

import gc
import random
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from seqoria_runtime.testing._clock.deadlock_watch import Backend, fail_on_deadlock
from seqoria_runtime.testing._schedules.backends import OnStep, ordered_backend, run_apart
from seqoria_runtime.testing._schedules.schedule import Schedule
from seqoria_runtime.testing._schedules.task_order import RunLog

Fingerprint: TypeAlias = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class OneRun:
    """How one run went, and its `value` or its `error`."""

    log: RunLog
    value: Any = None
    error: BaseException | None = None

    @property
    def fingerprint(self) -> Fingerprint | None:
        """What identifies a failure: its type and the line that raised it."""
        return None if self.error is None else _fingerprint(self.error)


def run_once(
    scenario: Callable[[], Awaitable[Any]],
    schedule: Schedule,
    backend: Backend,
    *,
    on_step: OnStep | None = None,
) -> OneRun:
    """Run `scenario()` in a new event loop, in virtual time and in the schedule's order.

    Nothing else decides how it goes: `random` starts from the same seed, and the cyclic garbage
    collector is off. Raises only what is not a failure of the scenario: an interruption of the
    program, and what pytest and Hypothesis use to skip or stop a test.
    """
    __tracebackhide__ = True
    name, options, order = ordered_backend(backend, schedule, on_step)
    main = fail_on_deadlock(scenario)
    # Reports name tasks by the functions that they run.
    main.__module__, main.__qualname__ = "", "the scenario"
    with _same_circumstances():
        try:
            value = run_apart(main, name, options)
        except _no_failures():
            raise
        except BaseException as error:  # noqa: BLE001 - whatever the scenario raises is what the search is for
            _start_traceback_in(main, error)
            return OneRun(order.log, error=error)
    return OneRun(order.log, value=value)


@contextmanager
def _same_circumstances() -> Generator[None]:
    state, collecting = random.getstate(), gc.isenabled()
    random.seed(0)
    gc.disable()
    try:
        yield
    finally:
        random.setstate(state)
        if collecting:
            gc.enable()


_NO_FAILURES = {
    "pytest": ("skip.Exception", "xfail.Exception", "exit.Exception"),
    "hypothesis.errors": ("UnsatisfiedAssumption", "StopTest"),
}


def _no_failures() -> tuple[type[BaseException], ...]:
    kinds: list[type[BaseException]] = [KeyboardInterrupt, SystemExit]
    for module, names in _NO_FAILURES.items():
        for name in names if module in sys.modules else ():
            kind: Any = sys.modules[module]
            for part in name.split("."):
                kind = getattr(kind, part, None)
            if isinstance(kind, type) and issubclass(kind, BaseException):
                kinds.append(kind)
    return tuple(kinds)


def _start_traceback_in(main: Any, error: BaseException) -> None:
    """Leave the start of the event loop out of the traceback: it is the same each time."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code is not main.__code__:
        traceback = traceback.tb_next
    if traceback is not None and traceback.tb_next is not None:
        error.__traceback__ = traceback.tb_next


def _fingerprint(error: BaseException) -> Fingerprint:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    traceback, place = error.__traceback__, ("", 0)
    while traceback is not None:
        place = traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
        traceback = traceback.tb_next
    return type(error).__qualname__, *place
