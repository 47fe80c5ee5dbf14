"""The context variables of a batch's caller, and who sees what a call sets."""

from contextvars import ContextVar
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest
from pydantic import BaseModel, model_serializer

from seqoria_runtime.client.parameters import ParameterRegistry
from tests.support.batches import Lab, request, results

pytestmark = [pytest.mark.clause("C37"), pytest.mark.case("D1")]

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


class Reading(Lab):
    """A lab whose tools tell the tenant that they see, each from another place."""

    def __init__(self) -> None:
        super().__init__()
        self.add("work")
        tools = self.tools

        @tools.tool()
        async def in_call() -> str:
            return tenant.get()

        @tools.tool()
        async def after_a_wait() -> str:
            await anyio.sleep(1)
            return tenant.get()

        @tools.tool()
        def in_thread() -> str:
            return tenant.get()

        @tools.tool()
        async def in_a_thread_of_its_own() -> str:
            return await anyio.to_thread.run_sync(tenant.get)

        @tools.tool()
        def back_from_a_thread() -> str:
            return anyio.from_thread.run_sync(tenant.get)

        @tools.tool()
        async def in_a_child() -> str:
            seen: list[str] = []

            async def look() -> None:
                seen.append(tenant.get())

            async with anyio.create_task_group() as group:
                group.start_soon(look)
            return seen[0]

        @tools.tool(server_populated=["owner"])
        async def by_sync_callback(owner: str) -> str:
            return owner

        @tools.tool(server_populated=["reader"])
        async def by_async_callback(reader: str) -> str:
            return reader

        @tools.tool()
        async def in_serializer() -> Any:
            await anyio.sleep(1)
            return Tenant()

        @tools.tool()
        async def in_cleanup() -> str:
            try:
                await anyio.sleep(1)
            finally:
                seen = tenant.get()
            return seen

    @property
    def readers(self) -> list[str]:
        return [tool.name for tool in self.tools.tools if tool.name not in {"work"}]

    @property
    def options(self) -> dict[str, Any]:
        async def reader() -> str:
            await anyio.sleep(0)
            return tenant.get()

        return {"param_registry": ParameterRegistry({"owner": lambda: tenant.get(), "reader": reader})}


class Tenant(BaseModel):
    @model_serializer
    def read(self) -> str:
        return tenant.get()


@pytest.fixture
def lab() -> Reading:
    return Reading()


@pytest.mark.parametrize("limit", [1, 3, 16])
async def test_every_place_in_a_call_sees_the_callers_value(lab: Reading, limit: int) -> None:
    tenant.set("t1")
    outcomes = await lab.run(
        *(request(name) for name in lab.readers), **lab.options, max_concurrency=limit, tool_timeout=5
    )
    assert [text.strip('"') for text in results(outcomes)] == ["t1"] * len(lab.readers)


@pytest.mark.parametrize("limit", [1, 2])
async def test_turns_that_hand_slots_to_each_other_see_their_own_values_everywhere(
    lab: Reading, limit: int
) -> None:
    seen: dict[str, list[str]] = {}

    async def run(name: str) -> None:
        tenant.set(name)
        outcomes = await client.run_tool_calls([request(reader) for reader in lab.readers])
        seen[name] = [text.strip('"') for text in results(outcomes)]

    opening = lab.client(max_concurrency=limit, **lab.options)
    async with opening as client, anyio.create_task_group() as group:
        for name in "abc":
            group.start_soon(run, name)
    assert seen == {name: [name] * len(lab.readers) for name in "abc"}


async def test_what_a_call_sets_is_seen_by_no_sibling_and_not_by_the_caller(lab: Reading) -> None:
    @lab.tools.tool()
    async def set_it(value: str) -> str:
        before = tenant.get()
        tenant.set(value)
        await anyio.sleep(1)
        return f"{before}, then {tenant.get()}"

    @lab.tools.tool()
    def set_it_in_thread(value: str) -> str:
        before = tenant.get()
        tenant.set(value)
        return f"{before}, then {tenant.get()}"

    tenant.set("t1")
    for limit in (1, 2, 16):
        calls = [
            *(request("set_it", value=value) for value in "ab"),
            *(request("set_it_in_thread", value=value) for value in "cd"),
            request("in_call"),
        ]
        outcomes = await lab.run(*calls, max_concurrency=limit)
        assert results(outcomes) == [*(f"t1, then {value}" for value in "abcd"), "t1"]
        assert tenant.get() == "t1"


async def test_what_a_callback_sets_is_seen_by_its_own_call_alone(lab: Reading) -> None:
    async def set_it() -> str:
        tenant.set("the callback's")
        return "value"

    @lab.tools.tool(server_populated=["secret"])
    async def look(secret: str) -> str:
        return tenant.get()

    registry = ParameterRegistry({"secret": set_it})
    outcomes = await lab.run(request("look"), request("in_call"), param_registry=registry, max_concurrency=1)
    assert results(outcomes) == ["the callback's", "nobody"]


async def test_a_call_stream_has_the_values_of_its_creation_and_not_of_its_consumer(lab: Reading) -> None:
    seen: list[str] = []

    async def consume(stream: Any) -> None:
        tenant.set("the consumer's")
        async with stream:
            seen.extend([
                text for _, outcome in [pair async for pair in stream] for text in results([outcome])
            ])

    async with lab.client() as client:
        tenant.set("the creator's")
        stream = client.run_call_stream([request("in_call"), request("in_thread")])
        tenant.set("later")
        async with anyio.create_task_group() as group:
            group.start_soon(consume, stream)
    assert seen == ["the creator's"] * 2


@pytest.mark.parametrize("reader", ["in_call", "in_thread", "by_async_callback"])
async def test_a_batch_has_the_values_of_its_call_however_late_it_is_awaited(
    lab: Reading, reader: str
) -> None:
    async with lab.client(**lab.options) as client:
        tenant.set("the caller's")
        batch = client.run_tool_calls([request(reader)])
        tenant.set("later")
        assert results(await batch) == ["the caller's"]


@pytest.mark.parametrize("reader", ["in_call", "in_thread"])
async def test_nested_calls_see_what_their_parent_has_set(lab: Reading, reader: str) -> None:
    @lab.tools.tool()
    async def parent() -> str:
        tenant.set("the parent's")
        return results(await client.run_tool_calls([request(reader)]))[0]

    async with lab.client() as client:
        outcomes = await client.run_tool_calls([request("parent"), request(reader)])
    assert results(outcomes) == ["the parent's", "nobody"]
