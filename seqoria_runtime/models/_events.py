"""The events of a stream that are not messages."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ._messages import ToolCallOutcome, ToolCallRequest


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """A call of the current round has settled; the round's `ToolMessages` follows later."""

    request: ToolCallRequest
    outcome: ToolCallOutcome


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """The progress of a running call: `done` of `total`, in the tool's own units, and a `message`.

    Only the latest progress of each call waits for the consumer.
    """

    request: ToolCallRequest
    done: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """The start of a tool call in a provider's stream.

    It counts as output: a failure after it is raised, and no other provider is asked.
    """

    name: str | None = None


CallEventKind: TypeAlias = Literal["queued", "started", "finished", "skipped", "cancelled"]


@dataclass(frozen=True, slots=True)
class CallEvent:
    """Something that happened to a tool call, at `time` in seconds of the event loop's clock.

    `queued`: it was asked for. `started`: it has its slot. The other three carry its `outcome`, and
    one of them is its last event: `skipped` (a call that it depends on failed, or it is part of a cycle),
    `cancelled`, and `finished` for every other end. A call that cannot run, such as one of an unknown
    tool, finishes without having started. `batch` numbers the batches of the process; `position` is
    the call's place in its own.
    """

    kind: CallEventKind
    time: float
    batch: int
    position: int
    request: ToolCallRequest
    outcome: ToolCallOutcome | None = None
