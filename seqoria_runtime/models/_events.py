"""What a turn tells its consumer beside the messages."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ._messages import ToolCallOutcome, ToolCallRequest


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """A call of the running round has settled; its round's `ToolMessages` follows later."""

    request: ToolCallRequest
    outcome: ToolCallOutcome


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A running call says how far it is: `done` of `total`, in units of its own, and in words.

    Of the reports of one call only the latest is kept until the consumer asks for it.
    """

    request: ToolCallRequest
    done: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """A provider's stream has begun to receive a tool call.

    It counts as output: after it a failure is raised, and no other provider is asked.
    """

    name: str | None = None


CallEventKind: TypeAlias = Literal["queued", "started", "finished", "skipped", "cancelled"]


@dataclass(frozen=True, slots=True)
class CallEvent:
    """Something that happened to a tool call, at `time` in seconds of the event loop's clock.

    `queued`: it was asked for. `started`: it has its slot. The other three come with its `outcome` and
    are the last one of it: `skipped` (a call that it depends on failed, or it is part of a cycle),
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
