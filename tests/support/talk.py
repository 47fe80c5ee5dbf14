"""A conversation under test: a client with a scripted model and recording tools, and one history."""

from collections.abc import AsyncIterable
from typing import Any

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.testing import ScriptedProvider
from seqoria_runtime.toolbox import LocalToolbox

from .tools import Deeds, recording_toolbox


class Talk:
    """`script` has the replies in order. There is no system prompt by default."""

    def __init__(self, *script: Any, tools: LocalToolbox | None = None, **options: Any) -> None:
        self.deeds = Deeds()
        self.model = ScriptedProvider(script)
        self.history: list[Any] = []
        self.client = AsyncAIClient(
            [self.model],
            local_toolbox=recording_toolbox(self.deeds) if tools is None else tools,
            **{"system_prompt": "", **options},
        )

    async def chat(self, query: str = "q", **options: Any) -> list[Any]:
        """Return all events of a turn, on a client that is open only for it."""
        async with self.client, self.client.chat(query, history=self.history, **options) as turn:
            return [event async for event in turn]

    async def stream(self, query: str = "q", **options: Any) -> list[Any]:
        async with self.client, self.client.stream_chat(query, history=self.history, **options) as turn:
            return [event async for event in turn]

    @property
    def roles(self) -> list[str]:
        return [item["role"] if isinstance(item, dict) else item.role for item in self.history]


async def collect(stream: AsyncIterable[Any], seen: list[Any] | None = None) -> list[Any]:
    """Read a stream to its end or its failure; the events go into `seen`."""
    events = [] if seen is None else seen
    async for event in stream:
        events.append(event)
    return events
