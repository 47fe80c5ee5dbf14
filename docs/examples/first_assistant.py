"""A first assistant, offline: two turns of one conversation, stored as JSON in between.

python docs/examples/first_assistant.py [asyncio|trio]
"""

import json
import sys
from typing import Any

import anyio

from seqoria_runtime import AsyncAIClient, LocalToolbox
from seqoria_runtime.models import (
    AssistantMessage,
    ChatChunk,
    ToolCallError,
    ToolCallResult,
    ToolMessages,
    ToolOutcome,
)
from seqoria_runtime.testing import ScriptedProvider, call, calls, says

tools = LocalToolbox()


@tools.tool()
async def temperature(city: str) -> float:
    """Tell the temperature in a city, in degrees Celsius."""
    await anyio.sleep(0.1)
    return {"Oslo": 3.5, "Rome": 17.0}[city]


@tools.tool(depends_on=["temperature"])
def packing_list(days: int) -> list[str]:
    """Say what to pack. A plain function like this one runs in a worker thread."""
    return [f"{days} shirts", "a coat"]


# A scripted model stands in for a real one; see the quickstart for one behind a URL.
model = ScriptedProvider([
    calls(
        call("temperature", city="Oslo"),
        call("temperature", city="Atlantis"),
        call("packing_list", days=3),
        text="Let me see. ",
        chunks=2,
    ),
    says("Oslo has 3.5 degrees: take a coat. I could not find Atlantis.", chunks=8),
    says("You asked about Oslo and Atlantis.", chunks=3),
])


async def ask(client: AsyncAIClient, history: list[Any], question: str) -> None:
    print(f"\nuser: {question}")
    async with client.stream_chat(question, history=history, tool_events=True) as turn:
        async for event in turn:
            match event:
                case ChatChunk():  # a piece of text, as it arrives
                    print(event.content, end="", flush=True)
                case ToolOutcome(request, ToolCallResult(result=result)):  # a call has settled
                    print(f"\n  {request.name}: {result}", end="")
                case ToolOutcome(request, ToolCallError(error=error)):  # this one failed
                    print(f"\n  {request.name}: {error}", end="")
                case ToolMessages():  # the round is over, and in the history
                    print(f"\n  {len(event) // 2} calls settled")
                case AssistantMessage():  # the end of the turn; its text has already arrived in pieces
                    print()


def dumped(message: Any) -> dict[str, Any]:
    return message if isinstance(message, dict) else message.model_dump(mode="json")


async def main() -> None:
    async with AsyncAIClient([model], local_toolbox=tools) as client:
        history: list[Any] = []  # the application's list; the client appends to it
        await ask(client, history, "What shall I pack for Oslo, or for Atlantis?")

        stored = json.dumps([dumped(message) for message in history])
        history = json.loads(stored)
        await ask(client, history, "Which cities did I ask about?")
    print(f"\n{len(history)} messages in the history")


if __name__ == "__main__":
    anyio.run(main, backend=sys.argv[1] if len(sys.argv) > 1 else "asyncio")
