"""What an application is told of a server's connection."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

ServerState: TypeAlias = Literal["connected", "connecting", "down", "closed"]
BreakerState: TypeAlias = Literal["closed", "open", "half_open"]


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server at one moment.

    `since` is when `state` began, in Unix time. `error` tells why it is down, why the attempt before
    this one failed, or why its list of tools could not be read again. `protocol` is the version that
    was agreed on, `tools` how many tools of it are known.
    """

    name: str
    transport: str
    state: ServerState
    since: float
    error: str | None
    protocol: str | None
    tools: int
    breaker: BreakerState
