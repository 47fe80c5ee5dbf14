"""The interleaved run: every repetition of a cell asks all contestants in turn before the next begins."""

import contextlib
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from .contestants import Contestant
from .environments import CannotInstallError, environment
from .plan import Cell
from .process import Worker


class Field:
    """The workers of the contestants that could be installed, and why the others could not."""

    def __init__(self, contestants: Sequence[Contestant], logs: Path) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self.workers: dict[Contestant, Worker] = {}
        self.missing: dict[str, str] = {}
        for who in contestants:
            try:
                self.workers[who] = Worker(who, environment(who.environment), logs)
            except CannotInstallError as reason:
                self.missing[who.name] = str(reason)

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()

    def told(self) -> dict[str, dict[str, Any]]:
        return {who.name: worker.hello for who, worker in self.workers.items()}


@contextlib.contextmanager
def field(contestants: Sequence[Contestant], logs: Path) -> Generator[Field]:
    made = Field(contestants, logs)
    try:
        yield made
    finally:
        made.close()


def run_cell(cell: Cell, workers: dict[Contestant, Worker]) -> dict[str, dict[str, Any]]:
    asked = [who for who in workers if cell.asked(who)]
    found: dict[str, dict[str, Any]] = {who.name: {"samples": []} for who in asked}
    began = time.monotonic()
    for who in asked if cell.fresh else ():
        workers[who].close()
    for repetition in range(cell.repetitions):
        # Whoever is asked first meets the machine as the last one left it: each has its turn at that.
        start = repetition * 7 % max(len(asked), 1)
        for who in asked[start:] + asked[:start]:
            record = found[who.name]
            if "cannot" in record or "failed" in record:
                continue
            answer = workers[who].ask(cell.workload, cell.parameters, cell.patience)
            if "sample" in answer:
                record["samples"].append(answer["sample"])
            else:
                record.update(answer)
    print(f"{cell.key:<24} {time.monotonic() - began:6.1f} s", file=sys.stderr, flush=True)
    return found
