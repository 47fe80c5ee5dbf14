"""Measure the primitives of a runtime, in microseconds of CPU, on the running event loop.

Each runs in a tight loop; the cost of the loop is subtracted.
"""

import copy
import importlib
import time
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any, TypeAlias

import anyio
from anyio.lowlevel import checkpoint

from .loop import Loop

Price: TypeAlias = Callable[[int], Awaitable[Any]]


async def nothing() -> None:
    return None


async def empty_loop(times: int) -> None:
    for _ in range(times):
        pass


async def anyio_tasks(times: int) -> None:
    async with anyio.create_task_group() as group:
        for _ in range(times):
            group.start_soon(nothing)


async def native_tasks(times: int, loop: Loop) -> None:
    await loop.together([nothing] * times)


async def task_groups(times: int) -> None:
    for _ in range(times):
        async with anyio.create_task_group():
            pass


async def timeouts(times: int) -> None:
    for _ in range(times):
        with anyio.move_on_after(30):
            pass


async def deadlines(times: int) -> None:
    with anyio.CancelScope() as scope:
        now = anyio.current_time()
        for n in range(times):
            scope.deadline = now + 30 + n * 1e-6


async def limiter(times: int) -> None:
    slots = anyio.CapacityLimiter(16)
    for _ in range(times):
        async with slots:
            pass


async def semaphore(times: int) -> None:
    slots = anyio.Semaphore(16, fast_acquire=True)
    for _ in range(times):
        async with slots:
            pass


async def checkpoints(times: int) -> None:
    for _ in range(times):
        await checkpoint()


async def events(times: int) -> None:
    for _ in range(times):
        event = anyio.Event()
        event.set()


async def stream_items(times: int) -> None:
    send, receive = anyio.create_memory_object_stream[int](1)
    with send, receive:
        for n in range(times):
            send.send_nowait(n)
            receive.receive_nowait()


async def contexts(times: int) -> None:
    for _ in range(times):
        copy_context().run(int)


async def deep_copies(times: int) -> None:
    for n in range(times):
        copy.deepcopy({"a": n, "b": 2})


def validations(fields: dict[str, type]) -> Price:
    pydantic: Any = importlib.import_module("pydantic")
    validate = pydantic.create_model("Fields", **{name: (kind, ...) for name, kind in fields.items()})

    async def price(times: int) -> None:
        check = validate.__pydantic_validator__.validate_python
        values = {name: "text" if kind is str else 1 for name, kind in fields.items()}
        for _ in range(times):
            check(values)

    return price


def prices(loop: Loop) -> dict[str, Price]:
    return {
        "start_soon with the task's life": anyio_tasks,
        "task of the event loop itself": lambda times: native_tasks(times, loop),
        "empty task group": task_groups,
        "move_on_after": timeouts,
        "setting the deadline of a live scope": deadlines,
        "CapacityLimiter, free": limiter,
        "Semaphore with fast_acquire, free": semaphore,
        "checkpoint": checkpoints,
        "Event, made and set": events,
        "memory stream, send_nowait and receive_nowait": stream_items,
        "copy_context and one run in it": contexts,
        "pydantic validation of two ints": validations({"a": int, "b": int}),
        "pydantic model of five fields": validations(dict.fromkeys("abcde", str)),
        "deepcopy of the dict of two ints": deep_copies,
    }


async def cpu_of(price: Price, times: int) -> float:
    started = time.process_time()
    await price(times)
    return time.process_time() - started


async def price_list(loop: Loop, seconds: float, times: int) -> dict[str, float]:
    """Return the microseconds by primitive; each is repeated until it has taken `seconds`."""
    result: dict[str, float] = {}
    for name, price in {"": empty_loop, **prices(loop)}.items():
        await price(times)
        spent, runs = 0.0, 0
        while spent < seconds:
            spent += await cpu_of(price, times)
            runs += 1
        result[name] = spent / runs / times * 1e6
    base = result.pop("")
    return {name: max(value - base, 0.0) for name, value in result.items()}
