"""A custom provider: a "model" that runs in this process and needs no network.

python docs/examples/custom_provider.py [asyncio|trio]
"""

import re
import sys
from collections.abc import AsyncGenerator, Iterator
from typing import Any
from uuid import uuid4

import anyio
import anyio.lowlevel

from seqoria_runtime import AsyncAIClient, LocalToolbox
from seqoria_runtime.models import (
    AssistantMessage,
    ChatChunk,
    LLMUsage,
    ToolCallRequest,
    ToolCallRequestList,
    ToolCallResult,
    ToolCallStarted,
    ToolMessages,
    UserMessage,
)
from seqoria_runtime.models.errors import InvalidRequestError
from seqoria_runtime.providers import AsyncBaseProvider, ModelRequest, ProviderEvent


class AddingModel(AsyncBaseProvider):
    """Lets the tool `add` add up the numbers of a question, and then answers with the sum."""

    @property
    def name(self) -> str:
        return "adding-model"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        last = request.messages[-1]
        if isinstance(last, ToolCallResult):
            for event in said(f"That makes {last.result}."):
                await anyio.lowlevel.checkpoint()
                yield event
            return
        numbers = re.findall(r"\d+", str(last.content)) if isinstance(last, UserMessage) else []
        if not numbers:
            # An LLMError may be answered by the next provider; any other exception counts as a bug.
            raise InvalidRequestError("there are no numbers in the question", provider=self.name)
        response_id = uuid4().hex
        yield ChatChunk(content="I add them up. ")
        yield ToolCallStarted("add")
        yield ToolCallRequestList(
            # Everything in one response has the same id; the text that comes with the calls is its message.
            message=AssistantMessage(content="I add them up. ", response_id=response_id),
            tool_calls=[
                ToolCallRequest(
                    id=f"call_{uuid4().hex}",
                    name="add",
                    arguments={"numbers": [int(number) for number in numbers]},
                    response_id=response_id,
                )
            ],
        )


def said(text: str) -> Iterator[ProviderEvent]:
    """Yield an answer word by word, and then whole."""
    words = re.findall(r"\S+\s*", text)
    yield from (ChatChunk(content=word) for word in words)
    usage = LLMUsage(prompt_tokens=1, completion_tokens=len(words), total_tokens=1 + len(words))
    yield AssistantMessage(content=text, usage=usage, finish_reason="stop", response_id=uuid4().hex)


tools = LocalToolbox()


@tools.tool()
def add(numbers: list[int]) -> int:
    """Add numbers."""
    return sum(numbers)


async def main() -> None:
    history: list[Any] = []
    async with (
        AsyncAIClient([AddingModel()], local_toolbox=tools) as client,
        client.stream_chat("What are 19, 20 and 3 together?", history=history) as turn,
    ):
        async for event in turn:
            if isinstance(event, ChatChunk):
                print(event.content, end="", flush=True)
            elif isinstance(event, ToolMessages):
                print(f"[{len(event) // 2} call] ", end="")
    print()


if __name__ == "__main__":
    anyio.run(main, backend=sys.argv[1] if len(sys.argv) > 1 else "asyncio")
