"""Measure CPU time of the whole process (user and system, all threads) and wall time."""

import gc
import time
from dataclasses import dataclass, field
from pathlib import Path

from .loop import Run

Sample = dict[str, float]


@dataclass
class Watch:
    """Starts when it is made; `read` returns the seconds since then."""

    cpu: float = field(default_factory=time.process_time)
    wall: float = field(default_factory=time.perf_counter)

    def read(self) -> Sample:
        return {"cpu": time.process_time() - self.cpu, "wall": time.perf_counter() - self.wall}


async def repeated(run: Run, *, expected: int, seconds: float) -> Sample:
    """Return the mean seconds of a run, over as many as fill `seconds` of CPU; the first does not count.

    A slow contestant runs twice, once to warm up. Raise `AssertionError` on an unexpected result.
    """
    await checked(run, expected)
    gc.collect()
    watch, runs = Watch(), 0
    while not runs or watch.read()["cpu"] < seconds:
        done = await run()
        runs += 1
    spent = watch.read()
    if done != expected:
        raise AssertionError(f"a run returned {done} results, not {expected}")
    return {clock: value / runs for clock, value in spent.items()}


async def once(run: Run, expected: int) -> Sample:
    """Return the seconds of one run, without a warm-up."""
    gc.collect()
    watch = Watch()
    await checked(run, expected)
    return watch.read()


async def checked(run: Run, expected: int) -> None:
    done = await run()
    if done != expected:
        raise AssertionError(f"a run returned {done} results, not {expected}")


def scaled(sample: Sample, factor: float) -> Sample:
    return {clock: value * factor for clock, value in sample.items()}


def resident_bytes() -> int:
    """Return the resident memory of this process; Linux only."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096
