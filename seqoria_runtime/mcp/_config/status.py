"""The status of a server's connection, as the application reads it."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

ServerState: TypeAlias = Literal["connected", "connecting", "down", "closed"]
BreakerState: TypeAlias = Literal["closed", "open", "half_open"]


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server at one moment.

    `since` is when `state` started, in Unix time. `error` is why the server is down, why the previous attempt
    to connect failed, or why its list of tools could not be read again. `protocol` is the version that was
    agreed on, `tools` the number of its tools.
    """

    name: str
    transport: str
    state: ServerState
    since: float
    error: str | None
    protocol: str | None
    tools: int
    breaker: BreakerState
