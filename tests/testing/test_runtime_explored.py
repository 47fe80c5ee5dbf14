"""The runtime itself, in many orders of its tasks, and interrupted at every point."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.models.errors import LLMError, ProviderConnectionError
from seqoria_runtime.testing import (
    Backend,
    InjectedError,
    Interruption,
    ScriptedProvider,
    call,
    calls,
    cancel_everywhere,
    check_history,
    explore,
    fail_everywhere,
    no_leaks,
    says,
)
from seqoria_runtime.testing._clock.virtual_loop import VirtualLoop
from seqoria_runtime.testing._schedules.schedule import Strategy
from seqoria_runtime.toolbox import LocalToolbox
from tests.conftest import PROFILE
from tests.support.runtime_scenarios import ACTIONS, SCENARIOS

THOROUGH = PROFILE == "thorough"

pytestmark = pytest.mark.clause("C120")

each_backend = pytest.mark.parametrize("backend", ["asyncio", "trio"])
each_scenario = pytest.mark.parametrize("name", SCENARIOS)


@pytest.mark.clause("C18", "C22", "C31", "C43", "C44", "C45", "C46", "C48", "C49", "C51")
@each_scenario
@each_backend
@pytest.mark.parametrize("strategy", ["random", "pct"])
def test_a_scenario_holds_in_every_order_of_its_tasks(
    name: str, backend: Backend, strategy: Strategy
) -> None:
    schedules = {"random": 10_000 if THOROUGH else 25, "pct": 2_000 if THOROUGH else 10}[strategy]
    explored = explore(SCENARIOS[name], schedules=schedules, strategy=strategy, backend=backend, seed=1)
    assert explored.schedules == schedules
    assert explored.distinct > 3
    assert explored.loose == 0


@pytest.mark.clause("C18", "C31", "C33", "C40", "C44", "C49", "C51", "C53")
@each_scenario
@each_backend
def test_a_scenario_survives_every_kind_of_end_at_every_point(name: str, backend: Backend) -> None:
    forms = ["scope", "deadline", *(["native"] if backend == "asyncio" else []), *ACTIONS.get(name, [])]
    coverage = cancel_everywhere(
        SCENARIOS[name],
        forms=forms,
        backend=backend,
        schedules=20 if THOROUGH else 1,
        points=None if THOROUGH else 15,
    )
    assert all(coverage.runs[form] > coverage.missed[form] for form in forms)


@pytest.mark.clause("C18", "C20", "C42", "C73")
@each_backend
def test_a_turn_survives_the_failure_of_any_of_its_parts(backend: Backend) -> None:
    async def scenario(interruption: Interruption) -> None:
        tools = LocalToolbox()

        @tools.tool()
        @interruption.faulty
        async def fetch(page: int) -> str:
            await anyio.sleep(page)
            return f"page {page}"

        @tools.tool(depends_on=["fetch"])
        @interruption.faulty
        def count() -> int:
            return 2

        model = ScriptedProvider([
            calls(call("fetch", page=1), call("fetch", page=2), call("count"), text="let me see"),
            says("done", chunks=2),
        ])
        history: list[Any] = []
        async with AsyncAIClient([interruption.provider(model)], local_toolbox=tools) as client:
            with no_leaks(client, providers=[model]):
                async with interruption.region():
                    with suppress(InjectedError, LLMError):
                        async with client.stream_chat("q", history=history) as turn:
                            async for _ in turn:
                                pass
            check_history(history)
        if not interruption.fired:
            assert len(history) == 10

    errors: list[Callable[[], Exception]] = [InjectedError, lambda: ProviderConnectionError("gone")]
    coverage = fail_everywhere(scenario, errors=errors, backend=backend, schedules=20 if THOROUGH else 2)
    assert min(coverage.runs.values()) > 20


@pytest.mark.clause("C6", "C51")
@each_scenario
def test_a_scenario_holds_where_the_application_starts_asyncio_itself(name: str) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(_awaited(name))


async def _awaited(name: str) -> None:
    await SCENARIOS[name]()
