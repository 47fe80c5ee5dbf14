"""Clocks: CPU time of the whole process (user and system, all threads) beside wall time."""

import gc
import time
from dataclasses import dataclass, field
from pathlib import Path

from .loop import Run

Sample = dict[str, float]


@dataclass
class Watch:
    """Started when it is made; `read` gives what has passed since, in seconds."""

    cpu: float = field(default_factory=time.process_time)
    wall: float = field(default_factory=time.perf_counter)

    def read(self) -> Sample:
        return {"cpu": time.process_time() - self.cpu, "wall": time.perf_counter() - self.wall}


async def repeated(run: Run, *, expected: int, seconds: float) -> Sample:
    """Mean seconds of one run, over as many as fill `seconds` of CPU; the first is not counted.

    A slow contestant is warmed up and measured once each. Raises where a run's result is not what
    was expected.
    """
    await checked(run, expected)
    gc.collect()
    watch, runs = Watch(), 0
    while not runs or watch.read()["cpu"] < seconds:
        done = await run()
        runs += 1
    spent = watch.read()
    if done != expected:
        raise AssertionError(f"a run gave {done} results, not {expected}")
    return {clock: value / runs for clock, value in spent.items()}


async def once(run: Run, expected: int) -> Sample:
    """Seconds of one run, without a warm-up."""
    gc.collect()
    watch = Watch()
    await checked(run, expected)
    return watch.read()


async def checked(run: Run, expected: int) -> None:
    done = await run()
    if done != expected:
        raise AssertionError(f"a run gave {done} results, not {expected}")


def scaled(sample: Sample, factor: float) -> Sample:
    return {clock: value * factor for clock, value in sample.items()}


def resident_bytes() -> int:
    """Memory of this process that is in RAM; Linux only."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096
