import contextvars
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.models import AssistantMessage, ToolCallRequest
from seqoria_runtime.providers import AsyncBaseProvider, ModelRequest, ProviderEvent
from seqoria_runtime.testing import call, calls, says
from seqoria_runtime.toolbox import LocalToolbox
from tests.support.talk import Talk, collect

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="none")

CALLS = [
    ToolCallRequest(id="c1", name="in_task"),
    ToolCallRequest(id="c2", name="in_thread"),
    ToolCallRequest(id="c3", name="hidden"),
]


def reading_tools() -> LocalToolbox:
    """Tools that return the variable as they see it, and then set it to something else."""
    tools = LocalToolbox()

    @tools.tool()
    async def in_task() -> str:
        await anyio.sleep(0.5)
        seen = request_id.get()
        request_id.set("set by in_task")
        await anyio.sleep(0.5)
        assert request_id.get() == "set by in_task"
        return seen

    @tools.tool()
    def in_thread() -> str:
        seen = request_id.get()
        request_id.set("set by in_thread")
        return seen

    @tools.tool(server_populated=["from_thread", "from_task"])
    async def hidden(from_thread: str, from_task: str) -> str:
        return f"{from_thread}, {from_task}, {request_id.get()}"

    return tools


def ask_in_thread() -> str:
    return request_id.get()


async def ask_in_task() -> str:
    await anyio.sleep(0.25)
    return request_id.get()


REGISTRY = {"from_thread": ask_in_thread, "from_task": ask_in_task}


def client_of(*script: Any) -> Talk:
    return Talk(*script, tools=reading_tools(), param_registry=REGISTRY)


BATCH = calls(call("in_task"), call("in_thread"), call("hidden"))


@pytest.mark.clause("C37")
@pytest.mark.case("D1")
async def test_every_reader_in_every_round_sees_the_variables_of_the_streams_creation() -> None:
    talk = client_of(BATCH, BATCH, says("done"))
    request_id.set("created")
    async with talk.client:
        turn = talk.client.chat("q", history=talk.history)
        request_id.set("consumed")
        events = await collect(turn)
    for messages in events[:2]:
        assert [outcome.result for outcome in messages[1::2]] == [
            "created",
            "created",
            "created, created, created",
        ]
    assert request_id.get() == "consumed"


@pytest.mark.clause("C37")
@pytest.mark.case("D1")
async def test_a_stream_that_another_task_consumes_keeps_the_variables_of_its_creation() -> None:
    talk = client_of()
    results: list[str] = []

    async def consume(stream: Any) -> None:
        request_id.set("consumer")
        results.extend([outcome.result async for _, outcome in stream])
        assert request_id.get() == "consumer"

    request_id.set("creator")
    async with talk.client, anyio.create_task_group() as group:
        group.start_soon(consume, talk.client.run_call_stream(CALLS))
        await anyio.sleep(5)
    assert sorted(results) == ["creator", "creator", "creator, creator, creator"]


@pytest.mark.clause("C37")
@pytest.mark.parametrize("batch", [CALLS[:1], CALLS[1:2], CALLS[2:], CALLS, CALLS * 3])
async def test_a_batch_sees_the_variables_of_its_caller_and_sets_none_of_them(
    batch: list[ToolCallRequest],
) -> None:
    talk = client_of()
    request_id.set("caller")
    async with talk.client:
        for outcome in await talk.client.run_tool_calls(batch):
            assert set(outcome.result.split(", ")) == {"caller"}  # type: ignore[union-attr]
    assert request_id.get() == "caller"


class Reading(AsyncBaseProvider):
    """A model that says what the variable is, and sets it."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ProviderEvent]:
        seen = request_id.get()
        request_id.set("set by the model")
        await anyio.sleep(0)
        yield AssistantMessage(content=seen)


@pytest.mark.clause("C37")
async def test_a_provider_sees_the_variables_of_the_streams_creation() -> None:
    request_id.set("created")
    async with AsyncAIClient([Reading()], system_prompt="") as client:
        streams: list[Any] = [
            client.chat("q", history=[]),
            client.stream_chat("q", history=[]),
            client.llm_stream_once([]),
        ]
        request_id.set("consumed")
        for stream in streams:
            [answer] = await collect(stream)
            assert answer.content == "created"
            assert request_id.get() == "consumed"


@pytest.mark.clause("C10")
@pytest.mark.parametrize("form", ["chat", "stream_chat"])
async def test_the_context_is_copied_at_the_call(form: str) -> None:
    talk = client_of(calls(call("hidden")), says("done"))
    context = {"from_thread": "trusted", "from_task": "trusted"}
    async with talk.client:
        turn = getattr(talk.client, form)("q", history=talk.history, context=context)
        context["from_thread"] = "changed"
        messages, *_ = [event for event in await collect(turn) if isinstance(event, list)]
    assert messages[1].result == "trusted, trusted, none"


class Handle:
    """An open resource, which cannot be copied."""

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("not to be copied")

    __copy__ = __reduce__ = __deepcopy__  # type: ignore[assignment]


def paying_tools(paid: list[Any]) -> LocalToolbox:
    tools = LocalToolbox()

    @tools.tool(server_populated=["user_id", "handle"])
    async def pay(amount: int, user_id: str, handle: Any = None) -> str:
        paid.append((amount, user_id, handle))
        return "paid"

    return tools


@pytest.mark.clause("C70", "C74")
@pytest.mark.case("D2")
@pytest.mark.parametrize("forged", [{}, {"user_id": "someone else"}, {"user_id": None, "handle": 3}])
async def test_a_hidden_parameter_gets_the_servers_value_whatever_the_model_sends(
    forged: dict[str, Any],
) -> None:
    paid: list[Any] = []
    handle = Handle()
    talk = Talk(calls(call("pay", amount=5, **forged)), says("done"), tools=paying_tools(paid))
    [messages, _] = await talk.chat(context={"user_id": "u1", "handle": handle})
    assert messages[1].result == "paid"
    assert paid == [(5, "u1", handle)]
    for request in talk.model.requests:
        [tool] = request.tools
        assert set(tool.parameters["properties"]) == {"amount"}
        assert "user_id" not in str(tool)


@pytest.mark.clause("C73", "C74")
@pytest.mark.case("D2")
async def test_a_models_value_never_stands_in_for_a_missing_one() -> None:
    paid: list[Any] = []
    forged = calls(call("pay", amount=5, user_id="someone else"), call("pay", amount=6, USER_ID="x"))
    talk = Talk(forged, says("done"), tools=paying_tools(paid))
    [messages, _] = await talk.chat()
    assert [outcome.kind for outcome in messages[1::2]] == ["missing_parameter", "invalid_arguments"]
    assert paid == []
    assert "someone else" not in messages[1].error


@pytest.mark.clause("C74")
async def test_allow_override_lets_the_models_value_stand() -> None:
    paid: list[Any] = []
    script = calls(call("pay", amount=5, user_id="chosen"))
    talk = Talk(script, says("done"), tools=paying_tools(paid), allow_override=True)
    await talk.chat(context={"user_id": "u1"})
    assert paid == [(5, "chosen", None)]
