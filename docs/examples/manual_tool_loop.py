"""A manual loop: ask the model, look at its calls, run them, record everything, ask again.

python docs/examples/manual_tool_loop.py [asyncio|trio]
"""

import sys
from typing import Any

import anyio

from seqoria_runtime import AsyncAIClient, LocalToolbox
from seqoria_runtime.models import (
    AssistantMessage,
    History,
    ToolCallError,
    ToolCallOutcome,
    ToolCallRequest,
    ToolCallRequestList,
)
from seqoria_runtime.testing import ScriptedProvider, call, calls, says

tools = LocalToolbox()


@tools.tool()
async def balance(account: str) -> int:
    """Tell the balance of an account."""
    return {"savings": 1200, "current": 80}[account]


@tools.tool(depends_on=["balance"])
async def transfer(source: str, target: str, amount: int) -> str:
    """Move money."""
    return f"moved {amount} from {source} to {target}"


model = ScriptedProvider([
    calls(
        call("balance", account="savings"),
        call("transfer", source="savings", target="current", amount=5000),
        call("transfer", source="savings", target="current", amount=100),
        text="I look at the balance first.",
    ),
    says("I moved 100; you did not approve 5000."),
])


def approved(request: ToolCallRequest) -> bool:
    return request.name != "transfer" or request.arguments["amount"] <= 1000


async def run_approved(client: AsyncAIClient, batch: ToolCallRequestList) -> list[ToolCallOutcome]:
    """Run the approved calls, and answer every other call with an error."""
    run = [request for request in batch.tool_calls if approved(request)]
    # By position and not by id: some servers give every call the same one.
    outcomes = iter(await client.run_tool_calls(run))
    return [
        next(outcomes)
        if approved(request)
        else ToolCallError(
            tool_call_id=request.id,
            name=request.name,
            error="The user did not approve of this call; it was not run.",
            kind="cancelled",
            response_id=request.response_id,
        )
        for request in batch.tool_calls
    ]


async def main() -> None:
    async with AsyncAIClient([model], local_toolbox=tools) as client:
        history: History = []
        question: str | None = "Move 5000, and then 100, to my current account."
        for _ in range(5):
            response = await client.llm_generate_once(history, append_user_message=question)
            question = None
            if isinstance(response, AssistantMessage):
                history.append(response)
                break
            outcomes = await run_approved(client, response)
            # In one step, so that the history never holds a call without its answer: first what came
            # with the calls, then each call and its outcome.
            pairs = zip(response.tool_calls, outcomes, strict=True)
            history.extend(filter(None, [response.message]))
            history.extend(message for pair in pairs for message in pair)
    for message in history:
        print(message if isinstance(message, dict) else f"{message.role}: {describe(message)}")


def describe(message: Any) -> str:
    for name in ("content", "result", "error"):
        if hasattr(message, name):
            return str(getattr(message, name))
    return f"{message.name}({message.arguments})"


if __name__ == "__main__":
    anyio.run(main, backend=sys.argv[1] if len(sys.argv) > 1 else "asyncio")
