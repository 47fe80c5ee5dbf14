"""pydantic-ai: `Agent.run` with a tool timeout; all calls of a response run at once."""

from collections.abc import Mapping
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from benchmarks.worker.adapter import CAP, TIMEOUT
from benchmarks.worker.by_turns import ByTurnsAdapter
from benchmarks.worker.loop import Run
from benchmarks.worker.script import TEXT, Script
from benchmarks.worker.tools import TOOLS

DISTRIBUTIONS = ("pydantic-ai-slim", "openai")


class ScriptedModel(Model):
    model_name = "scripted"
    system = "bench"

    def __init__(self, script: Script) -> None:
        super().__init__()
        self._script = script

    async def request(self, messages: Any, *_args: Any, **_options: Any) -> Any:
        results = sum(part.part_kind == "tool-return" for message in messages for part in message.parts)
        calls = await self._script.answer(results)
        parts: list[Any] = [
            ToolCallPart(call.name, dict(call.arguments), tool_call_id=call.id) for call in calls
        ]
        return ModelResponse(parts=parts or [TextPart(TEXT)])


class PydanticAIAdapter(ByTurnsAdapter):
    cannot: Mapping[str, str] = {
        "dag": "has no order of calls",
        "cap": "has no cap on the calls of a response",
    }

    async def turn(self, script: Script, tool: str = "add", cap: int | None = CAP) -> Run:
        agent = Agent(ScriptedModel(script), tools=[TOOLS[tool]], tool_timeout=TIMEOUT)

        async def run() -> int:
            result = await agent.run("Go on.")
            parts = [part.part_kind for message in result.all_messages() for part in message.parts]
            return parts.count("tool-return") + parts.count("text")

        return run

    async def stream(self, url: str) -> Run:
        agent = Agent(OpenAIChatModel("m", provider=OpenAIProvider(base_url=url, api_key="none")))

        async def run() -> int:
            async with agent.run_stream("q") as result:
                return sum([1 async for _ in result.stream_text(delta=True, debounce_by=None)])

        return run


ADAPTER = PydanticAIAdapter
