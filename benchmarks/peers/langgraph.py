"""langgraph: batches by a graph of one `ToolNode`, turns by the usual loop of a model and a `ToolNode`."""

from collections.abc import Mapping
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from benchmarks.worker.adapter import CAP, Adapter
from benchmarks.worker.dags import Dag
from benchmarks.worker.loop import Run
from benchmarks.worker.script import TEXT, Script
from benchmarks.worker.tools import TOOLS, Function, step

DISTRIBUTIONS = ("langgraph", "langgraph-prebuilt", "langchain-core", "langchain-openai", "openai")


class ScriptedModel(BaseChatModel):
    script: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, *_args: Any, **_options: Any) -> Any:
        raise NotImplementedError

    async def _agenerate(self, messages: Any, *_args: Any, **_options: Any) -> Any:
        results = sum(message.type == "tool" for message in messages)
        calls = await self.script.answer(results)
        requests = [_request(call.id, call.name, dict(call.arguments)) for call in calls]
        message = AIMessage(content="" if calls else TEXT, tool_calls=requests)
        return ChatResult(generations=[ChatGeneration(message=message)])


def _request(key: str, name: str, arguments: dict[str, int]) -> Any:
    return {"id": key, "name": name, "args": arguments, "type": "tool_call"}


def _tool(function: Function, name: str | None = None) -> Any:
    return StructuredTool.from_function(coroutine=function, name=name)


def _node_graph(tools: list[Any]) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    return graph.compile()


def _loop_graph(model: Any, tools: list[Any]) -> Any:
    async def ask(state: Any) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", ask)
    graph.add_edge(START, "model")
    if tools:
        graph.add_node("tools", ToolNode(tools))
        graph.add_conditional_edges("model", tools_condition)
        graph.add_edge("tools", "model")
    return graph.compile()


class LangGraphAdapter(Adapter):
    how_batches_run = "a compiled graph of one `ToolNode`"
    cannot: Mapping[str, str] = {"cap": "`ToolNode` has no cap on the calls of a message"}

    async def batch(self, tool: str, count: int, cap: int | None = CAP) -> Run:
        graph = _node_graph([_tool(TOOLS[tool])])
        calls = [_request(f"c{n}", tool, {"a": n, "b": 2}) for n in range(count)]

        async def run() -> int:
            state = await graph.ainvoke({"messages": [AIMessage(content="", tool_calls=calls)]})
            return len(state["messages"]) - 1

        return run

    async def dag(self, dag: Dag) -> Run:
        """It has no order of calls, so the application drives it layer by layer.

        Nor do its calls need a tool each: one for each duration is enough, and cheaper.
        """
        names = {
            seconds: f"step{n}" for n, seconds in enumerate({node.seconds for node in dag.nodes.values()})
        }
        graph = _node_graph([_tool(step(seconds), name) for seconds, name in names.items()])
        layers = [
            [_request(name, names[dag.nodes[name].seconds], {"a": 1, "b": 2}) for name in layer]
            for layer in dag.layers()
        ]

        async def run() -> int:
            done = 0
            for calls in layers:
                state = await graph.ainvoke({"messages": [AIMessage(content="", tool_calls=calls)]})
                done += len(state["messages"]) - 1
            return done

        return run

    async def turn(self, script: Script) -> Run:
        graph = _loop_graph(ScriptedModel(script=script), [_tool(TOOLS["add"])])

        async def run() -> int:
            state = await graph.ainvoke({"messages": [HumanMessage("Go on.")]})
            return sum(
                message.type == "tool" or (message.type == "ai" and not message.tool_calls)
                for message in state["messages"]
            )

        return run

    async def stream(self, url: str) -> Run:
        graph = _loop_graph(ChatOpenAI(model="m", base_url=url, api_key="none"), [])

        async def run() -> int:
            question = {"messages": [HumanMessage("q")]}
            return sum([
                1
                async for chunk, _ in graph.astream(question, stream_mode="messages")
                if isinstance(chunk, AIMessageChunk) and chunk.content
            ])

        return run


ADAPTER = LangGraphAdapter
