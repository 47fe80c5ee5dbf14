"""Owns what a scripted tool does when it is called: steps in the event loop's time, one after another.

Holds values and plays them; knows nothing of toolboxes, of traces or of the runtime's calls.
"""

import math
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
from anyio import from_thread
from anyio.lowlevel import checkpoint

from seqoria_runtime._base.checks import non_negative_seconds
from seqoria_runtime.testing._clock.worker_threads import WorkerThread, current_thread

from .program import PrintsAsProgram


@dataclass(frozen=True, slots=True)
class _Sleep:
    seconds: float

    def __repr__(self) -> str:
        return f"sleeps({self.seconds:g})"


@dataclass(frozen=True, slots=True)
class _IgnoreCancel:
    seconds: float

    def __repr__(self) -> str:
        return f"ignores_cancel({self.seconds:g})"


@dataclass(frozen=True, slots=True)
class _BlockThread:
    seconds: float

    def __repr__(self) -> str:
        return f"blocks_thread({self.seconds:g})"


@dataclass(frozen=True, slots=True)
class _Hang:
    def __repr__(self) -> str:
        return "hangs()"


@dataclass(frozen=True, slots=True)
class _Fail:
    error: BaseException = field(compare=False)

    def __repr__(self) -> str:
        return f"fails({self.error!r})"


@dataclass(frozen=True, slots=True)
class _Return:
    value: Any

    def __repr__(self) -> str:
        return f"returns({self.value!r})"


Step: TypeAlias = _Sleep | _IgnoreCancel | _BlockThread | _Hang | _Fail | _Return


@dataclass(frozen=True, slots=True, repr=False)
class Behaviour(PrintsAsProgram):
    """What a tool does in one call; its `repr` is the program that makes it.

    Made with `sleeps`, `fails`, `hangs`, `ignores_cancel`, `blocks_thread` and `returns`, and joined
    with `then`. A behaviour with a `blocks_thread` in it runs in a worker thread as a whole.
    """

    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        if self.blocking and any(isinstance(step, _Hang) for step in self.steps):
            raise ValueError("a thread cannot hang: it would never end, and the process could not either")

    @property
    def blocking(self) -> bool:
        """Whether it runs in a worker thread."""
        return any(isinstance(step, _BlockThread) for step in self.steps)

    def then(self, following: "Behaviour") -> "Behaviour":
        """This, and then that: `sleeps(2).then(fails(ValueError("late")))`."""
        if not isinstance(following, Behaviour):
            raise TypeError(f"a behaviour goes on with a behaviour, such as sleeps(1), not {following!r}")
        return Behaviour((*self.steps, *following.steps))

    async def play(self, default: Any) -> Any:
        """Do it in the caller's task; give what it returns, by default `default`."""
        value = default
        await checkpoint()
        for step in self.steps:
            match step:
                case _Return():
                    value = step.value
                case _Fail():
                    raise step.error
                case _Hang():
                    await anyio.sleep(math.inf)
                case _IgnoreCancel() | _BlockThread():
                    await _sleep_shielded(step.seconds)
                case _Sleep():
                    await anyio.sleep(step.seconds)
        return value

    def play_in_thread(self, default: Any) -> Any:
        """Do it in a worker thread of the runtime; give what it returns, by default `default`.

        The thread is busy for its time in the loop's clock, however the call ends that waits for it.
        """
        value = default
        for step in self.steps:
            match step:
                case _Return():
                    value = step.value
                case _Fail():
                    raise step.error
                case _Sleep() | _IgnoreCancel() | _BlockThread():
                    if not from_thread.run(_sleep_for_thread, step.seconds, current_thread.get()):
                        return None
                case _Hang():  # refused at construction
                    raise AssertionError
        return value

    def __repr__(self) -> str:
        first, *others = self.steps
        return repr(first) + "".join(f".then({step!r})" for step in others)


def sleeps(seconds: float) -> Behaviour:
    """The tool takes `seconds` of the loop's time, and can be cancelled in it."""
    return Behaviour((_Sleep(non_negative_seconds("seconds", seconds)),))


def fails(error: BaseException) -> Behaviour:
    """The tool raises `error`."""
    if not isinstance(error, BaseException):
        raise TypeError(f"a tool fails with an exception, not with {error!r}")
    return Behaviour((_Fail(error),))


def hangs() -> Behaviour:
    """The tool waits for ever, until it is cancelled."""
    return Behaviour((_Hang(),))


def ignores_cancel(seconds: float) -> Behaviour:
    """The tool takes `seconds`, and does not listen to a cancellation meanwhile."""
    return Behaviour((_IgnoreCancel(non_negative_seconds("seconds", seconds)),))


def blocks_thread(seconds: float) -> Behaviour:
    """The tool is a synchronous function that keeps its worker thread for `seconds`.

    A timeout or a cancellation leaves the thread to itself until then. In virtual time the seconds
    are virtual.
    """
    return Behaviour((_BlockThread(non_negative_seconds("seconds", seconds)),))


def returns(value: Any) -> Behaviour:
    """The tool gives `value`; without it, a text that names the tool and the number of the call."""
    return Behaviour((_Return(value),))


async def _sleep_shielded(seconds: float) -> None:
    with anyio.CancelScope(shield=True):
        await anyio.sleep(seconds)


async def _sleep_for_thread(seconds: float, thread: WorkerThread | None) -> bool:
    """Give whether the loop goes on."""
    try:
        await _sleep_shielded(seconds)
    except anyio.get_cancelled_exc_class():
        # Only the end of the loop gets through the shield, and there nobody is left to hear of it.
        return False
    if thread is not None:
        # The thread is about to end, and what its end brings belongs to this moment: time waits for it
        # even where the call was cancelled.
        thread.holds_time = True
    return True
