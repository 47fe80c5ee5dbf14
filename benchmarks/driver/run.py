"""Run a cell: each repetition asks all contestants before the next repetition starts."""

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
    """The workers of the installed contestants, and why the others are missing."""

    def __init__(self, contestants: Sequence[Contestant], logs: Path) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self.workers: dict[Contestant, Worker] = {}
        self.missing: dict[str, str] = {}
        for contestant in contestants:
            try:
                self.workers[contestant] = Worker(contestant, environment(contestant.environment), logs)
            except CannotInstallError as reason:
                self.missing[contestant.name] = str(reason)

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()


@contextlib.contextmanager
def field(contestants: Sequence[Contestant], logs: Path) -> Generator[Field]:
    made = Field(contestants, logs)
    try:
        yield made
    finally:
        made.close()


def run_cell(cell: Cell, workers: dict[Contestant, Worker]) -> dict[str, dict[str, Any]]:
    asked = [contestant for contestant in workers if cell.asked(contestant)]
    found: dict[str, dict[str, Any]] = {contestant.name: {"samples": []} for contestant in asked}
    started = time.monotonic()
    for contestant in asked if cell.fresh else ():
        workers[contestant].close()
    for repetition in range(cell.repetitions):
        # The first contestant meets the machine as the last cell left it, so another is first each time.
        start = repetition * 7 % max(len(asked), 1)
        for contestant in asked[start:] + asked[:start]:
            record = found[contestant.name]
            if "cannot" in record or "failed" in record:
                continue
            answer = workers[contestant].ask(cell.workload, cell.parameters, cell.patience)
            if "sample" in answer:
                record["samples"].append(answer["sample"])
            else:
                record.update(answer)
    print(f"{cell.key:<24} {time.monotonic() - started:6.1f} s", file=sys.stderr, flush=True)
    return found
