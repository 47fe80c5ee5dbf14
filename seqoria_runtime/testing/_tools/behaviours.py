"""What a scripted tool does when it is called: steps in the event loop's time, one after another."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import anyio
from anyio import from_thread
from anyio.lowlevel import checkpoint

from seqoria_runtime._base.checks import non_negative_seconds
from seqoria_runtime.testing._clock.worker_threads import WorkerThread, current_thread


class PrintsAsProgram:
    """A value whose `repr` is the Python that makes it. Values with the same `repr` are equal."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        # Hypothesis prints dataclasses by their fields unless they have this.
        printer.text(repr(self))


@dataclass(frozen=True, slots=True)
class ToolStep:
    """A step of a `Behaviour`, named after the function that makes it; `value` is its argument."""

    name: Literal["sleeps", "ignores_cancel", "blocks_thread", "hangs", "fails", "returns"]
    value: Any = None

    def __repr__(self) -> str:
        match self.name:
            case "hangs":
                return "hangs()"
            case "fails" | "returns":
                return f"{self.name}({self.value!r})"
            case _:
                return f"{self.name}({self.value:g})"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Behaviour(PrintsAsProgram):
    """What a tool does in one call; its `repr` is the Python that makes it.

    Make one with `sleeps`, `fails`, `hangs`, `ignores_cancel`, `blocks_thread` or `returns`, and join
    several with `then`. A behaviour that contains a `blocks_thread` runs in a worker thread as a whole.
    """

    steps: tuple[ToolStep, ...]

    def __post_init__(self) -> None:
        if self.blocking and any(step.name == "hangs" for step in self.steps):
            raise ValueError("a thread cannot hang: it would never end, and the process could not either")

    @property
    def blocking(self) -> bool:
        """Whether it runs in a worker thread."""
        return any(step.name == "blocks_thread" for step in self.steps)

    def then(self, following: "Behaviour") -> "Behaviour":
        """Return this behaviour followed by another: `sleeps(2).then(fails(ValueError("late")))`."""
        if not isinstance(following, Behaviour):
            raise TypeError(f"a behaviour goes on with a behaviour, such as sleeps(1), not {following!r}")
        return Behaviour((*self.steps, *following.steps))

    async def play(self, default: Any) -> Any:
        """Run it in the caller's task; return its value, by default `default`.

        A cancelled caller leaves at once, except from the steps that ignore it.
        """
        value = default
        await checkpoint()
        for step in self.steps:
            match step.name:
                case "returns":
                    value = step.value
                case "fails":
                    raise step.value
                case "hangs":
                    await anyio.sleep(math.inf)
                case "sleeps":
                    await anyio.sleep(step.value)
                case _:
                    await _sleep_shielded(step.value)
        return value

    def play_in_thread(self, default: Any) -> Any:
        """Run it in a worker thread of the runtime; return its value, by default `default`.

        The thread is busy for its time on the loop's clock, even if the call that waits for it ends.
        """
        value = default
        for step in self.steps:
            match step.name:
                case "returns":
                    value = step.value
                case "fails":
                    raise step.value
                case _:
                    if not from_thread.run(_sleep_for_thread, step.value, current_thread.get()):
                        return None
        return value

    def __repr__(self) -> str:
        first, *others = self.steps
        return repr(first) + "".join(f".then({step!r})" for step in others)


def sleeps(seconds: float) -> Behaviour:
    """The tool takes `seconds` of the loop's time, and can be cancelled meanwhile."""
    return Behaviour((ToolStep("sleeps", non_negative_seconds("seconds", seconds)),))


def fails(error: BaseException) -> Behaviour:
    """The tool raises `error`. (`seqoria_runtime.testing.fails` is for models.)"""
    if not isinstance(error, BaseException):
        raise TypeError(f"a tool fails with an exception, not with {error!r}")
    return Behaviour((ToolStep("fails", error),))


def hangs() -> Behaviour:
    """The tool waits until it is cancelled."""
    return Behaviour((ToolStep("hangs"),))


def ignores_cancel(seconds: float) -> Behaviour:
    """The tool takes `seconds`, and ignores a cancellation meanwhile."""
    return Behaviour((ToolStep("ignores_cancel", non_negative_seconds("seconds", seconds)),))


def blocks_thread(seconds: float) -> Behaviour:
    """The tool is a synchronous function that keeps its worker thread busy for `seconds`.

    It does so even if its call times out or is cancelled. In virtual time the seconds are virtual.
    """
    return Behaviour((ToolStep("blocks_thread", non_negative_seconds("seconds", seconds)),))


def returns(value: Any) -> Behaviour:
    """The tool returns `value`. Without it, a text names the tool and the number of the call."""
    return Behaviour((ToolStep("returns", value),))


async def _sleep_shielded(seconds: float) -> None:
    with anyio.CancelScope(shield=True):
        await anyio.sleep(seconds)


async def _sleep_for_thread(seconds: float, thread: WorkerThread | None) -> bool:
    """Sleep, and return whether the loop goes on."""
    try:
        await _sleep_shielded(seconds)
    except anyio.get_cancelled_exc_class():
        # Only the end of the loop gets through the shield.
        return False
    if thread is not None:
        # The thread is about to end, and what its end brings belongs to this moment: time waits for it
        # even if the call was cancelled.
        thread.holds_time = True
    return True
