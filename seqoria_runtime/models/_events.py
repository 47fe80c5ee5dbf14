"""The events of a stream that are not messages."""

from dataclasses import dataclass

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
