"""agno: `Agent.arun` with a session for each turn; telemetry, which uses the network, is off."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from agno.agent import Agent
from agno.models.base import Model
from agno.models.openai import OpenAILike
from agno.models.response import ModelResponse
from agno.run.agent import RunContentEvent

from benchmarks.worker.adapter import CAP
from benchmarks.worker.by_turns import ByTurnsAdapter
from benchmarks.worker.loop import Run
from benchmarks.worker.script import TEXT, Script
from benchmarks.worker.tools import TOOLS

DISTRIBUTIONS = ("agno", "openai")


class ScriptedModel(Model):
    def __init__(self, script: Script) -> None:
        super().__init__(id="scripted")
        self._script = script

    def invoke(self, *_args: Any, **_options: Any) -> Any:
        raise NotImplementedError

    def invoke_stream(self, *_args: Any, **_options: Any) -> Any:
        raise NotImplementedError

    def ainvoke_stream(self, *_args: Any, **_options: Any) -> Any:
        raise NotImplementedError

    def _parse_provider_response(self, response: Any, **_options: Any) -> Any:
        return response

    def _parse_provider_response_delta(self, response: Any) -> Any:
        return response

    async def ainvoke(self, messages: Any, *_args: Any, **_options: Any) -> Any:
        results = sum(message.role == "tool" for message in messages)
        calls = await self._script.answer(results)
        requests = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.json}}
            for call in calls
        ]
        return ModelResponse(role="assistant", content=None if calls else TEXT, tool_calls=requests)


class AgnoAdapter(ByTurnsAdapter):
    cannot: Mapping[str, str] = {
        "dag": "has no order of calls",
        "cap": "has no cap on the calls of a response",
    }

    async def turn(self, script: Script, tool: str = "add", cap: int | None = CAP) -> Run:
        agent = Agent(model=ScriptedModel(script), tools=[TOOLS[tool]], telemetry=False)

        async def run() -> int:
            output = await agent.arun("Go on.", session_id=uuid4().hex)
            results = [message for message in output.messages if message.role == "tool"]
            return len(results) + (1 if output.content == TEXT else 0)

        return run

    async def stream(self, url: str) -> Run:
        agent = Agent(model=OpenAILike(id="m", base_url=url, api_key="none"), telemetry=False)

        async def run() -> int:
            events = agent.arun("q", stream=True, session_id=uuid4().hex)
            return sum([1 async for event in events if isinstance(event, RunContentEvent)])

        return run


ADAPTER = AgnoAdapter
