"""What the model sees of a function, and what the function gets: schemas, validation, hidden parameters.

python docs/examples/local_tool_schemas.py [asyncio|trio]
"""

import json
import sys
from datetime import date
from typing import Annotated, Literal

import anyio
from pydantic import BaseModel, Field

from seqoria_runtime import HIDDEN, AsyncAIClient, LocalToolbox, ParameterRegistry
from seqoria_runtime.models import ToolCallRequest
from seqoria_runtime.testing import ScriptedProvider

tools = LocalToolbox()


class Guest(BaseModel):
    name: str
    age: int = Field(ge=0)


class Booking(BaseModel):
    reference: str
    day: date
    guests: int


@tools.tool()
async def book(
    day: date,
    guests: list[Guest],
    board: Literal["none", "half", "full"] = "none",
    *,
    user_id: Annotated[str, HIDDEN],
) -> Booking:
    """Book a room.

    Args:
        day: the day of arrival
        guests: everybody who will sleep there
    """
    assert isinstance(day, date)  # arguments have the declared types
    return Booking(reference=f"{user_id}-{board}", day=day, guests=len(guests))


@tools.tool(server_populated=["tenant"], timeout=2.0)
def rooms_left(tenant: str) -> int:
    """Return the number of free rooms."""
    return len(tenant)


# Trusted values come from here, or from the `context` of a request, which takes precedence.
registry = ParameterRegistry({"tenant": lambda user_id: f"tenant of {user_id}"})


def request(number: int, name: str, **arguments: object) -> ToolCallRequest:
    return ToolCallRequest(id=f"call-{number}", name=name, arguments=arguments)


async def main() -> None:
    for tool in tools.list_tools():
        print(f"{tool.name}: {tool.description}")
        print(json.dumps(tool.input_schema, indent=2), tool.annotations)

    guest = {"name": "Ines", "age": 41}
    requests = [
        request(1, "book", day="2027-05-01", guests=[guest], board="half"),
        request(2, "book", day="2027-05-01", guests=[{"name": "Ines", "age": -1}], board="deluxe"),
        request(3, "book", day="2027-05-01", guests=[guest], user_id="somebody-else"),
        request(4, "rooms_left"),
    ]
    provider = ScriptedProvider([])  # no model is asked here
    async with AsyncAIClient([provider], local_toolbox=tools, param_registry=registry) as client:
        for outcome in await client.run_tool_calls(requests, context={"user_id": "u-1"}):
            print(outcome.model_dump(include={"result", "error", "kind"}))

    [content] = await tools.call_tool("rooms_left", server_args={"tenant": "acme"})
    print("called directly:", content.text)


if __name__ == "__main__":
    anyio.run(main, backend=sys.argv[1] if len(sys.argv) > 1 else "asyncio")
