"""A client with tools of known durations, and a record of its calls in the loop's time."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import anyio

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.models import ToolCallError, ToolCallOutcome, ToolCallRequest, ToolCallResult
from seqoria_runtime.testing import ScriptedProvider
from seqoria_runtime.toolbox import LocalToolbox

_ids = count(1)


def request(name: str, /, **arguments: Any) -> ToolCallRequest:
    """A call with a new id."""
    return ToolCallRequest(id=f"call-{next(_ids)}", name=name, arguments=arguments)


@dataclass
class Lab:
    """Timed tools, and a record of their calls.

    `events` holds (time, "start" or "end", tag), `peak` the most calls at once.
    """

    tools: LocalToolbox = field(default_factory=LocalToolbox)
    events: list[tuple[float, str, str]] = field(default_factory=list)
    live: int = 0
    peak: int = 0

    def add(self, *names: str, depends_on: Iterable[str] = (), timeout: float | None = None) -> None:
        """Add tools that take `seconds`, give their `tag`, and fail where `ok` is false."""

        async def timed(seconds: float = 1.0, tag: str = "", ok: bool = True) -> str:
            with self.noted(tag):
                await anyio.sleep(seconds)
                if not ok:
                    raise ValueError(f"{tag} failed")
                return tag

        for name in names:
            self.tools.add(timed, name=name, depends_on=depends_on, timeout=timeout)

    def noted(self, tag: str) -> "_Noted":
        """Note the start and the end of a call."""
        return _Noted(self, tag)

    def times(self, event: str) -> dict[str, float]:
        """The time of the last "start" or "end" of each tag."""
        return {tag: time for time, kind, tag in self.events if kind == event}

    @property
    def started(self) -> list[str]:
        """The tags in the order of their starts."""
        return [tag for _, kind, tag in self.events if kind == "start"]

    @asynccontextmanager
    async def client(self, **options: Any) -> AsyncGenerator[AsyncAIClient, None]:
        """An open client with these tools."""
        client = AsyncAIClient(
            [ScriptedProvider([])], local_toolbox=self.tools, **{"system_prompt": "", **options}
        )
        async with client:
            yield client

    async def run(self, *calls: ToolCallRequest, **options: Any) -> list[ToolCallOutcome]:
        """Run one batch on a new client, which must have all slots free at the end."""
        async with self.client(**options) as client:
            outcomes = await client.run_tool_calls(calls)
            assert_idle(client)
        return outcomes


class _Noted:
    def __init__(self, lab: Lab, tag: str) -> None:
        self._lab = lab
        self._tag = tag

    def __enter__(self) -> None:
        lab = self._lab
        lab.events.append((anyio.current_time(), "start", self._tag))
        lab.live += 1
        lab.peak = max(lab.peak, lab.live)

    def __exit__(self, *failure: object) -> None:
        self._lab.live -= 1
        self._lab.events.append((anyio.current_time(), "end", self._tag))


def assert_idle(client: AsyncAIClient) -> None:
    """Check that nothing runs or waits, and that every slot is free."""
    stats = client.stats()
    assert (stats.running, stats.waiting, stats.abandoned) == ({}, {}, {})
    assert stats.free_slots == stats.max_concurrency


def results(outcomes: Iterable[ToolCallOutcome]) -> list[str]:
    """The results, and the kinds of the errors in brackets."""
    return [
        outcome.result if isinstance(outcome, ToolCallResult) else f"[{outcome.kind}]" for outcome in outcomes
    ]


def error_of(outcome: ToolCallOutcome) -> ToolCallError:
    """Return the outcome, which has to be an error."""
    assert isinstance(outcome, ToolCallError), outcome
    return outcome
