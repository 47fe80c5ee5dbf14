"""CPU time per call of a batch of no-op tools, beside a bare floor, on one backend in one process.

The floor is at most 16 anyio workers that pull calls from a queue; for each call they validate the
arguments, open `move_on_after`, call the function and append the result. It keeps no context
variables apart, contains no stray cancellation and shares its slots with nobody.

    python benchmarks/batch_overhead.py [--backend asyncio|uvloop|trio] [--sizes 1,16,256,4096] [--json FILE]
"""

import argparse
import json
import statistics
import time
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.models import ToolCallRequest
from seqoria_runtime.testing import ScriptedProvider
from seqoria_runtime.toolbox import LocalToolbox

CAP = 16
TIMEOUT = 30.0
SECONDS_PER_SAMPLE = 0.15
REPETITIONS = 7


class Pair(TypedDict):
    a: int
    b: int


async def add(a: int, b: int) -> int:
    return a + b


async def add_later(a: int, b: int) -> int:
    await anyio.lowlevel.checkpoint()
    return a + b


VALIDATE = TypeAdapter(Pair).validator.validate_python


async def floor(calls: list[dict[str, Any]], function: Callable[..., Awaitable[int]]) -> list[int]:
    queue = deque(calls)
    results: list[int] = []

    async def worker() -> None:
        while queue:
            arguments = VALIDATE(queue.popleft())
            with anyio.move_on_after(TIMEOUT):
                results.append(await function(**arguments))

    async with anyio.create_task_group() as group:
        for _ in range(min(CAP, len(calls))):
            group.start_soon(worker)
    return results


async def measure(run: Callable[[], Awaitable[Any]], calls: int) -> float:
    """Microseconds of CPU per call, of as many runs as fill a sample."""
    runs, spent = 0, 0.0
    while spent < SECONDS_PER_SAMPLE:
        started = time.process_time()
        await run()
        spent += time.process_time() - started
        runs += 1
    return spent / (runs * calls) * 1e6


async def compare(sizes: list[int]) -> list[dict[str, Any]]:
    tools = LocalToolbox()
    tools.tool()(add)
    tools.tool()(add_later)
    rows = []
    async with AsyncAIClient(
        [ScriptedProvider([])], local_toolbox=tools, max_concurrency=CAP, tool_timeout=TIMEOUT
    ) as client:
        for function in (add, add_later):
            for size in sizes:
                arguments = [{"a": n, "b": 2} for n in range(size)]
                requests = [
                    ToolCallRequest(id=f"c{n}", name=function.__name__, arguments=pair)
                    for n, pair in enumerate(arguments)
                ]
                floor_samples, samples = [], []
                for _ in range(REPETITIONS):
                    floor_samples.append(await measure(lambda: floor(arguments, function), size))  # noqa: B023
                    samples.append(await measure(lambda: client.run_tool_calls(requests), size))  # noqa: B023
                ratios = [ours / base for ours, base in zip(samples, floor_samples, strict=True)]
                rows.append({
                    "tool": function.__name__,
                    "calls": size,
                    "floor_us": statistics.median(floor_samples),
                    "runtime_us": statistics.median(samples),
                    "ratio": statistics.median(ratios),
                })
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--backend", choices=["asyncio", "uvloop", "trio"], default="asyncio")
    parser.add_argument("--sizes", default="1,16,256,4096")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    backend = "asyncio" if options.backend == "uvloop" else options.backend
    rows = anyio.run(
        compare,
        sizes,
        backend=backend,
        backend_options={"use_uvloop": True} if options.backend == "uvloop" else {},
    )
    print(f"{options.backend}: µs of CPU per call")
    print(f"{'tool':<10} {'calls':>6} {'floor':>8} {'runtime':>8} {'ratio':>6}")
    for row in rows:
        shown = f"{row['floor_us']:>8.2f} {row['runtime_us']:>8.2f} {row['ratio']:>6.2f}"
        print(f"{row['tool']:<10} {row['calls']:>6} {shown}")
    if options.json:
        options.json.write_text(json.dumps({"backend": options.backend, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
