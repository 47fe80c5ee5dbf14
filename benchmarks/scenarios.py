"""The scenarios that `before_after` measures, through the public API only.

    python -m benchmarks.scenarios NAME asyncio|trio [quick]

Prints one JSON object: the figures of the scenario by their names. Each is a cost, so less is better.
The package measured is the one that Python finds first, which may be an older tree.
"""

import gc
import json
import math
import statistics
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

import anyio
from anyio.lowlevel import checkpoint

from benchmarks.contestants.floors import Call, validate, workers
from benchmarks.worker.adapter import TIMEOUT
from seqoria_runtime import AsyncAIClient, LocalToolbox
from seqoria_runtime.models import ToolCallRequest
from seqoria_runtime.testing import ScriptedProvider

LIMIT = 16
Figures: TypeAlias = dict[str, float]
Scenario: TypeAlias = Callable[[bool], Awaitable[Figures]]


async def no_op(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def suspend(a: int, b: int) -> int:
    """Add two numbers after one checkpoint."""
    await checkpoint()
    return a + b


def requests(tool: str, count: int) -> list[ToolCallRequest]:
    return [ToolCallRequest(id=f"c{n}", name=tool, arguments={"a": n, "b": 2}) for n in range(count)]


@asynccontextmanager
async def client_of(
    *tools: Callable[..., Awaitable[Any]],
    limit: int = LIMIT,
    cap: int | None = None,
    capped: str = "",
    timeout: float | None = None,
) -> AsyncGenerator[AsyncAIClient]:
    """Open a client with these tools; `cap` limits the one named `capped`, or all of them."""
    toolbox = LocalToolbox()
    for tool in tools:
        name = tool.__name__
        toolbox.tool(name, max_concurrency=cap if capped in {"", name} else None)(tool)
    provider = ScriptedProvider([])
    async with AsyncAIClient(
        [provider], local_toolbox=toolbox, max_concurrency=limit, tool_timeout=timeout
    ) as client:
        yield client


async def cost(run: Callable[[], Awaitable[Any]], calls: int, seconds: float = 0.2) -> float:
    """Return the CPU time of a run in microseconds a call: the median of as many as fill `seconds`.

    The first run warms up and does not count, unless it alone takes a second.
    """
    gc.collect()
    spent: list[float] = []
    while len(spent) < 2 or sum(spent[1:]) < seconds:
        started = time.process_time()
        await run()
        spent.append(time.process_time() - started)
        if spent[0] > 1:
            break
    return statistics.median(spent[1:] or spent) / calls * 1e6


async def batch_cost(client: AsyncAIClient, tool: str, count: int) -> float:
    calls = requests(tool, count)
    return await cost(partial(client.run_tool_calls, calls), count)


def exponent(costs: dict[int, float]) -> float:
    """Return how the whole cost grows from the last size but one to the last; 1.0 is linear."""
    (small, before), (large, after) = sorted(costs.items())[-2:]
    return math.log(large * after / (small * before)) / math.log(large / small)


async def batches(quick: bool) -> Figures:
    async with client_of(no_op) as client:
        sizes = (1, 16, 256) if quick else (1, 16, 256, 4096)
        return {f"no-op, N={n}": await batch_cost(client, "no_op", n) for n in sizes}


def bare_workers(count: int) -> Callable[[Sequence[Call]], Awaitable[list[int]]]:
    """As the floor `workers`, without a deadline for each call."""

    async def run(calls: Sequence[Call]) -> list[int]:
        queue = deque(calls)
        results: list[int] = []

        async def worker() -> None:
            while queue:
                function, arguments = queue.popleft()
                results.append(await function(**validate(arguments)))

        async with anyio.create_task_group() as group:
            for _ in range(min(count, len(calls))):
                group.start_soon(worker)
        return results

    return run


async def suspending(quick: bool) -> Figures:
    """Compare with plain workers: without deadlines on either side, and with deadlines on both."""
    found: Figures = {}
    sizes = (16, 256) if quick else (16, 256, 4096)
    for timeout, floor, words in ((None, bare_workers(LIMIT), ""), (TIMEOUT, workers(LIMIT), ", deadlines")):
        async with client_of(suspend, timeout=timeout) as client:
            for n in sizes:
                # Taken in turn, so that both meet the machine in the same state.
                plain: list[Call] = [(suspend, {"a": number, "b": 2}) for number in range(n)]
                calls = requests("suspend", n)
                ours, theirs = [], []
                for _ in range(3):
                    ours.append(await cost(partial(client.run_tool_calls, calls), n, 0.07))
                    theirs.append(await cost(partial(floor, plain), n, 0.07))
                found[f"suspends once{words}, N={n}"] = statistics.median(ours)
                found[f"floor{words}, N={n}"] = statistics.median(theirs)
                found[f"times the floor{words}, N={n}"] = statistics.median(ours) / statistics.median(theirs)
    return found


async def capped(quick: bool) -> Figures:
    found: Figures = {}
    for n in (256,) if quick else (256, 2000):
        for cap in (4, n // 4):
            async with client_of(no_op, cap=cap) as client:
                found[f"capped no-op, cap {cap}, n={n}"] = await batch_cost(client, "no_op", n)
    return found


async def capped_suspending(quick: bool) -> Figures:
    found: Figures = {}
    for n in (256,) if quick else (256, 2000):
        for cap in (4, 16):
            async with client_of(suspend, cap=cap) as client:
                found[f"capped, suspends, cap {cap}, n={n}"] = await batch_cost(client, "suspend", n)
    return found


async def nested_costs(sizes: Sequence[int], cap: int | None) -> dict[int, float]:
    """Run n calls at once, each of which makes one nested call."""

    async def outer(a: int, b: int) -> int:
        """Add two numbers by another tool."""
        await current[0].run_tool_calls(requests("suspend", 1))
        return a + b

    current: list[AsyncAIClient] = []
    found: dict[int, float] = {}
    for n in sizes:
        async with client_of(outer, suspend, limit=n, cap=cap, capped="suspend") as client:
            current[:] = [client]
            found[n] = await batch_cost(client, "outer", n)
    return found


async def nested_capped(quick: bool) -> Figures:
    costs = await nested_costs((64, 128) if quick else (64, 128, 256, 400), cap=2)
    found = {f"nested, inner cap 2, n={n}": value for n, value in costs.items()}
    return {**found, "nested, inner cap 2, exponent": exponent(costs)}


async def nested(quick: bool) -> Figures:
    costs = await nested_costs((100, 200) if quick else (100, 200, 400, 800), cap=None)
    found = {f"nested, no cap, n={n}": value for n, value in costs.items()}
    return {**found, "nested, no cap, exponent": exponent(costs)}


async def nested_runs(quick: bool) -> Figures:
    """One tool starts n batches of one call each at the same time."""

    async def outer(a: int, b: int) -> int:
        """Run many batches at once."""
        async with anyio.create_task_group() as group:
            for _ in range(a):
                group.start_soon(client.run_tool_calls, requests("suspend", 1))
        return b

    costs: dict[int, float] = {}
    async with client_of(outer, suspend) as client:
        for n in (250, 500) if quick else (250, 500, 1000, 2000):
            call = [ToolCallRequest(id="c", name="outer", arguments={"a": n, "b": 2})]
            costs[n] = await cost(partial(client.run_tool_calls, call), n)
    found = {f"one tool, n batches, n={n}": value for n, value in costs.items()}
    return {**found, "one tool, n batches, exponent": exponent(costs)}


async def longest_step(client: AsyncAIClient, calls: list[ToolCallRequest]) -> float:
    """Return the longest step of the event loop while the batch runs, in milliseconds of CPU time."""
    steps: list[float] = []
    running = True

    async def tick() -> None:
        last = time.process_time()
        while running:
            await checkpoint()
            now = time.process_time()
            steps.append(now - last)
            last = now

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        while not steps:  # Without this, trio may start the batch before the first tick.
            await checkpoint()
        await client.run_tool_calls(calls)
        running = False
    return max(steps) * 1e3


async def longest_steps(quick: bool) -> Figures:
    found: Figures = {}
    n = 2000 if quick else 10_000
    for tool in (no_op, suspend):
        for cap in (16, 100, 1000):
            async with client_of(tool, cap=cap) as client:
                await client.run_tool_calls(requests(tool.__name__, LIMIT))
                gc.collect()
                steps = await longest_step(client, requests(tool.__name__, n))
                found[f"longest step of {n} x {tool.__name__}, cap {cap} (ms)"] = steps
    return found


async def depth(quick: bool) -> Figures:
    """Nest a chat in a tool of a chat, many levels deep; the cost is that of a level."""
    from seqoria_runtime.testing import call, calls, says

    async def deeper(levels: int) -> str:
        """Ask again, one level deeper."""
        if levels:
            async with client.chat(str(levels - 1), history=[]) as turn:
                async for _ in turn:
                    pass
        return "done"

    def reply(request: Any) -> Any:
        last = request.messages[-1]
        return calls(call("deeper", levels=int(last.content))) if last.role == "user" else says("done")

    levels = 50 if quick else 400
    toolbox = LocalToolbox()
    toolbox.tool()(deeper)
    async with AsyncAIClient([ScriptedProvider(reply)], local_toolbox=toolbox, system_prompt="") as client:
        return {f"chat nested {levels} deep, a level": await cost(partial(deeper, levels), levels)}


async def turn(quick: bool) -> Figures:
    """Run a turn with one round of one tool."""
    from seqoria_runtime.testing import call, calls, says

    def reply(request: Any) -> Any:
        return calls(call("no_op", a=1, b=2)) if request.messages[-1].role == "user" else says("done")

    async def run() -> None:
        for _ in range(20):
            async with client.chat("Go on.", history=[]) as events:
                async for _ in events:
                    pass

    toolbox = LocalToolbox()
    toolbox.tool()(no_op)
    async with AsyncAIClient([ScriptedProvider(reply)], local_toolbox=toolbox, system_prompt="") as client:
        return {"a turn with one round": await cost(run, 20)}


async def chain(quick: bool) -> Figures:
    """Run a batch in which each call depends on the one before it."""
    n = 200 if quick else 1000
    toolbox = LocalToolbox()
    for step in range(n):
        toolbox.tool(f"step{step}", depends_on=[f"step{step - 1}"] if step else [])(no_op)
    calls = [ToolCallRequest(id=f"c{n}", name=f"step{n}", arguments={"a": n, "b": 2}) for n in range(n)]
    async with AsyncAIClient([ScriptedProvider([])], local_toolbox=toolbox) as client:
        return {f"a chain of {n}": await cost(partial(client.run_tool_calls, calls), n)}


async def cancelling(quick: bool) -> Figures:
    """Cancel a batch: all of its calls wait in their tools, or all but 16 for a slot."""
    started_calls = 0

    async def hold(a: int, b: int) -> int:
        """Wait until cancelled."""
        nonlocal started_calls
        started_calls += 1
        await anyio.sleep_forever()
        return a + b

    n = 200 if quick else 1000
    found: Figures = {}
    for limit, words in ((n, "in their tools"), (LIMIT, "for a slot")):
        spent = []
        async with client_of(hold, limit=limit) as client:
            for _ in range(5):
                started_calls = 0
                gc.collect()
                async with anyio.create_task_group() as group:
                    group.start_soon(client.run_tool_calls, requests("hold", n))
                    while started_calls < limit:
                        await checkpoint()
                    started = time.process_time()
                    group.cancel_scope.cancel()
                spent.append(time.process_time() - started)
        found[f"cancel {n} that wait {words}"] = statistics.median(spent[1:]) / n * 1e6
    return found


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
        batches,
        suspending,
        capped,
        capped_suspending,
        nested_capped,
        nested,
        nested_runs,
        longest_steps,
        depth,
        turn,
        chain,
        cancelling,
    )
}


def main() -> None:
    name, backend, *words = sys.argv[1:]
    figures = anyio.run(SCENARIOS[name], "quick" in words, backend=backend)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
