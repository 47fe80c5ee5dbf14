import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.models.errors import LLMError
from seqoria_runtime.testing import (
    Backend,
    InjectedError,
    Interruption,
    ScheduleFailure,
    ScriptedProvider,
    SwallowedCancellationError,
    TokenMismatch,
    call,
    calls,
    cancel_everywhere,
    fail_everywhere,
    replay_interruption,
    says,
)
from seqoria_runtime.toolbox import LocalToolbox

pytestmark = pytest.mark.clause("C120")

each_backend = pytest.mark.parametrize("backend", ["asyncio", "trio"])


class Ledger:
    """Open during an await; `careless` code leaves it open if it is cancelled there."""

    def __init__(self) -> None:
        self.open = 0

    async def careless(self) -> None:
        await checkpoint()
        self.open += 1
        await anyio.sleep(1)
        self.open -= 1
        await checkpoint()

    async def careful(self) -> None:
        await checkpoint()
        self.open += 1
        try:
            await anyio.sleep(1)
        finally:
            self.open -= 1

    def check(self) -> None:
        assert self.open == 0, f"open: {self.open}"


def scenario_of(use: Callable[[Ledger], Awaitable[None]]) -> Callable[[Interruption], Awaitable[None]]:
    async def scenario(interruption: Interruption) -> None:
        ledger = Ledger()
        async with interruption.region():
            await use(ledger)
        ledger.check()

    return scenario


careless = scenario_of(Ledger.careless)
careful = scenario_of(Ledger.careful)


@pytest.mark.parametrize(
    ("backend", "form"),
    [
        ("asyncio", "scope"),
        ("asyncio", "deadline"),
        ("asyncio", "native"),
        ("trio", "scope"),
        ("trio", "deadline"),
    ],
)
def test_what_does_not_survive_a_cancellation_at_one_point_is_found_there(
    backend: Backend, form: str
) -> None:
    with pytest.raises(ScheduleFailure, match=rf"{form} at .*AssertionError: open: 1") as caught:
        cancel_everywhere(careless, forms=[form], backend=backend)
    token = caught.value.token
    assert f"/{form}@" in token
    assert "checkpoint" not in str(caught.value)
    if form != "deadline":
        assert "as the scenario waited in Ledger.careless" in str(caught.value)
    with pytest.raises(AssertionError, match="open: 1"):
        replay_interruption(careless, token)


@each_backend
def test_what_survives_it_everywhere_is_covered(backend: Backend) -> None:
    coverage = cancel_everywhere(careful, backend=backend)
    assert coverage.points >= 2
    assert coverage.runs["scope"] == coverage.points
    assert coverage.runs["deadline"] == 2, "at the two times at which anything happens"
    assert coverage.missed["scope"] == 0
    assert ("native" in coverage.runs) is (backend == "asyncio")


@each_backend
def test_every_point_is_a_different_place_of_the_scenario(backend: Backend) -> None:
    reached: list[int] = []

    async def scenario(interruption: Interruption) -> None:
        done = 0
        async with interruption.region():
            for done in range(1, 6):  # noqa: B007 - how far it came is what is looked at
                await checkpoint()
        if interruption.fired:
            reached.append(done)

    cancel_everywhere(scenario, forms=["scope"], backend=backend)
    assert set(reached) == {1, 2, 3, 4, 5}


@each_backend
def test_a_scenario_without_a_parameter_is_interrupted_as_a_whole_and_then_checked(backend: Backend) -> None:
    ledger = Ledger()
    checks: list[str] = []

    async def scenario() -> None:
        ledger.open = 0
        await ledger.careless()

    async def asynchronous_check() -> None:
        await checkpoint()
        checks.append("asynchronous")

    with pytest.raises(ScheduleFailure, match="open: 1") as caught:
        cancel_everywhere(scenario, backend=backend, checks=[asynchronous_check, ledger.check])
    assert len(checks) > 3
    with pytest.raises(AssertionError, match="open: 1"):
        replay_interruption(scenario, caught.value.token, checks=[ledger.check])


@each_backend
def test_a_point_that_only_another_order_has_is_found_in_that_order(backend: Backend) -> None:
    async def scenario(interruption: Interruption) -> None:
        ledger = Ledger()
        first = False

        async def looks() -> None:
            if first:
                await ledger.careless()

        async def comes_first() -> None:
            nonlocal first
            first = True

        async with interruption.region(), anyio.create_task_group() as group:
            group.start_soon(looks)
            group.start_soon(comes_first)
        ledger.check()

    assert cancel_everywhere(scenario, forms=["scope"], backend=backend).points
    with pytest.raises(ScheduleFailure, match="open: 1") as caught:
        cancel_everywhere(scenario, forms=["scope"], backend=backend, schedules=12)
    assert "is passed over" in str(caught.value)
    with pytest.raises(AssertionError, match="open: 1"):
        replay_interruption(scenario, caught.value.token)


@each_backend
def test_an_action_that_takes_a_task_goes_next(backend: Backend) -> None:
    async def scenario(interruption: Interruption) -> None:
        acted = False
        beside: list[bool] = []

        async def act() -> None:
            nonlocal acted
            acted = True
            await checkpoint()

        async def busy() -> None:
            for _ in range(6):
                beside.append(interruption.fired and not acted)
                await checkpoint()

        interruption.on(act=act)
        async with interruption.region(), anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(busy)
        assert not any(beside)

    cancel_everywhere(scenario, forms=["act"], backend=backend)


@each_backend
def test_an_action_of_the_scenario_is_done_at_every_point(backend: Backend) -> None:
    ends: list[float] = []

    async def scenario(interruption: Interruption) -> None:
        close, closed = anyio.Event(), anyio.Event()

        async def closing() -> None:
            close.set()
            await closed.wait()
            for _ in range(5):
                await checkpoint()
            ends.append(anyio.current_time())

        interruption.on(close=closing)
        async with interruption.region():
            with anyio.move_on_after(1):
                await close.wait()
            await checkpoint()
        closed.set()

    coverage = cancel_everywhere(scenario, forms=["close"], backend=backend)
    assert coverage.missed["close"] == 0
    assert len(ends) == coverage.runs["close"] >= 2
    assert min(ends) == 0


@each_backend
def test_a_synchronous_action_is_called_between_two_tasks(backend: Backend) -> None:
    async def scenario(interruption: Interruption) -> None:
        async with interruption.region():
            with anyio.CancelScope() as scope:
                interruption.on(inner=scope.cancel)
                await anyio.sleep(1)
            await checkpoint()

    coverage = cancel_everywhere(scenario, forms=["inner"], backend=backend)
    assert coverage.runs["inner"] > coverage.missed["inner"]


@each_backend
def test_what_an_action_raises_is_a_failure_of_the_run(backend: Backend) -> None:
    async def broken() -> None:
        await checkpoint()
        raise ValueError("broken action")

    async def scenario(interruption: Interruption) -> None:
        interruption.on(break_it=broken)
        async with interruption.region():
            await anyio.sleep(1)

    with pytest.raises(ScheduleFailure, match="broken action"):
        cancel_everywhere(scenario, forms=["break_it"], backend=backend)


def test_a_form_that_the_scenario_does_not_name_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"names no action 'aclose': it has to call interruption.on\(aclose"):
        cancel_everywhere(careful, forms=["aclose"])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"forms": ["native"], "backend": "trio"}, "trio has none"),
        ({"forms": "scope"}, "'forms' must be a list"),
        ({"forms": []}, "'forms' must be a list"),
        ({"forms": ["fail"]}, "a form is one of"),
        ({"forms": ["no name"]}, "a form is one of"),
        ({"points": 0}, "'points' must be a positive integer"),
        ({"schedules": 0}, "'schedules' must be a positive integer"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        cancel_everywhere(careful, **options)


def test_a_native_cancellation_that_is_swallowed_is_told() -> None:
    async def scenario(interruption: Interruption) -> None:
        async with interruption.region():
            with suppress(BaseException):
                await anyio.sleep(1)
            await checkpoint()

    with pytest.raises(ScheduleFailure) as caught:
        cancel_everywhere(scenario, forms=["native"])
    assert isinstance(caught.value.error, SwallowedCancellationError)


def test_a_task_is_as_it_was_after_a_native_cancellation() -> None:
    async def scenario(interruption: Interruption) -> None:
        task = asyncio.current_task()
        assert task is not None
        async with interruption.region():
            await checkpoint()
        await checkpoint()
        assert task.cancelling() == 0

    assert cancel_everywhere(scenario, forms=["native"]).runs["native"] >= 1


@each_backend
def test_a_scenario_that_fails_by_itself_is_told_with_a_token(backend: Backend) -> None:
    async def scenario(interruption: Interruption) -> None:
        async with interruption.region():
            await checkpoint()
        raise ValueError("by itself")

    with pytest.raises(ScheduleFailure, match=r"uninterrupted, the scenario fails .* by itself") as caught:
        cancel_everywhere(scenario, backend=backend)
    with pytest.raises(ValueError, match="by itself"):
        replay_interruption(scenario, caught.value.token)


@each_backend
def test_points_can_be_bounded(backend: Backend) -> None:
    async def scenario() -> None:
        for _ in range(50):
            await checkpoint()

    assert cancel_everywhere(scenario, forms=["scope"], backend=backend, points=7).runs == {"scope": 7}


@each_backend
def test_failures_that_are_alike_are_told_once(backend: Backend) -> None:
    async def scenario(interruption: Interruption) -> None:
        async with interruption.region():
            for _ in range(20):
                await checkpoint()
        assert not interruption.fired

    with pytest.raises(ScheduleFailure, match=r"in 1 ways[\s\S]*more like it, at .*, \.\.\.") as caught:
        cancel_everywhere(scenario, forms=["scope"], backend=backend)
    assert len(caught.value.tokens) == 1


def test_a_token_of_another_scenario_is_told() -> None:
    with pytest.raises(TokenMismatch):
        replay_interruption(careful, "a1:50.0.3/scope@1")


@each_backend
def test_each_place_that_may_fail_fails_in_turn(backend: Backend) -> None:
    seen: list[tuple[str, str]] = []

    async def scenario(interruption: Interruption) -> None:
        @interruption.faulty
        async def fetch() -> str:
            await checkpoint()
            return "fetched"

        @interruption.faulty
        def parse(text: str) -> str:
            return text.upper()

        try:
            interruption.passing("the start")
            parse(await fetch())
        except (InjectedError, KeyError) as error:
            seen.append((type(error).__name__, interruption.passages[-1]))

    coverage = fail_everywhere(scenario, errors=[InjectedError, KeyError], backend=backend)
    places = ["the start", "fetch starts", "fetch ends", "parse starts", "parse ends"]
    assert seen == [(name, place) for name in ("InjectedError", "KeyError") for place in places]
    assert coverage.runs == {"fail": 5, "fail2": 5}
    assert coverage.missed == {"fail": 0, "fail2": 0}


@each_backend
def test_what_does_not_survive_a_failure_is_told_with_the_place_and_a_token(backend: Backend) -> None:
    async def scenario(interruption: Interruption) -> None:
        ledger = Ledger()
        with suppress(InjectedError):
            ledger.open += 1
            interruption.passing("the write")
            ledger.open -= 1
        ledger.check()

    with pytest.raises(ScheduleFailure, match=r"as it passed 'the write'.*open: 1") as caught:
        fail_everywhere(scenario, backend=backend)
    with pytest.raises(AssertionError, match="open: 1"):
        replay_interruption(scenario, caught.value.token)


@each_backend
def test_a_replayed_failure_is_made_by_the_same_of_several_errors(backend: Backend) -> None:
    async def scenario(interruption: Interruption) -> None:
        with suppress(KeyError):
            interruption.passing("here")

    with pytest.raises(ScheduleFailure) as caught:
        fail_everywhere(scenario, errors=[KeyError, OSError], backend=backend)
    with pytest.raises(OSError, match=r"^$"):
        replay_interruption(scenario, caught.value.token, errors=[KeyError, OSError])


@each_backend
def test_tools_and_models_of_a_turn_can_fail_everywhere(backend: Backend) -> None:
    histories: list[list[Any]] = []

    async def scenario(interruption: Interruption) -> None:
        tools = LocalToolbox()

        @tools.tool()
        @interruption.faulty
        async def fetch(page: int) -> str:
            await anyio.sleep(1)
            return f"page {page}"

        history: list[Any] = []
        model = ScriptedProvider([
            calls(call("fetch", page=1), call("fetch", page=2)),
            says("done", chunks=2),
        ])
        async with AsyncAIClient([interruption.provider(model)], local_toolbox=tools) as client:
            with suppress(InjectedError, LLMError):
                async with client.stream_chat("q", history=history) as turn:
                    async for _ in turn:
                        pass
        model.assert_closed()
        histories.append(history)

    coverage = fail_everywhere(scenario, errors=[InjectedError, lambda: LLMError("no")], backend=backend)
    assert coverage.runs["fail"] == coverage.runs["fail2"] > 10
    assert len({len(history) for history in histories}) >= 3
