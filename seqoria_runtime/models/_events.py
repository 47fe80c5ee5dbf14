"""What a turn tells its consumer beside the messages."""

from dataclasses import dataclass

from ._messages import ToolCallOutcome, ToolCallRequest


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """A call of the running round has settled; its round's `ToolMessages` follows later."""

    request: ToolCallRequest
    outcome: ToolCallOutcome


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """A provider's stream has begun to receive a tool call.

    It counts as output: after it a failure is raised, and no other provider is asked.
    """

    name: str | None = None
