"""Run seqoria_runtime through its public API, with the settings of any application."""

from collections.abc import AsyncGenerator

from benchmarks.worker.adapter import CAP, TIMEOUT, Adapter
from benchmarks.worker.dags import Dag
from benchmarks.worker.loop import Loop, Run
from benchmarks.worker.script import TEXT, Script
from benchmarks.worker.tools import TOOLS, step
from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.models import AssistantMessage, ChatChunk, ToolCallRequest, ToolCallRequestList
from seqoria_runtime.providers import (
    AsyncBaseProvider,
    AsyncOpenAICompatibleProvider,
    ModelRequest,
    ProviderEvent,
)
from seqoria_runtime.toolbox import LocalToolbox

DISTRIBUTIONS = ("seqoria-runtime", "httpx")


class ScriptedModel(AsyncBaseProvider):
    def __init__(self, script: Script) -> None:
        self._script = script

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        results = sum(message.role == "tool_result" for message in request.messages)
        calls = await self._script.answer(results)
        response_id = f"r{results}"
        if calls:
            yield ToolCallRequestList(
                tool_calls=[
                    ToolCallRequest(
                        id=call.id, name=call.name, arguments=dict(call.arguments), response_id=response_id
                    )
                    for call in calls
                ]
            )
        else:
            yield AssistantMessage(content=TEXT, response_id=response_id)


class RuntimeAdapter(Adapter):
    how_batches_run = "`client.run_tool_calls`"

    def __init__(self, loop: Loop, variant: str) -> None:
        super().__init__(loop, variant)
        self._clients: dict[int, AsyncAIClient] = {}
        self._tools = LocalToolbox()
        for function in TOOLS.values():
            self._tools.tool()(function)

    async def _client(self, cap: int) -> AsyncAIClient:
        if cap not in self._clients:
            client = AsyncAIClient(
                [ScriptedModel(Script(self.loop))],
                local_toolbox=self._tools,
                max_concurrency=cap,
                tool_timeout=TIMEOUT,
            )
            self._clients[cap] = await self.stack.enter_async_context(client)
        return self._clients[cap]

    async def batch(self, tool: str, count: int, cap: int | None = CAP) -> Run:
        client = await self._client(cap or count)
        requests = [ToolCallRequest(id=f"c{n}", name=tool, arguments={"a": n, "b": 2}) for n in range(count)]

        async def run() -> int:
            return len(await client.run_tool_calls(requests))

        return run

    async def dag(self, dag: Dag) -> Run:
        tools = LocalToolbox()
        for name, node in dag.nodes.items():
            tools.tool(name, depends_on=node.depends_on)(step(node.seconds))
        client = await self.stack.enter_async_context(
            AsyncAIClient(
                [ScriptedModel(Script(self.loop))],
                local_toolbox=tools,
                max_concurrency=CAP,
                tool_timeout=TIMEOUT,
            )
        )
        requests = [ToolCallRequest(id=name, name=name, arguments={"a": 1, "b": 2}) for name in dag.nodes]

        async def run() -> int:
            return len(await client.run_tool_calls(requests))

        return run

    async def turn(self, script: Script) -> Run:
        client = await self.stack.enter_async_context(
            AsyncAIClient(
                [ScriptedModel(script)],
                local_toolbox=self._tools,
                max_concurrency=CAP,
                tool_timeout=TIMEOUT,
                system_prompt="",
            )
        )

        async def run() -> int:
            seen = 0
            async with client.chat("Go on.", history=[]) as turn:
                async for event in turn:
                    seen += len(event) // 2 if isinstance(event, list) else 1
            return seen

        return run

    async def stream(self, url: str) -> Run:
        provider = await self.stack.enter_async_context(AsyncOpenAICompatibleProvider("m", base_url=url))
        client = await self.stack.enter_async_context(AsyncAIClient([provider], system_prompt=""))

        async def run() -> int:
            async with client.stream_chat("q", history=[]) as turn:
                return sum([1 async for event in turn if isinstance(event, ChatChunk)])

        return run


ADAPTER = RuntimeAdapter
