from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, precondition, run_state_machine_as_test

from seqoria_runtime._execution.places.places import Places
from seqoria_runtime._execution.places.pool import Place
from seqoria_runtime.mcp._server_set import ServerSet
from seqoria_runtime.testing import Backend, FixedSchedule, InvariantError, VirtualTimeDeadlock
from seqoria_runtime.testing.mcp import ScriptedMCPServer
from seqoria_runtime.testing.stateful import (
    AsyncRuleBasedStateMachine,
    ClientMachine,
    initialize,
    invariant,
    rule,
)
from seqoria_runtime.testing.tools import ScriptedTool, ToolDag, sleeps
from seqoria_runtime.toolbox import LocalToolbox
from tests.conftest import PROFILE
from tests.testing.seeded_faults import batches, turns

pytestmark = pytest.mark.clause("C120")

each_backend = pytest.mark.parametrize("backend", ["asyncio", "trio"])

QUICK = settings(max_examples=30, stateful_step_count=10, database=None, deadline=None)
ONE = settings(QUICK, max_examples=1, phases=[Phase.generate])


class Sleepers(AsyncRuleBasedStateMachine):
    """Sleeps in rules and between them; time passes only in rules."""

    async def start(self) -> None:
        self.task = anyio.get_current_task().id
        self.slept = 0.0
        self.woken = 0
        self.group = await anyio.create_task_group().__aenter__()

    async def stop(self) -> None:
        assert anyio.get_current_task().id == self.task
        await self.group.__aexit__(None, None, None)

    sleepers: Bundle[int] = Bundle("sleepers")

    @initialize()
    async def begin_at_zero(self) -> None:
        assert anyio.current_time() == 0

    @rule(target=sleepers, seconds=st.integers(0, 5))
    async def sleep(self, seconds: int) -> int:
        await anyio.sleep(seconds)
        self.slept += seconds
        return seconds

    @rule(seconds=sleepers, data=st.data())
    def sleep_beside(self, seconds: int, data: st.DataObject) -> None:
        self.group.start_soon(self._beside, seconds + data.draw(st.integers(0, 3)))

    @precondition(lambda self: self.slept > 3)
    @rule()
    async def work_in_a_thread(self) -> None:
        assert self.slept > 3
        await anyio.to_thread.run_sync(lambda: None)

    async def _beside(self, seconds: int) -> None:
        await anyio.sleep(seconds)
        self.woken += 1

    @invariant()
    async def time_passes_only_in_rules(self) -> None:
        assert anyio.current_time() == self.slept
        assert anyio.get_current_task().id == self.task


@each_backend
def test_all_rules_of_an_example_run_in_one_task_of_one_loop_in_virtual_time(backend: Backend) -> None:
    run_state_machine_as_test(Sleepers.on(backend), settings=QUICK)


class TooMany(Sleepers):
    @invariant()
    def few_are_woken(self) -> None:
        assert self.woken < 2, "too many"


@each_backend
def test_a_failure_is_shrunk_to_the_rules_that_it_needs(backend: Backend) -> None:
    options = settings(QUICK, max_examples=300, phases=[Phase.generate, Phase.shrink], derandomize=True)
    with pytest.raises(AssertionError, match="too many") as caught:
        run_state_machine_as_test(TooMany.on(backend), settings=options)
    program = "\n".join(caught.value.__notes__)
    assert program.count("state.sleep_beside(") <= 3
    assert program.count("state.sleep(") <= 2
    assert f"TooManyOn{backend.capitalize()}()" in program


@each_backend
def test_a_rule_that_waits_for_ever_is_a_deadlock_that_names_it(backend: Backend) -> None:
    stops: list[bool] = []

    class Stuck(AsyncRuleBasedStateMachine):
        @rule()
        async def wait(self) -> None:
            await anyio.Event().wait()

        async def stop(self) -> None:
            stops.append(self.failed)

    with pytest.raises(VirtualTimeDeadlock, match="wait"):
        run_state_machine_as_test(Stuck.on(backend), settings=ONE)
    assert set(stops) == {True}


@each_backend
def test_a_failing_start_is_the_failure_and_nothing_is_stopped(backend: Backend) -> None:
    class Broken(AsyncRuleBasedStateMachine):
        async def start(self) -> None:
            await checkpoint()
            raise ZeroDivisionError

        async def stop(self) -> None:
            raise AssertionError("never started")

        @rule()
        async def nothing(self) -> None:
            await checkpoint()

    with pytest.raises(ZeroDivisionError):
        run_state_machine_as_test(Broken.on(backend), settings=ONE)


@each_backend
def test_a_machine_can_run_in_another_order_of_its_tasks(backend: Backend) -> None:
    orders: set[str] = set()

    class Orders(AsyncRuleBasedStateMachine):
        @rule()
        async def go(self) -> None:
            order: list[str] = []

            async def task(name: str) -> None:
                order.append(name)

            async with anyio.create_task_group() as group:
                for name in "ab":
                    group.start_soon(task, name)
            orders.add("".join(order))

    for task in range(5):
        schedule = FixedSchedule(((task, 0, 1),))
        run_state_machine_as_test(Orders.on(backend, schedule=schedule), settings=ONE)
    assert orders == {"ab", "ba"}


CLIENT = settings(
    max_examples=400 if PROFILE == "thorough" else 12,
    stateful_step_count=40 if PROFILE == "thorough" else 20,
    deadline=None,
)


@pytest.mark.clause("C3", "C18", "C22", "C31", "C34", "C51", "C54", "C103")
@each_backend
def test_a_client_holds_its_promises_through_a_random_life(backend: Backend) -> None:
    run_state_machine_as_test(ClientMachine.on(backend), settings=CLIENT)


def lossy_let_go(places: Places, place: Place, let_go: Any = Places._let_go) -> None:
    if places.slots.free != 1:
        let_go(places, place)


async def hasty_stop(servers: ServerSet, stopped: Any, cause: str, *, wait: bool) -> None:
    servers._on_tools_changed()


class SmallClient(ClientMachine):
    """The life of a client with two tools, and sometimes a server without tools."""

    server_count = 0

    def toolbox(self) -> LocalToolbox:
        return ToolDag(ScriptedTool("quick", sleeps(0)), ScriptedTool("slow", sleeps(1))).toolbox()

    def servers(self) -> list[ScriptedMCPServer]:
        return [ScriptedMCPServer("server") for _ in range(self.server_count)]


class SmallClientOfAServer(SmallClient):
    server_count = 1


@pytest.mark.parametrize(
    ("place", "fault", "words"),
    [
        ("_execution.places.places.Places._let_go", lossy_let_go, "slot"),
        ("client._history.record.paired", turns.paired_without_cancelled, "is unanswered"),
        ("_execution.calls.settings.Batch", batches.TalkativeBatch, "outcome"),
        ("mcp._server_set.ServerSet._stop", hasty_stop, "session is still open"),
    ],
)
@each_backend
def test_the_random_life_of_a_client_with_a_fault_tells_of_it(
    place: str, fault: object, words: str, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"seqoria_runtime.{place}", fault)
    options = settings(CLIENT, max_examples=100, database=None, phases=[Phase.generate], derandomize=True)
    machine = SmallClientOfAServer if place.startswith("mcp.") else SmallClient
    with pytest.raises(InvariantError, match=words):
        run_state_machine_as_test(machine.on(backend), settings=options)
