"""openai-agents: `Runner.run` with a cap on function tools; tracing, which uses the network, is off."""

from collections.abc import Mapping
from typing import Any

from agents import (
    Agent,
    Model,
    ModelResponse,
    OpenAIChatCompletionsModel,
    RunConfig,
    Runner,
    ToolExecutionConfig,
    Usage,
    function_tool,
)
from openai import AsyncOpenAI
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from benchmarks.worker.adapter import CAP, TIMEOUT
from benchmarks.worker.by_turns import ByTurnsAdapter
from benchmarks.worker.loop import Run
from benchmarks.worker.script import TEXT, Script
from benchmarks.worker.tools import TOOLS

DISTRIBUTIONS = ("openai-agents", "openai")


class ScriptedModel(Model):
    def __init__(self, script: Script) -> None:
        self._script = script

    async def get_response(self, system_instructions: Any, input: Any, *_args: Any, **_options: Any) -> Any:
        results = 0
        if isinstance(input, list):
            results = sum(item.get("type") == "function_call_output" for item in input)
        calls = await self._script.answer(results)
        output: list[Any] = [
            ResponseFunctionToolCall(
                call_id=call.id, name=call.name, arguments=call.json, type="function_call"
            )
            for call in calls
        ]
        if not calls:
            text = ResponseOutputText(text=TEXT, type="output_text", annotations=[])
            output = [
                ResponseOutputMessage(
                    id="m", content=[text], role="assistant", status="completed", type="message"
                )
            ]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *_args: Any, **_options: Any) -> Any:
        raise NotImplementedError


class OpenAIAgentsAdapter(ByTurnsAdapter):
    cannot: Mapping[str, str] = {"dag": "has no order of calls"}

    async def turn(self, script: Script, tool: str = "add", cap: int | None = CAP) -> Run:
        tools: list[Any] = [function_tool(TOOLS[tool], timeout=TIMEOUT)]
        agent = Agent(name="bench", model=ScriptedModel(script), tools=tools)
        config = RunConfig(
            tracing_disabled=True, tool_execution=ToolExecutionConfig(max_function_tool_concurrency=cap)
        )

        async def run() -> int:
            result = await Runner.run(agent, "Go on.", run_config=config)
            return sum(
                item.type in {"tool_call_output_item", "message_output_item"} for item in result.new_items
            )

        return run

    async def stream(self, url: str) -> Run:
        client = AsyncOpenAI(base_url=url, api_key="none")
        agent = Agent(name="bench", model=OpenAIChatCompletionsModel("m", client))
        config = RunConfig(tracing_disabled=True)

        async def run() -> int:
            result = Runner.run_streamed(agent, "q", run_config=config)
            return sum([
                1
                async for event in result.stream_events()
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
            ])

        return run


ADAPTER = OpenAIAgentsAdapter
