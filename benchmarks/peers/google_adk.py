"""google-adk: an `InMemoryRunner`, with a session for each turn that is deleted after it."""

from collections.abc import Mapping
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmCapabilities, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from benchmarks.worker.adapter import CAP
from benchmarks.worker.by_turns import ByTurnsAdapter
from benchmarks.worker.loop import Run
from benchmarks.worker.script import TEXT, Script
from benchmarks.worker.tools import TOOLS

DISTRIBUTIONS = ("google-adk", "google-genai")
# A warning is logged for each response without it.
USAGE = types.GenerateContentResponseUsageMetadata(
    prompt_token_count=1, candidates_token_count=1, total_token_count=2
)


class ScriptedModel(BaseLlm):
    script: Any

    @property
    def capabilities(self) -> Any:
        return LlmCapabilities()

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        results = sum(
            part.function_response is not None for content in llm_request.contents for part in content.parts
        )
        calls = await self.script.answer(results)
        parts = [
            types.Part(
                function_call=types.FunctionCall(id=call.id, name=call.name, args=dict(call.arguments))
            )
            for call in calls
        ]
        content = types.Content(role="model", parts=parts or [types.Part(text=TEXT)])
        yield LlmResponse(content=content, usage_metadata=USAGE)


class GoogleADKAdapter(ByTurnsAdapter):
    cannot: Mapping[str, str] = {
        "dag": "has no order of calls",
        "cap": "has no cap on the calls of a response",
        "stream": "reads Chat Completions through LiteLLM only, which is another library",
    }

    async def turn(self, script: Script, tool: str = "add", cap: int | None = CAP) -> Run:
        agent = LlmAgent(
            name="bench", model=ScriptedModel(model="scripted", script=script), tools=[TOOLS[tool]]
        )
        runner = await self.stack.enter_async_context(InMemoryRunner(agent, app_name="bench"))
        question = types.Content(role="user", parts=[types.Part(text="Go on.")])

        async def run() -> int:
            session = await runner.session_service.create_session(app_name="bench", user_id="u")
            seen = 0
            async for event in runner.run_async(user_id="u", session_id=session.id, new_message=question):
                for part in event.content.parts:
                    seen += part.function_response is not None or part.text is not None
            await runner.session_service.delete_session(app_name="bench", user_id="u", session_id=session.id)
            return seen

        return run


ADAPTER = GoogleADKAdapter
