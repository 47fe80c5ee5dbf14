"""Caps of tools: how many calls run at once under them, who is next, and that nothing waits forever."""

from typing import Any

import anyio
import anyio.from_thread
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
