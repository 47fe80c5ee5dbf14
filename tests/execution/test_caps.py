"""Caps of tools: how many calls run at once under them, who is next, and that nothing waits forever."""

from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

from seqoria_runtime.client import AsyncAIClient, CapStats
from seqoria_runtime.testing import ScriptedProvider, wait_for_abandoned_threads
from tests.support.batches import Lab, assert_idle, error_of, request, results
from tests.support.tools import Gate

pytestmark = pytest.mark.clause("C43")


class Capped(Lab):
    """A lab with tools that have caps, which note how many of their calls run."""

    def __init__(self, **caps: int) -> None:
        super().__init__()
        self.own: AsyncAIClient | None = None
        self.running: dict[str, int] = {}
        self.peaks: dict[str, int] = {}
        for name, cap in caps.items():
            self.add_capped(name, cap)

    def add_capped(self, tool: str, cap: int | None, **options: Any) -> None:
        async def work(seconds: float = 1.0, tag: str = "", inner: list[dict[str, Any]] | None = None) -> str:
            with self.noted(tag):
                self.running[tool] = self.running.get(tool, 0) + 1
                self.peaks[tool] = max(self.peaks.get(tool, 0), self.running[tool])
                try:
                    await anyio.sleep(seconds)
                    if inner and self.own is not None:
                        calls = [request(one["tool"], **one["arguments"]) for one in inner]
                        return "+".join(results(await self.own.run_tool_calls(calls)))
                finally:
                    self.running[tool] -= 1
            return tag

        self.tools.add(work, name=tool, max_concurrency=cap, **options)


def nested(tool: str, *inner: dict[str, Any], seconds: float = 1.0, tag: str = "") -> dict[str, Any]:
    return {"tool": tool, "arguments": {"seconds": seconds, "tag": tag, "inner": list(inner)}}


@pytest.mark.parametrize("cap", [1, 2, 3])
async def test_a_cap_holds_and_is_used_to_the_full(cap: int) -> None:
    lab = Capped(a=cap)
    await lab.run(*[request("a")] * 6)
    assert (lab.peaks, anyio.current_time()) == ({"a": cap}, 6 / cap)


async def test_a_cap_above_the_clients_limit_changes_nothing() -> None:
    lab = Capped(a=8)
    await lab.run(*[request("a")] * 6, max_concurrency=2)
    assert (lab.peaks, anyio.current_time()) == ({"a": 2}, 3)


async def test_calls_that_wait_for_a_cap_hold_no_slot_and_block_no_other_call() -> None:
    lab = Capped(a=1)
    lab.add("b")
    await lab.run(*[request("a", tag="a")] * 3, *[request("b", tag="b")] * 3, max_concurrency=2)
    starts = sorted((time, tag) for time, event, tag in lab.events if event == "start")
    assert starts == [(0, "a"), (0, "b"), (1, "a"), (1, "b"), (2, "a"), (2, "b")]


async def test_a_call_that_waits_for_a_cap_goes_before_later_ones_once_it_may_run() -> None:
    lab = Capped(a=1)
    lab.add("b")
    calls = [
        request("a", tag="a1"),
        request("a", tag="a2"),
        *(request("b", seconds=1.5, tag="b") for _ in range(4)),
    ]
    await lab.run(*calls, max_concurrency=2)
    assert lab.started == ["a1", "b", "a2", "b", "b", "b"]


async def test_under_a_cap_the_call_with_the_longest_chain_behind_it_goes_first() -> None:
    lab = Capped(a=1)
    lab.add_capped("c", 1, depends_on=["b"])
    lab.add_capped("b", 1)
    calls = [request("c", tag="c"), *(request("a", tag=f"a{n}") for n in range(2)), request("b", tag="b")]
    await lab.run(*calls, max_concurrency=1)
    assert lab.started[0] == "b"


async def test_the_timeout_starts_when_a_call_has_its_permit_and_its_slot() -> None:
    lab = Capped()
    lab.add_capped("a", 1, timeout=1.5)
    assert results(await lab.run(*[request("a", tag="a")] * 4)) == ["a"] * 4
    assert anyio.current_time() == 4


async def test_a_call_with_bad_arguments_takes_no_permit() -> None:
    lab = Capped(a=1)
    outcomes = await lab.run(request("a", seconds="soon"), request("a", tag="a"), request("a", seconds="x"))
    assert results(outcomes) == ["[invalid_arguments]", "a", "[invalid_arguments]"]
    assert anyio.current_time() == 1


async def test_a_timed_out_call_gives_its_permit_back() -> None:
    lab = Capped()
    lab.add_capped("a", 1, timeout=0.5)
    outcomes = await lab.run(request("a"), request("a", seconds=0.1, tag="a"))
    assert results(outcomes) == ["[timed_out]", "a"]


@pytest.mark.clause("C53")
@pytest.mark.parametrize("error", [KeyboardInterrupt, BaseException, ValueError])
async def test_a_call_that_crashes_gives_its_permit_back(error: type[BaseException]) -> None:
    lab = Capped(a=1)

    @lab.tools.tool(max_concurrency=1)
    async def crash() -> None:
        await anyio.sleep(1)
        raise error

    async with lab.client() as client:
        try:
            await client.run_tool_calls([request("crash"), request("crash"), request("a")])
        except KeyboardInterrupt:
            assert error is KeyboardInterrupt
        assert [cap.free for cap in client.stats().caps] == [1, 1]
        assert_idle(client)


async def test_a_cancelled_batch_leaves_its_permits() -> None:
    lab = Capped(a=1)
    async with lab.client() as client:
        with anyio.move_on_after(0.5):
            await client.run_tool_calls([request("a")] * 3)
        assert_idle(client)
        assert results(await client.run_tool_calls([request("a", tag="a")])) == ["a"]


@pytest.mark.clause("C48")
async def test_batches_take_turns_under_a_cap() -> None:
    lab = Capped(a=1)
    async with lab.client() as client, anyio.create_task_group() as group:
        group.start_soon(client.run_tool_calls, [request("a", tag="long")] * 20)
        group.start_soon(client.run_tool_calls, [request("a", tag="other")] * 20)
        await anyio.sleep(0.5)
        await client.run_tool_calls([request("a", tag="single")])
        assert anyio.current_time() == 3
        group.cancel_scope.cancel()


@pytest.mark.clause("C48")
@pytest.mark.parametrize("limit", [1, 2])
async def test_a_single_capped_call_beside_long_batches_waits_for_few_of_their_calls(limit: int) -> None:
    lab = Capped(a=1)
    lab.add("b")
    async with lab.client(max_concurrency=limit) as client, anyio.create_task_group() as group:
        group.start_soon(client.run_tool_calls, [request("a", tag="a")] * 50)
        group.start_soon(client.run_tool_calls, [request("b", tag="b")] * 50)
        await anyio.sleep(0.5)
        await client.run_tool_calls([request("a", tag="single")])
        assert anyio.current_time() <= 6
        group.cancel_scope.cancel()


@pytest.mark.clause("C49")
@pytest.mark.parametrize("limit", [1, 2, 16])
async def test_a_tool_can_call_itself_under_its_own_cap(limit: int) -> None:
    lab = Capped(a=1)
    async with lab.client(max_concurrency=limit) as lab.own:
        inner = nested("a", nested("a", nested("a", tag="leaf")))
        [outcome] = await lab.own.run_tool_calls([request("a", **inner["arguments"])])
        assert_idle(lab.own)
    assert results([outcome]) == ["leaf"]


@pytest.mark.clause("C49")
@pytest.mark.parametrize("limit", [1, 2, 16])
async def test_nested_calls_share_the_permit_of_the_call_that_makes_them(limit: int) -> None:
    lab = Capped(a=1)
    async with lab.client(max_concurrency=limit) as lab.own:
        inner = [nested("a", tag=str(n)) for n in range(3)]
        [outcome] = await lab.own.run_tool_calls([request("a", inner=inner)])
        assert_idle(lab.own)
    assert (results([outcome]), anyio.current_time()) == (["0+1+2"], 4)
    assert lab.peaks == {"a": 2}


@pytest.mark.clause("C49")
@pytest.mark.parametrize("limit", [1, 2, 3, 16])
async def test_two_tools_that_call_each_other_under_their_caps_get_their_answers(limit: int) -> None:
    lab = Capped(a=1, b=1)
    calls = [
        request("a", **nested("b", tag="a")["arguments"] | {"inner": [nested("b", tag="ab")]}),
        request("b", **nested("a", tag="b")["arguments"] | {"inner": [nested("a", tag="ba")]}),
    ]
    async with lab.client(max_concurrency=limit) as lab.own:
        with anyio.fail_after(20):
            outcomes = await lab.own.run_tool_calls(calls)
        assert_idle(lab.own)
    assert results(outcomes) == ["ab", "ba"]


@pytest.mark.clause("C49")
async def test_calls_that_would_wait_for_each_other_go_on_at_once_while_others_run() -> None:
    lab = Capped(a=1, b=1)
    lab.add("other")
    other = {"tool": "other", "arguments": {"seconds": 5.0}}
    calls = [request("a", inner=[nested("b", tag="ab"), other]), request("b", inner=[nested("a", tag="ba")])]
    async with lab.client() as lab.own:
        with anyio.fail_after(20):
            outcomes = await lab.own.run_tool_calls(calls)
        assert_idle(lab.own)
    assert results(outcomes) == ["ab+", "ba"]
    assert anyio.current_time() == 6


@pytest.mark.clause("C49")
async def test_a_nested_call_gets_the_permit_of_a_call_that_waits_for_the_slot_of_its_parent() -> None:
    lab = Capped(a=1)
    lab.add_capped("parent", None)
    async with lab.client(max_concurrency=1) as lab.own, anyio.create_task_group() as group:
        group.start_soon(lab.own.run_tool_calls, [request("parent", inner=[nested("a", tag="inner")])])
        await anyio.sleep(0.5)
        await lab.own.run_tool_calls([request("a", tag="outer")])
        assert lab.started == ["", "inner", "outer"]


@pytest.mark.clause("C49")
async def test_a_lent_permit_goes_to_the_call_that_can_use_it_and_not_to_one_that_waits_for_a_slot() -> None:
    lab = Capped(c=1)
    lab.add_capped("a", None)
    async with lab.client(max_concurrency=1) as lab.own:
        inner = [nested("a", nested("c", tag="deep"), tag="a"), nested("c", tag="wide")]
        with anyio.fail_after(20):
            [outcome] = await lab.own.run_tool_calls([request("c", inner=inner)])
        assert_idle(lab.own)
    assert results([outcome]) == ["deep+wide"]


@pytest.mark.clause("C49")
async def test_nested_calls_under_a_cap_do_not_overtake_one_that_has_waited_longer_and_can_get_a_slot() -> (
    None
):
    lab = Capped(a=1)
    lab.add("work")
    lab.add_capped("parent", None)
    inner = [nested("a", tag=f"inner{n}") for n in range(5)]
    async with lab.client(max_concurrency=2) as lab.own, anyio.create_task_group() as group:
        group.start_soon(lab.own.run_tool_calls, [request("parent", inner=inner, seconds=0.0)])
        group.start_soon(lab.own.run_tool_calls, [request("work", seconds=3.5, tag="work")])
        await anyio.sleep(0.5)
        await lab.own.run_tool_calls([request("a", tag="outer")])
    assert lab.started[2:] == ["inner0", "inner1", "inner2", "inner3", "outer", "inner4"]
    assert lab.times("start")["outer"] == 4  # at 3.5 it could have a slot, but the cap has no place until 4


class Abandoned(Lab):
    """A lab with the tool `block`, of which one call at a time runs in a thread, until the gate is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()
        self.begun = anyio.Event()
        self.tools.add(self.block, max_concurrency=1)
        self.add("work")

    def block(self, wait: bool = True) -> str:
        if wait:
            anyio.from_thread.run_sync(self.begun.set)
            self.gate()
        return "ran"

    async def abandon(self, client: AsyncAIClient) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(client.run_tool_calls, [request("block")])
            await self.begun.wait()
            group.cancel_scope.cancel()

    async def release(self) -> None:
        self.gate.open.set()
        await wait_for_abandoned_threads()


@pytest.mark.clause("C51")
async def test_calls_that_wait_for_the_permit_of_an_abandoned_thread_fail_after_the_grace() -> None:
    lab = Abandoned()
    async with lab.client(abandoned_grace=3.0) as client:
        await lab.abandon(client)
        await anyio.sleep(1)
        outcomes = await client.run_tool_calls([request("block"), request("work"), request("block")])
        assert anyio.current_time() == 3
        assert results(outcomes) == ["[unavailable]", "", "[unavailable]"]
        assert error_of(outcomes[0]).error == (
            "Tool 'block' failed: no place under its limit of 1 came free in 3s, since threads of "
            "timed-out or cancelled calls still hold all of them: block"
        )
        assert client.stats().abandoned == {"block": 1}
        await lab.release()
        assert results(await client.run_tool_calls([request("block", wait=False)])) == ["ran"]
        assert_idle(client)


@pytest.mark.clause("C51")
async def test_calls_that_wait_too_long_for_the_slot_of_an_abandoned_thread_give_up_their_permits() -> None:
    lab = Abandoned()
    found: list[str] = []

    @lab.tools.tool(max_concurrency=1)
    async def scarce() -> str:
        return "ran"

    async with lab.client(max_concurrency=1, abandoned_grace=3.0) as client:
        await lab.abandon(client)

        async def other() -> None:
            await anyio.sleep(1)
            found.extend(results(await client.run_tool_calls([request("scarce")])))

        async with anyio.create_task_group() as group:
            group.start_soon(other)
            outcomes = await client.run_tool_calls([request("scarce"), request("scarce")])
        assert results(outcomes) == ["[unavailable]"] * 2
        assert found == ["[unavailable]"]
        assert anyio.current_time() == 3
        await lab.release()
        assert_idle(client)


@pytest.mark.clause("C51")
async def test_a_call_that_waits_for_the_permit_of_an_abandoned_thread_runs_once_that_has_ended() -> None:
    lab, found = Abandoned(), []
    async with lab.client(abandoned_grace=1000.0) as client:
        await lab.abandon(client)

        async def second() -> None:
            found.extend(results(await client.run_tool_calls([request("block", wait=False)])))

        async with anyio.create_task_group() as group:
            group.start_soon(second)
            await anyio.sleep(2)
            assert found == []
            await lab.release()
        assert found == ["ran"]
        assert_idle(client)


@pytest.mark.clause("C49", "C51")
async def test_nested_calls_go_on_once_a_thread_has_ended_in_the_slot_of_the_call_that_makes_them() -> None:
    lab, ended = Abandoned(), anyio.Event()

    @lab.tools.tool(max_concurrency=1)
    async def scarce() -> None:
        pass

    @lab.tools.tool()
    async def impatient() -> None:
        await lab.abandon(client)
        ended.set()

    @lab.tools.tool()
    async def parent() -> None:
        await anyio.sleep(1)
        await client.run_tool_calls([request("impatient"), request("scarce")])

    async with lab.client(max_concurrency=1, abandoned_grace=1000.0) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.run_tool_calls, [request("parent")])
            await anyio.sleep(0.5)
            group.start_soon(client.run_tool_calls, [request("scarce")])
            await ended.wait()
            await anyio.sleep(1)
            assert client.stats().waiting == {"scarce": 2}
            await lab.release()
        assert_idle(client)


async def test_two_clients_have_a_cap_each() -> None:
    lab = Capped(a=1)
    async with (
        AsyncAIClient([ScriptedProvider([])], local_toolbox=lab.tools) as one,
        AsyncAIClient([ScriptedProvider([])], local_toolbox=lab.tools) as other,
        anyio.create_task_group() as group,
    ):
        group.start_soon(one.run_tool_calls, [request("a")] * 2)
        await other.run_tool_calls([request("a")] * 2)
    assert (lab.peaks, anyio.current_time()) == ({"a": 2}, 2)


@pytest.mark.clause("C54")
async def test_the_figures_of_a_client_tell_of_its_caps() -> None:
    lab = Capped(a=2, b=1)
    lab.add("c")
    async with lab.client() as client, anyio.create_task_group() as group:
        group.start_soon(client.run_tool_calls, [request("a")] * 3)
        await anyio.sleep(0.5)
        assert client.stats().caps == (CapStats("tool 'a'", 2, 0), CapStats("tool 'b'", 1, 1))
        assert (client.stats().running, client.stats().waiting) == ({"a": 2}, {"a": 1})
    assert client.stats().caps == ()


@pytest.mark.clause("C2")
@pytest.mark.parametrize("value", [0, -1, True, 1.5, "2"])
def test_a_bad_cap_is_refused_by_tool_and_option(value: Any) -> None:
    lab = Lab()
    with pytest.raises(ValueError, match="Tool 'a': 'max_concurrency' must be a positive integer, not"):
        lab.tools.add(lab.noted, name="a", max_concurrency=value)
    assert lab.tools.tools == ()


# Places that are lent


class Sharing(Lab):
    """A lab whose tool `uses` counts how many of its calls use the thing that its cap protects."""

    def __init__(self) -> None:
        super().__init__()
        self.add("leaf")
        self.users = 0
        self.most_users = 0

    async def use(self, seconds: float = 1.0) -> None:
        self.users += 1
        self.most_users = max(self.most_users, self.users)
        await anyio.sleep(seconds)
        self.users -= 1


@pytest.mark.clause("C49")
@pytest.mark.parametrize("way", ["made before, awaited later", "in a task group"])
async def test_a_call_whose_nested_batch_is_about_to_start_keeps_its_place_while_it_works(way: str) -> None:
    lab = Sharing()

    @lab.tools.tool(max_concurrency=1)
    async def b() -> None:
        await anyio.sleep(0.01)
        await client.run_tool_calls([request("a", outer=False)])

    @lab.tools.tool(max_concurrency=1)
    async def a(outer: bool) -> None:
        if outer and way == "in a task group":
            async with anyio.create_task_group() as group:
                group.start_soon(client.run_tool_calls, [request("leaf", seconds=0)])
                await lab.use(0)
        later = client.run_tool_calls([request("leaf")]) if outer else None
        await lab.use()
        if later is not None:
            await later

    async with lab.client(max_concurrency=2) as client:
        await client.run_tool_calls([request("a", outer=True), request("b")])
        assert_idle(client)
    assert lab.most_users == 1


@pytest.mark.clause("C49")
@pytest.mark.parametrize("bystander", [False, True])
async def test_a_call_whose_lent_place_is_in_use_waits_for_it_whatever_else_happens(bystander: bool) -> None:
    lab = Sharing()

    @lab.tools.tool()
    async def q() -> None:
        await anyio.sleep(0.1)
        await client.run_tool_calls([request("a", first=False)])

    @lab.tools.tool(max_concurrency=1)
    async def a(first: bool) -> None:
        if first:
            await anyio.sleep(0.2)
            await client.run_tool_calls([request("b", first=False)])
        await lab.use()

    @lab.tools.tool(max_concurrency=1)
    async def b(first: bool) -> None:
        if first:
            await anyio.sleep(0.3)
            await client.run_tool_calls([request("a", first=False)])

    @lab.tools.tool()
    async def stand_by() -> None:
        await anyio.sleep(0.5)
        await client.run_tool_calls([request("leaf", seconds=0)])

    batch = [request("a", first=True), request("b", first=True), request("q")]
    async with lab.client() as client:
        with anyio.fail_after(20):
            await client.run_tool_calls([*batch, request("stand_by")] if bystander else batch)
        assert_idle(client)
    assert lab.most_users == 1


class Waiting(Lab):
    """A lab of three slots in which the tool `waits` has lent its slot when its own batch has ended.

    Until 3 s its nested call runs; then a call that has waited since 1 s takes the slot of that. From 0.5 s
    on the nested calls `busy` of another tool run, one of them in the slot of `waits`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.went_on: list[float] = []
        self.wait = self.call_scarce
        self.patience = anyio.CancelScope()
        self.tools.add(self.scarce, max_concurrency=1)
        self.tools.add(self.waits, max_concurrency=1)
        self.tools.add(self.stranger)
        self.add("work")

    async def scarce(self, seconds: float) -> None:
        await anyio.sleep(seconds)

    async def waits(self) -> None:
        await self.wait()
        self.went_on.append(anyio.current_time())

    async def call_scarce(self) -> None:
        await self.own.run_tool_calls([request("scarce", seconds=1)])

    async def stranger(self) -> None:
        await anyio.sleep(0.5)
        with self.patience:
            await self.own.run_tool_calls([request("busy", number=number) for number in range(2)])

    async def run_all(self, **options: Any) -> None:
        async def take_the_third_slot() -> None:
            await anyio.sleep(1)
            await self.own.run_tool_calls([request("work", seconds=50)])

        async with self.client(max_concurrency=3, **options) as self.own:
            with anyio.fail_after(90):
                async with anyio.create_task_group() as group:
                    group.start_soon(take_the_third_slot)
                    first = request("scarce", seconds=2)
                    await self.own.run_tool_calls([first, request("waits"), request("stranger")])
            await wait_for_abandoned_threads()
            assert_idle(self.own)


@pytest.mark.clause("C43", "C49")
async def test_a_call_that_waits_for_its_slot_does_not_go_on_in_that_of_the_call_which_has_borrowed_it() -> (
    None
):
    lab = Waiting()

    @lab.tools.tool()
    async def busy(number: int) -> None:
        await anyio.sleep(10)
        if number == 0:
            await anyio.sleep(10)
        else:
            await lab.own.run_tool_calls([request("work", seconds=5)])

    await lab.run_all()
    assert lab.went_on == [15.5]


@pytest.mark.clause("C49", "C51")
async def test_a_thread_that_outlives_its_call_in_a_lent_slot_does_not_hold_up_the_lender() -> None:
    lab, gate = Waiting(), Gate()
    begun: list[None] = []

    async def find_user() -> str:
        await anyio.sleep(10)
        return "u1"

    @lab.tools.tool(server_populated=["user"])
    def busy(number: int, user: str) -> None:
        anyio.from_thread.run_sync(begin)
        gate()

    def begin() -> None:
        begun.append(None)
        if len(begun) == 2:
            lab.patience.cancel()

    async def wait() -> None:
        await lab.call_scarce()
        assert lab.own.stats().abandoned == {"busy": 2}
        gate.open.set()

    lab.wait = wait
    await lab.run_all(param_registry={"user": find_user})
    assert lab.went_on == [10.5]


@pytest.mark.clause("C49", "C53")
@pytest.mark.parametrize("ticks", range(8))
async def test_a_call_that_starts_a_batch_just_as_its_wait_for_a_slot_is_cancelled_lends_its_places(
    ticks: int,
) -> None:
    lab = Waiting()
    inner: list[str] = []

    @lab.tools.tool()
    async def busy(number: int) -> None:
        await anyio.sleep(15)

    async def wait_twice() -> None:
        if anyio.current_time() > 0:
            inner.append("ran")
            return
        async with anyio.create_task_group() as group:
            scope = anyio.CancelScope()
            group.start_soon(wait, scope)
            await anyio.sleep(5)
            group.start_soon(lab.own.run_tool_calls, [request("waits")])
            for _ in range(ticks):
                await anyio.lowlevel.checkpoint()
            scope.cancel()

    async def wait(scope: anyio.CancelScope) -> None:
        with scope:
            await lab.call_scarce()

    lab.wait = wait_twice
    await lab.run_all()
    assert inner == ["ran"]


@pytest.mark.clause("C54")
async def test_a_place_counts_as_taken_only_while_a_call_of_the_tool_runs() -> None:
    lab = Capped(a=1)
    lab.add("other")
    async with lab.client(max_concurrency=1) as client, anyio.create_task_group() as group:
        group.start_soon(client.run_tool_calls, [request("other", seconds=2)])
        await anyio.sleep(0.5)
        group.start_soon(client.run_tool_calls, [request("a")] * 2)
        for running, free in [({"other": 1}, 1), ({"a": 1}, 0), ({"a": 1}, 0), ({}, 1)]:
            await anyio.sleep(1)
            assert (client.stats().running, client.stats().caps[0].free) == (running, free)
