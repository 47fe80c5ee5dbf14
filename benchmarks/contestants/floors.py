"""Run a batch with nothing around it, in three forms.

`tasks` is a bare task group of the event loop: no validation, no cap and no timeout. `workers` are
at most 16 anyio workers that pull calls from a queue, validate them, open `move_on_after`, call and
append. `anyio` is a task per call with a `CapacityLimiter` and `move_on_after`. None keeps context
variables apart, contains a stray cancellation or shares its slots with another batch.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import anyio
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from benchmarks.worker.adapter import CAP, TIMEOUT, Adapter
from benchmarks.worker.dags import Dag
from benchmarks.worker.loop import Loop, Run
from benchmarks.worker.script import TEXT, Script
from benchmarks.worker.tools import TOOLS, step

DISTRIBUTIONS = ("httpx",)
Arguments: TypeAlias = dict[str, int]
Call: TypeAlias = tuple[Callable[..., Awaitable[int]], Arguments]
Batch: TypeAlias = Callable[[Sequence[Call]], Awaitable[list[int]]]


class Pair(TypedDict):
    a: int
    b: int


validate = TypeAdapter(Pair).validator.validate_python


def tasks(loop: Loop) -> Batch:
    async def run(calls: Sequence[Call]) -> list[int]:
        results: list[int] = []

        def task(call: Call) -> Callable[[], Awaitable[None]]:
            function, arguments = call

            async def work() -> None:
                results.append(await function(**arguments))

            return work

        await loop.together([task(call) for call in calls])
        return results

    return run


def workers(cap: int) -> Batch:
    async def run(calls: Sequence[Call]) -> list[int]:
        queue = deque(calls)
        results: list[int] = []

        async def worker() -> None:
            while queue:
                function, arguments = queue.popleft()
                valid = validate(arguments)
                with anyio.move_on_after(TIMEOUT):
                    results.append(await function(**valid))

        async with anyio.create_task_group() as group:
            for _ in range(min(cap, len(calls))):
                group.start_soon(worker)
        return results

    return run


def limited(slots: anyio.CapacityLimiter) -> Batch:
    async def run(calls: Sequence[Call]) -> list[int]:
        results: list[int] = []

        async def task(function: Callable[..., Awaitable[int]], arguments: Arguments) -> None:
            async with slots:
                valid = validate(arguments)
                with anyio.move_on_after(TIMEOUT):
                    results.append(await function(**valid))

        async with anyio.create_task_group() as group:
            for call in calls:
                group.start_soon(task, *call)
        return results

    return run


async def run_dag(functions: dict[str, Callable[..., Awaitable[int]]], dag: Dag) -> int:
    """Run a DAG with workers and a count of open dependencies for each node, in no order of urgency."""
    missing = {name: len(node.depends_on) for name, node in dag.nodes.items()}
    dependents: dict[str, list[str]] = {name: [] for name in dag.nodes}
    for name, node in dag.nodes.items():
        for other in node.depends_on:
            dependents[other].append(name)
    send, receive = anyio.create_memory_object_stream[str](len(dag.nodes))
    results: list[int] = []

    async def worker() -> None:
        async for name in receive:
            valid = validate({"a": 1, "b": 2})
            with anyio.move_on_after(TIMEOUT):
                results.append(await functions[name](**valid))
            if len(results) == len(dag.nodes):
                send.close()
            for dependent in dependents[name]:
                missing[dependent] -= 1
                if not missing[dependent]:
                    send.send_nowait(dependent)

    with send, receive:
        for name, count in missing.items():
            if not count:
                send.send_nowait(name)
        async with anyio.create_task_group() as group:
            for _ in range(min(CAP, len(dag.nodes))):
                group.start_soon(worker)
    return len(results)


class FloorAdapter(Adapter):
    """`variant` is one of tasks, workers and anyio."""

    cannot: Mapping[str, str] = {"dag": "has no order of calls"}

    def __init__(self, loop: Loop, variant: str) -> None:
        super().__init__(loop, variant)
        if variant == "tasks":
            self.cannot = {**self.cannot, "cap": "has no cap"}
        self._slots = anyio.CapacityLimiter(CAP)

    def _batch(self, cap: int) -> Batch:
        if self.variant == "tasks":
            return tasks(self.loop)
        if self.variant == "workers":
            return workers(cap)
        return limited(self._slots if cap == CAP else anyio.CapacityLimiter(cap))

    async def batch(self, tool: str, count: int, cap: int | None = CAP) -> Run:
        run_batch = self._batch(cap or count)
        calls: list[Call] = [(TOOLS[tool], {"a": n, "b": 2}) for n in range(count)]

        async def run() -> int:
            return len(await run_batch(calls))

        return run

    async def dag(self, dag: Dag) -> Run:
        if self.variant != "workers":
            raise self.refuse("dag")
        functions = {name: step(node.seconds) for name, node in dag.nodes.items()}

        async def run() -> int:
            return await run_dag(functions, dag)

        return run

    async def turn(self, script: Script) -> Run:
        run_batch = self._batch(CAP)

        async def run() -> int:
            history: list[dict[str, Any]] = [{"role": "user", "content": "Go on."}]
            results = 0
            while calls := await script.answer(results):
                requests = [(call, dict(call.arguments)) for call in calls]
                outcomes = await run_batch([(TOOLS[call.name], arguments) for call, arguments in requests])
                history += [
                    {"role": "tool_call", "id": call.id, "arguments": given} for call, given in requests
                ]
                history += [{"role": "tool_result", "result": str(outcome)} for outcome in outcomes]
                results += len(outcomes)
            history.append({"role": "assistant", "content": TEXT})
            return results + 1

        return run


ADAPTER = FloorAdapter
