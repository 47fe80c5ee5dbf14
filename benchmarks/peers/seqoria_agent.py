"""seqoria-agent: a client with a cap, a timeout and tools that run after others, layer by layer."""

from typing import Any

from seqoria_agent.client import AsyncAIClient
from seqoria_agent.models import ChatChunk, ToolCallRequest
from seqoria_agent.providers import AsyncBaseProvider, AsyncOpenAICompatibleProvider
from seqoria_agent.providers.schemas import LLMResponse, ToolCall, ToolCallList
from seqoria_agent.toolbox import LocalToolbox

from benchmarks.worker.adapter import CAP, TIMEOUT, Adapter
from benchmarks.worker.dags import Dag
from benchmarks.worker.loop import Loop, Run
from benchmarks.worker.script import TEXT, Script
from benchmarks.worker.tools import TOOLS, step

DISTRIBUTIONS = ("seqoria-agent", "httpx")


class ScriptedModel(AsyncBaseProvider):
    def __init__(self, script: Script) -> None:
        super().__init__(model_id="m")
        self._script = script

    async def async_generate(self, chat_history: Any, *_args: Any, **_options: Any) -> Any:
        results = sum(_role(message) == "tool_result" for message in chat_history)
        if calls := await self._script.answer(results):
            requests = [
                ToolCall(id=call.id, function_name=call.name, arguments=dict(call.arguments))
                for call in calls
            ]
            return ToolCallList(model_id="m", tool_calls=requests, usage=None)
        return LLMResponse(model_id="m", type="llm_response", text=TEXT)

    def async_stream(self, *_args: Any, **_options: Any) -> Any:
        raise NotImplementedError


def _role(message: Any) -> str:
    return str(message["role"] if isinstance(message, dict) else message.role)


class SeqoriaAgentAdapter(Adapter):
    how_batches_run = "`client.run_tool_calls`"

    def __init__(self, loop: Loop, variant: str) -> None:
        super().__init__(loop, variant)
        self._clients: dict[int, Any] = {}
        self._tools = LocalToolbox()
        for function in TOOLS.values():
            self._tools.tool()(function)

    async def _enter(self, tools: Any, script: Script, cap: int = CAP) -> Any:
        client = AsyncAIClient(
            [ScriptedModel(script)],
            local_toolbox=tools,
            max_concurrency=cap,
            tool_timeout=TIMEOUT,
            system_prompt="",
        )
        return await self.stack.enter_async_context(client)

    async def batch(self, tool: str, count: int, cap: int | None = CAP) -> Run:
        size = cap or count
        if size not in self._clients:
            self._clients[size] = await self._enter(self._tools, Script(self.loop), size)
        return _running(self._clients[size], [(f"c{n}", tool, n) for n in range(count)])

    async def dag(self, dag: Dag) -> Run:
        tools = LocalToolbox()
        for name, node in dag.nodes.items():
            tools.tool(name, depends_on=list(node.depends_on))(step(node.seconds))
        client = await self._enter(tools, Script(self.loop))
        return _running(client, [(name, name, 1) for name in dag.nodes])

    async def turn(self, script: Script) -> Run:
        client = await self._enter(self._tools, script)

        async def run() -> int:
            seen = 0
            async for event in client.chat("Go on.", []):
                seen += len(event) // 2 if isinstance(event, list) else 1
            return seen

        return run

    async def stream(self, url: str) -> Run:
        provider = AsyncOpenAICompatibleProvider(model_id="m", base_url=url, api_key="none")
        self.stack.push_async_callback(provider.aclose)
        client = await self.stack.enter_async_context(AsyncAIClient([provider], system_prompt=""))

        async def run() -> int:
            return sum([1 async for event in client.stream_chat("q", []) if isinstance(event, ChatChunk)])

        return run


def _running(client: Any, calls: list[tuple[str, str, int]]) -> Run:
    requests = [ToolCallRequest(id=key, name=name, arguments={"a": a, "b": 2}) for key, name, a in calls]

    async def run() -> int:
        return len(await client.run_tool_calls(requests))

    return run


ADAPTER = SeqoriaAgentAdapter
