"""Computes a limit on concurrency from the latencies of calls, and has a client follow it.

The rule itself is pure: samples in, a limit out.
"""

import math
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from seqoria_runtime._base import checks as _checks
from seqoria_runtime.models import CallEvent, ToolCallError, ToolCallResult

from .places import Places, launch

_SMOOTHING = 0.5
_BACKOFF = 0.9
_LEAST_GRADIENT = 0.5
_PROBE_EVERY = 30
_PROBE_SHARE = 0.5
_HISTORY = 10_000
_IN_USE = 0.75
_CALLS_A_SLOT = 5
_OVERLOAD = frozenset({"timed_out", "unavailable"})


@dataclass(frozen=True, slots=True)
class AdaptiveLimit:
    """A `max_concurrency` that adapts to what the tools can bear, from `min` to `max`.

    The rule is the gradient of Netflix's concurrency-limits (`GradientLimit`, 2018): after each
    window of calls the limit is multiplied by the latency without load over the present latency (at
    least 0.5, at most 1, with a `tolerance`), and the square root of the limit is added as room for a
    queue; half of the difference is applied at a time. Latencies are compared per tool. A window
    in which calls timed out or were `unavailable` multiplies the limit by 0.9 instead (AIMD: Chiu and
    Jain, 1989). Every 30th window runs with half the limit, to measure the latency without load again
    (as TCP BBR does: Cardwell et al., 2016). A limit that is not used is not raised.

    It is a value: each client that takes it starts its own limit at `min`. `window` is the least number
    of calls between two steps (or five for each slot, if that is less). Raises
    `ValueError`, which names the option.
    """

    min: int = 1
    max: int = 128
    window: int = 20
    tolerance: float = 1.1

    def __post_init__(self) -> None:
        for name in ("min", "max", "window"):
            _checks.positive_int(name, getattr(self, name))
        if self.min > self.max:
            raise ValueError(f"'min' must be at most 'max', {self.max}, not {self.min}")
        if _checks.positive_seconds("tolerance", self.tolerance) < 1:
            raise ValueError(f"'tolerance' must be a number from 1 on, not {self.tolerance!r}")


class LimitChange(NamedTuple):
    """A limit, and the time from which it holds, in seconds of the event loop's clock."""

    time: float
    limit: int


class Sample(NamedTuple):
    """A call that has ended by itself. Times are seconds.

    `in_flight` is how many calls ran when it started, itself included; `overload` whether it failed
    in a way that says that there were too many of them.
    """

    tool: str
    started: float
    ended: float
    in_flight: int
    overload: bool = False


@dataclass(slots=True)
class _Window:
    """The calls that were started under one limit."""

    since: float
    probe: bool = False
    calls: int = 0
    overloads: int = 0
    most_in_flight: int = 0
    latencies: dict[str, tuple[int, float]] = field(default_factory=dict)

    def add(self, sample: Sample) -> None:
        self.calls += 1
        self.most_in_flight = max(self.most_in_flight, sample.in_flight)
        if sample.overload:
            self.overloads += 1
            return
        count, total = self.latencies.get(sample.tool, (0, 0.0))
        self.latencies[sample.tool] = count + 1, total + sample.ended - sample.started


class AdaptiveController:
    """The limit of one client as it follows its samples; see `AdaptiveLimit`."""

    def __init__(self, options: AdaptiveLimit, now: float) -> None:
        self._options = options
        self._estimate = float(options.min)
        self._limit = options.min
        self._window = _Window(now, probe=True)
        self._windows_since_probe = 0
        self._unloaded: dict[str, float] = {}
        self._history: deque[LimitChange] = deque([LimitChange(now, self._limit)], maxlen=_HISTORY)

    @property
    def limit(self) -> int:
        """The limit of now."""
        return self._limit

    @property
    def history(self) -> tuple[LimitChange, ...]:
        """The limits so far, at most the last 10,000."""
        return tuple(self._history)

    def add(self, sample: Sample) -> bool:
        """Take a call into account; return whether the limit has changed.

        Calls that were started under an earlier limit say nothing about this one.
        """
        window = self._window
        if sample.started < window.since:
            return False
        window.add(sample)
        # A low limit lets few calls pass in a time, and is left the sooner.
        if window.calls < max(self._limit, min(self._options.window, _CALLS_A_SLOT * self._limit)):
            return False
        return self._step(sample.ended)

    def _step(self, now: float) -> bool:
        window = self._window
        load = self._load(window)
        if window.overloads:
            self._estimate *= _BACKOFF
        elif window.most_in_flight >= self._limit * _IN_USE and not window.probe:
            self._follow(load)
        self._estimate = min(max(self._estimate, self._options.min), self._options.max)
        self._windows_since_probe = 0 if window.probe else self._windows_since_probe + 1
        # A resource that is overloaded now has first to be left alone, or its latency would be believed.
        probe = self._windows_since_probe >= _PROBE_EVERY and load <= 2 * self._options.tolerance
        self._window = _Window(now, probe=probe)
        before, self._limit = self._limit, self._target(probe=probe)
        if self._limit != before:
            self._history.append(LimitChange(now, self._limit))
        return self._limit != before

    def _load(self, window: _Window) -> float:
        """How many times the latency without load the calls of a window took, on average.

        A window that probes, and a tool's first one, say what the latency without load is.
        """
        calls, load = 0, 0.0
        for tool, (count, total) in window.latencies.items():
            mean = total / count
            known = self._unloaded.get(tool)
            if known is None:
                self._unloaded[tool] = mean
            elif window.probe:
                self._unloaded[tool] = (known + mean) / 2
            calls += count
            base = self._unloaded[tool]
            load += count * (mean / base if base > 0 else 1.0)
        return load / calls if calls else 1.0

    def _follow(self, load: float) -> None:
        allowed = self._options.tolerance / load if load > 0 else 1.0
        gradient = max(_LEAST_GRADIENT, min(1.0, allowed))
        wanted = self._estimate * gradient + math.sqrt(self._estimate)
        self._estimate += _SMOOTHING * (wanted - self._estimate)

    def _target(self, *, probe: bool) -> int:
        limit = math.floor(self._estimate + 1e-9)
        return max(self._options.min, math.ceil(limit * _PROBE_SHARE)) if probe else limit


class LimitFollower:
    """Sets the number of slots of a client to what a controller makes of the calls that run in them."""

    def __init__(self, controller: AdaptiveController, places: Places) -> None:
        self.controller = controller
        self._places = places
        self._started: dict[tuple[int, int], tuple[float, int]] = {}

    def note(self, event: CallEvent) -> None:
        """Take the start or the end of a call into account."""
        call = event.batch, event.position
        if event.kind == "started":
            self._started[call] = event.time, self._places.slots.in_use
            return
        started = self._started.pop(call, None)
        outcome = event.outcome
        # A call of a tool that calls others includes their waiting for slots, which says nothing of the load.
        if started is None or outcome is None or event.request.name in self._places.calling_tools:
            return
        overload = isinstance(outcome, ToolCallError) and outcome.kind in _OVERLOAD
        if overload or isinstance(outcome, ToolCallResult):
            time, in_flight = started
            sample = Sample(event.request.name, time, event.time, in_flight, overload)
            if self.controller.add(sample):
                launch(self._places.resize(self.controller.limit))
