"""strands-agents: an `Agent` is one conversation, so each turn makes its own; printing is off."""

from collections.abc import Mapping
from typing import Any

from strands import Agent
from strands import tool as as_tool
from strands.models import Model
from strands.models.openai import OpenAIModel

from benchmarks.worker.adapter import CAP
from benchmarks.worker.by_turns import ByTurnsAdapter
from benchmarks.worker.loop import Run
from benchmarks.worker.script import TEXT, Script
from benchmarks.worker.tools import TOOLS

DISTRIBUTIONS = ("strands-agents", "openai")


class ScriptedModel(Model):
    def __init__(self, script: Script) -> None:
        self._script = script

    def update_config(self, **_config: Any) -> None:
        pass

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *_args: Any, **_options: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *_args: Any, **_options: Any) -> Any:
        results = sum("toolResult" in block for message in messages for block in message["content"])
        calls = await self._script.answer(results)
        yield {"messageStart": {"role": "assistant"}}
        for call in calls:
            yield {"contentBlockStart": {"start": {"toolUse": {"name": call.name, "toolUseId": call.id}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": call.json}}}}
            yield {"contentBlockStop": {}}
        if not calls:
            yield {"contentBlockDelta": {"delta": {"text": TEXT}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}


class StrandsAdapter(ByTurnsAdapter):
    cannot: Mapping[str, str] = {
        "dag": "has no order of calls",
        "cap": "its concurrent executor has no cap",
    }

    async def turn(self, script: Script, tool: str = "add", cap: int | None = CAP) -> Run:
        model, tools = ScriptedModel(script), [as_tool(TOOLS[tool])]

        async def run() -> int:
            agent = Agent(model=model, tools=tools, callback_handler=None)
            await agent.invoke_async("Go on.")
            blocks = [block for message in agent.messages for block in message["content"]]
            return sum("toolResult" in block for block in blocks) + ("text" in blocks[-1])

        return run

    async def stream(self, url: str) -> Run:
        model = OpenAIModel(client_args={"base_url": url, "api_key": "none"}, model_id="m")

        async def run() -> int:
            agent = Agent(model=model, callback_handler=None)
            return sum([1 async for event in agent.stream_async("q") if "data" in event])

        return run


ADAPTER = StrandsAdapter
