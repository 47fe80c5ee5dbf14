"""The order that `depends_on` puts between the calls of one batch, as an application sees it."""

import anyio
import pytest

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.models import ToolCallRequest
from seqoria_runtime.testing import ScriptedProvider
from seqoria_runtime.toolbox import LocalToolbox
from tests.support.batches import Lab, error_of, request, results

SKIPPED = "Skipped because dependency failure: "
CYCLIC = "Cyclic dependency detected between requested tool calls."


@pytest.fixture
def lab() -> Lab:
    lab = Lab()
    lab.add("login", "read")
    lab.add("write", depends_on=["login"])
    lab.add("report", depends_on=["read", "write"])
    return lab


@pytest.mark.clause("C45")
async def test_a_call_starts_when_its_own_dependencies_have_settled_and_not_a_moment_later(lab: Lab) -> None:
    calls = [
        request("report", tag="report"),
        request("write", seconds=1, tag="write"),
        request("login", seconds=2, tag="login"),
        request("read", seconds=10, tag="read"),
    ]
    outcomes = await lab.run(*calls)
    assert results(outcomes) == ["report", "write", "login", "read"]
    assert lab.times("start") == {"login": 0, "read": 0, "write": 2, "report": 10}


@pytest.mark.clause("C45")
async def test_a_call_waits_for_every_requested_call_of_the_tool(lab: Lab) -> None:
    logins = [request("login", seconds=seconds, tag=f"login{seconds}") for seconds in (3, 1, 2)]
    await lab.run(request("write", tag="write"), *logins)
    assert lab.times("start")["write"] == 3


@pytest.mark.clause("C45")
async def test_a_tool_that_was_not_requested_is_neither_called_nor_waited_for(lab: Lab) -> None:
    outcomes = await lab.run(request("write", tag="write"), request("report", tag="report"))
    assert results(outcomes) == ["write", "report"]
    assert lab.times("start") == {"write": 0, "report": 1}


@pytest.mark.clause("C45")
async def test_a_dependency_covers_the_variants_of_a_tool_as_well_as_the_tool() -> None:
    ended = []

    def toolbox(kind: type) -> LocalToolbox:
        tools = LocalToolbox()

        async def auth(seconds: kind) -> str:  # type: ignore[valid-type]
            await anyio.sleep(float(seconds))
            ended.append(anyio.current_time())
            return "in"

        tools.add(auth)
        return tools

    last = LocalToolbox()

    @last.tool(depends_on=["auth"])
    async def pay() -> str:
        return str(anyio.current_time())

    boxes = [toolbox(int), toolbox(float), last]
    async with AsyncAIClient([ScriptedProvider([])], local_toolbox=boxes, system_prompt="") as client:
        names = [tool["function"]["name"] for tool in client.list_tools()]
        assert names[0] == "auth"
        assert names[1].startswith("auth__")
        calls = [request("pay"), request(names[1], seconds=2.0), request(names[0], seconds=1)]
        assert results(await client.run_tool_calls(calls)) == ["2.0", "in", "in"]
    assert ended == [1, 2]


@pytest.mark.clause("C45")
async def test_a_dependency_on_a_variant_does_not_wait_for_the_others() -> None:
    lab = Lab()
    lab.add("auth")
    variant = LocalToolbox()

    async def auth(seconds: int) -> None:
        await anyio.sleep(seconds)

    variant.add(auth)
    async with AsyncAIClient([ScriptedProvider([])], local_toolbox=[lab.tools, variant]) as client:
        alias = client.list_tools()[1]["function"]["name"]
    last = Lab()
    last.add("pay", depends_on=[alias])
    boxes = [lab.tools, variant, last.tools]
    async with AsyncAIClient([ScriptedProvider([])], local_toolbox=boxes) as client:
        calls = [request("auth", seconds=5), request(alias, seconds=1), request("pay", tag="pay")]
        await client.run_tool_calls(calls)
    assert last.times("start") == {"pay": 1}


@pytest.mark.clause("C46")
@pytest.mark.parametrize("failed_first", [True, False])
async def test_one_success_among_the_calls_of_a_dependency_is_enough(lab: Lab, failed_first: bool) -> None:
    calls = [
        request("login", seconds=1 if failed_first else 2, ok=False),
        request("login", seconds=2 if failed_first else 1, tag="in"),
        request("write", tag="write"),
    ]
    assert results(await lab.run(*calls)) == ["[failed]", "in", "write"]


@pytest.mark.clause("C42", "C46")
async def test_dependents_of_a_failed_tool_are_skipped_and_theirs_and_independent_calls_go_on(
    lab: Lab,
) -> None:
    calls = [
        request("report", tag="report"),
        request("write", tag="write"),
        request("read", seconds=5, tag="read"),
        request("login", ok=False),
        request("login", ok=False),
    ]
    outcomes = await lab.run(*calls)
    assert results(outcomes) == ["[skipped]", "[skipped]", "read", "[failed]", "[failed]"]
    assert [error_of(outcomes[place]).error for place in (0, 1)] == [SKIPPED + "write", SKIPPED + "login"]
    assert "write" not in lab.started


@pytest.mark.clause("C42", "C46")
async def test_a_skip_names_all_failed_tools_in_alphabetical_order() -> None:
    lab = Lab()
    lab.add("zebra", "ant", "moth")
    lab.add("end", depends_on=["zebra", "moth", "ant"])
    failing = [request(name, ok=False) for name in ("zebra", "ant")]
    outcomes = await lab.run(request("end"), *failing, request("moth"))
    assert error_of(outcomes[0]).error == SKIPPED + "ant, zebra"


@pytest.mark.clause("C46")
@pytest.mark.parametrize(
    "prerequisite",
    [
        request("login", ok=False),
        request("login", seconds=99),
        request("login", seconds="soon"),
        request("login", nonsense=1),
    ],
    ids=["fails", "times out", "invalid", "unknown argument"],
)
async def test_a_dependency_fails_in_whatever_way_a_call_can_fail(
    lab: Lab, prerequisite: ToolCallRequest
) -> None:
    outcomes = await lab.run(request("write"), prerequisite, tool_timeout=10)
    assert error_of(outcomes[0]).error == SKIPPED + "login"


@pytest.mark.clause("C46")
async def test_a_blocked_or_unknown_dependency_that_was_requested_has_failed(lab: Lab) -> None:
    lab.add("lost", depends_on=["nobody"])
    calls = [request("write"), request("login"), request("lost"), request("nobody")]
    outcomes = await lab.run(*calls, blocked_tools=["login"])
    assert results(outcomes) == ["[skipped]", "[unknown_tool]", "[skipped]", "[unknown_tool]"]
    assert anyio.current_time() == 0


@pytest.mark.clause("C46")
async def test_a_call_with_bad_arguments_settles_at_once_though_it_would_have_to_wait(lab: Lab) -> None:
    calls = [request("login", seconds=5), request("write", seconds="soon"), request("report")]
    seen = []
    async with lab.client() as client, client.run_call_stream(calls) as stream:
        async for call, outcome in stream:
            seen.append((call.name, *results([outcome]), anyio.current_time()))
    assert seen == [("write", "[invalid_arguments]", 0), ("report", "[skipped]", 0), ("login", "", 5)]


@pytest.mark.clause("C42", "C46", "C55")
async def test_bad_calls_that_depend_on_each_other_have_one_outcome_each_which_tells_what_is_bad(
    lab: Lab,
) -> None:
    calls = [
        request("login", seconds="soon"),
        request("write", nonsense=1),
        request("report"),
        request("read", tag="read"),
    ]
    seen = []
    async with lab.client() as client, client.run_call_stream(calls) as stream:
        async for call, outcome in stream:
            seen.append((call.name, *results([outcome])))
    assert seen == [
        ("login", "[invalid_arguments]"),
        ("write", "[invalid_arguments]"),
        ("read", "read"),
        ("report", "[skipped]"),
    ]


@pytest.mark.clause("C42", "C47")
async def test_calls_on_or_behind_a_cycle_fail_at_once_and_the_others_run() -> None:
    lab = Lab()
    lab.add("free", "before")
    lab.add("a", depends_on=["c", "before"])
    lab.add("b", depends_on=["a"])
    lab.add("c", depends_on=["b"])
    lab.add("behind", depends_on=["c"])
    lab.add("self", depends_on=["self"])
    lab.add("after", depends_on=["free"])
    names = ["a", "after", "b", "behind", "free", "c", "self", "before"]
    seen = []
    async with lab.client() as client, client.run_call_stream([request(n, tag=n) for n in names]) as stream:
        async for call, outcome in stream:
            seen.append((anyio.current_time(), call.name, *results([outcome])))
            if outcome.name in {"a", "b", "c", "behind", "self"}:
                assert error_of(outcome).error == CYCLIC
    assert seen[:5] == [(0, name, "[cyclic_dependency]") for name in ("a", "b", "behind", "c", "self")]
    assert sorted(seen[5:]) == [(1, "before", "before"), (1, "free", "free"), (2, "after", "after")]


@pytest.mark.clause("C47")
async def test_half_a_cycle_is_none() -> None:
    lab = Lab()
    lab.add("a", depends_on=["b"])
    lab.add("b", depends_on=["a"])
    assert results(await lab.run(request("a", tag="a"))) == ["a"]


@pytest.mark.clause("C47")
async def test_a_call_on_a_cycle_with_bad_arguments_is_told_of_these_and_the_rest_of_the_cycle() -> None:
    lab = Lab()
    lab.add("a", depends_on=["b"])
    lab.add("b", depends_on=["a"])
    outcomes = await lab.run(request("a", seconds="soon"), request("b"), request("nobody"))
    assert results(outcomes) == ["[invalid_arguments]", "[cyclic_dependency]", "[unknown_tool]"]


@pytest.mark.clause("C45")
async def test_with_few_slots_a_call_still_starts_as_soon_as_it_may(lab: Lab) -> None:
    calls = [
        request("login", seconds=1, tag="login"),
        request("read", seconds=3, tag="read"),
        request("write", seconds=1, tag="write"),
        request("report", seconds=1, tag="report"),
    ]
    await lab.run(*calls, max_concurrency=2)
    assert lab.times("start") == {"login": 0, "read": 0, "write": 1, "report": 3}


@pytest.mark.clause("C48")
async def test_under_a_cap_the_call_with_the_longest_chain_behind_it_goes_first() -> None:
    lab = Lab()
    lab.add("leaf", "root")
    lab.add("middle", depends_on=["root"])
    lab.add("end", depends_on=["middle"])
    calls = [request("leaf", seconds=1.5, tag=f"leaf{n}") for n in range(3)]
    calls += [request(name, tag=name) for name in ("end", "middle", "root")]
    await lab.run(*calls, max_concurrency=2)
    assert lab.started == ["root", "leaf0", "middle", "leaf1", "leaf2", "end"]
    assert anyio.current_time() == 4


@pytest.mark.clause("C48")
async def test_ready_calls_of_the_same_rank_start_in_the_order_of_the_calls(lab: Lab) -> None:
    tags = [f"{number:02}" for number in range(20)]
    await lab.run(*(request("login", tag=tag) for tag in tags), max_concurrency=1)
    assert lab.started == tags
