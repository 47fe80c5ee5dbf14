"""What a turn tells its consumer beside the messages."""

from dataclasses import dataclass

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
