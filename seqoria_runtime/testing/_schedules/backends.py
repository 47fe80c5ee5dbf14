"""Makes backends that follow a schedule, and checks that they do.

Both rely on private parts of their libraries, so each is tried once before it is trusted.
"""

import functools
import sys
import threading
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from typing import Any, TypeAlias, TypeVar

import anyio
from anyio.lowlevel import checkpoint, current_token

from seqoria_runtime.testing._clock.deadlock_watch import Backend, fail_on_deadlock, require_trio

from .schedule import FixedSchedule, RandomSchedule, Schedule
from .task_order import TaskOrder

T = TypeVar("T")
OnStep: TypeAlias = Callable[[float], bool]


class ScheduleUnavailable(RuntimeError):
    """The order of tasks cannot be chosen on this backend with the installed versions; says why."""


def scheduled_backend(backend: Backend, schedule: Schedule) -> tuple[str, dict[str, Any]]:
    """Return a backend in virtual time that follows a schedule, or raise `ScheduleUnavailable`."""
    require_schedules(backend)
    name, options, _ = ordered_backend(backend, schedule)
    return name, options


def ordered_backend(
    backend: Backend, schedule: Schedule, on_step: OnStep | None = None
) -> tuple[str, dict[str, Any], TaskOrder]:
    """Return the same, without the check, and its `TaskOrder`."""
    if backend == "asyncio":
        from . import scheduled_loop as adapter

        order = TaskOrder(schedule, label=adapter.label, on_step=on_step)
        return "asyncio", {"loop_factory": lambda: adapter.ScheduledLoop(order)}, order
    if backend == "trio":
        from seqoria_runtime.testing._clock.virtual_clock import VirtualClock

        from .scheduled_trio import ScheduleInstrument, label

        clock = VirtualClock()
        order = TaskOrder(schedule, label=label, on_step=on_step)
        instruments = [clock, ScheduleInstrument(order, clock)]
        return "trio", {"clock": clock.clock, "instruments": instruments}, order
    raise ValueError(f"'backend' must be 'asyncio' or 'trio', not {backend!r}")


def require_schedules(backend: Backend) -> None:
    """Raise `ScheduleUnavailable` unless the order of tasks can be chosen on this backend."""
    if backend not in {"asyncio", "trio"}:
        raise ValueError(f"'backend' must be 'asyncio' or 'trio', not {backend!r}")
    if backend == "trio":
        require_trio()
    if _in_a_task():
        raise RuntimeError("each scheduled run has its own event loop: call this outside of one")
    problem = schedules_problem(backend)
    if problem is not None:
        raise ScheduleUnavailable(f"schedules do not work on {backend} here: {problem}")


@functools.cache
def schedules_problem(backend: Backend) -> str | None:
    """Return why the order of tasks cannot be chosen on this backend, or `None` if it can. Tries it once."""
    if backend == "trio":
        from .scheduled_trio import missing_parts

        if (missing := missing_parts()) is not None:
            return missing
    try:
        default = _order_under(backend, FixedSchedule())
        orders = [_order_under(backend, RandomSchedule(seed)) for seed in range(_TRIALS)]
        again = [_order_under(backend, RandomSchedule(seed)) for seed in range(_TRIALS)]
    except Exception as exc:  # noqa: BLE001 - private parts of another library may fail in any way
        return f"a trial failed with {exc!r}"
    if default != "abcabc":
        return f"a trial went in the order {default!r} where nothing was changed"
    if orders != again:
        return "the same schedule gave different orders"
    firsts = {"".join(dict.fromkeys(order)) for order in orders}
    return None if len(firsts) == _ORDERS_OF_THREE else f"a trial gave only the orders {sorted(firsts)}"


_TRIALS = 60
_ORDERS_OF_THREE = 6


def _order_under(backend: Backend, schedule: Schedule) -> str:
    async def trial() -> str:
        order: list[str] = []

        async def task(name: str) -> None:
            order.append(name)
            await checkpoint()
            order.append(name)

        async with anyio.create_task_group() as group:
            for name in "abc":
                group.start_soon(task, name)
        return "".join(order)

    name, options, _ = ordered_backend(backend, schedule)
    return run_apart(fail_on_deadlock(trial), name, options)


def run_apart(main: Callable[[], Awaitable[T]], name: str, options: dict[str, Any]) -> T:
    """Call `anyio.run`, also inside another event loop that stands still, such as a test runner's."""
    run = partial(anyio.run, main, backend=name, backend_options=options)
    if not _inside_a_loop():
        return run()
    results: list[T] = []
    errors: list[BaseException] = []

    def run_in_thread() -> None:
        if (sniffio := sys.modules.get("sniffio")) is not None:
            sniffio.current_async_library_cvar.set(None)
        try:
            results.append(run())
        except BaseException as error:  # noqa: BLE001 - it is raised in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=copy_context().run, args=(run_in_thread,), name="a run apart")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _in_a_task() -> bool:
    try:
        anyio.get_current_task()
    except (anyio.NoEventLoopError, RuntimeError):
        return False
    return True


def _inside_a_loop() -> bool:
    try:
        current_token()
    except anyio.NoEventLoopError:
        return False
    except RuntimeError:  # asyncio's, while its loop stands still
        return True
    return True
