"""How a batch of no-op calls grows: CPU time from 1,000 to 64,000 calls, and memory per queued call.

The exponent is the slope of log(time) over log(calls): 1.0 is linear. The memory is what a call
that waits for its slot costs beside its request object, traced by tracemalloc.

    python benchmarks/growth.py [--backend asyncio|trio]
"""

import argparse
import gc
import math
import statistics
import time
import tracemalloc

import anyio

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.models import ToolCallRequest
from seqoria_runtime.testing import ScriptedProvider
from seqoria_runtime.toolbox import LocalToolbox

SIZES = [1_000, 4_000, 16_000, 64_000]
REPETITIONS = 3
QUEUED = 4_000


def requests(name: str, count: int) -> list[ToolCallRequest]:
    return [ToolCallRequest(id=f"c{n}", name=name, arguments={"a": n, "b": 2}) for n in range(count)]


async def run() -> None:
    tools = LocalToolbox()
    release = anyio.Event()

    @tools.tool()
    async def add(a: int, b: int) -> int:
        return a + b

    @tools.tool()
    async def wait(a: int, b: int) -> int:
        await release.wait()
        return a + b

    async with AsyncAIClient([ScriptedProvider([])], local_toolbox=tools, tool_timeout=30.0) as client:
        seconds = {}
        for size in SIZES:
            calls = requests("add", size)
            samples = []
            for _ in range(REPETITIONS):
                gc.collect()
                started = time.process_time()
                await client.run_tool_calls(calls)
                samples.append(time.process_time() - started)
            seconds[size] = statistics.median(samples)
            print(f"{size:>6} calls: {seconds[size] / size * 1e6:6.2f} µs of CPU per call")
        slope = statistics.linear_regression(
            [math.log(n) for n in SIZES], [math.log(seconds[n]) for n in SIZES]
        )
        print(f"exponent: {slope.slope:.3f}")

        calls = requests("wait", QUEUED)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        async with anyio.create_task_group() as group:
            group.start_soon(client.run_tool_calls, calls)
            while client.stats().free_slots:
                await anyio.lowlevel.checkpoint()
            gc.collect()
            held = tracemalloc.get_traced_memory()[0] - before
            tracemalloc.stop()
            release.set()
        print(f"memory of a queued call: {held / QUEUED:.0f} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio")
    anyio.run(run, backend=parser.parse_args().backend)


if __name__ == "__main__":
    main()
