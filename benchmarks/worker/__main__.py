"""Answer requests on standard input until it ends, as one contestant.

    python -m benchmarks.worker MODULE VARIANT asyncio|uvloop|trio

Requests and answers are JSON, one a line. What the contestant itself prints goes to standard error.
"""

import asyncio
import importlib
import importlib.metadata
import json
import os
import platform
import sys
import traceback
from typing import Any, TextIO

from .adapter import Adapter, CannotDo
from .loop import loop_of
from .tools import record
from .workloads import run_workload

LIBRARIES = ("anyio", "trio", "uvloop", "pydantic")


def versions(distributions: tuple[str, ...]) -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in (*distributions, *LIBRARIES):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


async def answer(adapter: Adapter, request: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"sample": await run_workload(adapter, request["workload"], request["parameters"])}
    except CannotDo as reason:
        return {"cannot": str(reason)}
    except Exception as failure:
        traceback.print_exc()
        return {"failed": f"{type(failure).__name__}: {failure}"[:300]}


async def serve(module: str, variant: str, backend: str, answers: TextIO) -> None:
    loop = record.loop = loop_of(backend)
    adapter_class: type[Adapter] = importlib.import_module(module).ADAPTER
    async with adapter_class(loop, variant) as adapter:
        hello = {
            "versions": versions(getattr(importlib.import_module(module), "DISTRIBUTIONS", ())),
            "how_batches_run": adapter.how_batches_run,
            "has_cap": "cap" not in adapter.cannot,
        }
        print(json.dumps(hello), file=answers, flush=True)
        for line in sys.stdin:
            reply = await answer(adapter, json.loads(line))
            print(json.dumps(reply), file=answers, flush=True)


def main() -> None:
    module, variant, backend = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if backend == "trio":
        import trio

        trio.run(serve, module, variant, backend, answers)
        return
    factory = importlib.import_module("uvloop").new_event_loop if backend == "uvloop" else None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve(module, variant, backend, answers))


if __name__ == "__main__":
    main()
