"""Servers that are processes: how they die, what they print, and how they are ended."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from seqoria_runtime._base.tools import ToolFailure
from seqoria_runtime.mcp import MCPServerConfig
from seqoria_runtime.mcp._transport import processes as _processes
from tests.support.server_sets import RunningServers, running_servers

SCRIPT = Path(__file__).parents[1] / "support" / "stdio_server.py"

pytestmark = pytest.mark.real_time


def config(*ways: str, events: Path | None = None, **options: Any) -> MCPServerConfig:
    env = {"EVENTS": str(events)} if events is not None else None
    return MCPServerConfig(
        command=sys.executable, args=[str(SCRIPT), *ways], env=env, **{"name": "odd", **options}
    )


@pytest.fixture
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time that processes get to end, for tests that are not about that time."""
    monkeypatch.setattr(_processes, "EXIT_SECONDS", 0.3)
    monkeypatch.setattr(_processes, "TERMINATE_SECONDS", 0.2)


def lines(events: Path) -> list[str]:
    return events.read_text().splitlines() if events.exists() else []


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(10):
        while not condition():
            await anyio.sleep(0.005)


def open_files() -> int:
    """Return how many files, pipes and sockets this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def gone(pid: int) -> bool:
    """Return whether a process has ended, reaped or not."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.clause("C105")
@pytest.mark.case("K1")
@pytest.mark.parametrize(
    ("deed", "cause"),
    [
        ("exit", "exited with code 3"),
        ("killed", "was killed by signal 9"),
        ("close_stdout", "closed its output"),
        ("half_line", "exited with code 5"),
    ],
)
async def test_a_server_that_dies_in_mid_call_fails_its_open_calls_at_once_by_name(
    deed: str, cause: str, tmp_path: Path
) -> None:
    events = tmp_path / "events"
    async with running_servers(config(events=events), config(name="other")) as made:
        said: list[tuple[str, str]] = []

        async def hold() -> None:
            failure = await made.failure("hold")
            said.append((failure.kind, str(failure)))

        async with anyio.create_task_group() as group:
            group.start_soon(hold)
            group.start_soon(hold)
            await until(lambda: lines(events).count("held") == 2)
            with anyio.fail_after(2):
                failure = await made.failure(deed)
        effect = "; it may have taken effect"
        assert str(failure) == f"Tool {deed!r} failed: server 'odd' {cause}{effect}"
        assert said == [("failed", f"Tool 'hold' failed: server 'odd' {cause}{effect}")] * 2
        tools = made.servers.tools()[1]
        assert await next(tool for tool in tools if tool.name == "echo").call({"text": "alive"}) == "alive"
        assert await made.call("echo", text="again") == "again"
        assert [line for line in lines(events) if line.startswith("started")] != []
        assert lines(events).count("held") == 2


@pytest.mark.clause("C105")
@pytest.mark.case("K1")
async def test_a_server_that_dies_while_idle_is_back_for_the_next_call() -> None:
    async with running_servers(config()) as made:
        first = int(await made.call("pid"))
        os.kill(first, signal.SIGKILL)
        await made.until("down")
        assert made.status().error == "was killed by signal 9"
        second = int(await made.call("pid"))
        assert second != first
        assert made.status().state == "connected"


@pytest.mark.clause("C108")
@pytest.mark.case("K1")
async def test_a_server_that_exits_before_the_handshake_is_reported_with_its_exit_code(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_servers(config("exits_at_once"), config(name="other")) as made:
        down, up = made.servers.status()
        assert (down.state, down.error, up.state) == ("down", "exited with code 7", "connected")
    assert "cannot find my key" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.case("K1")
@pytest.mark.parametrize("way", ["banner", "stderr_flood"])
async def test_noise_is_read_past(way: str) -> None:
    async with running_servers(config(way)) as made:
        assert await made.call("echo", text="words") == "words"
        assert await made.call("unknown_id") == "known"
        assert made.status().state == "connected"


@pytest.mark.case("K1")
async def test_odd_answers_settle_their_own_call_and_nothing_else() -> None:
    async with running_servers(config()) as made:
        with anyio.fail_after(20):
            assert await made.call("twice") == "first"
            assert await made.call("half_character") == "?!"
            assert await made.call("no_utf8") == "\ufffd!"
            assert "neither a result nor an error of the protocol" in str(await made.failure("nothing"))
            assert await made.call("flood") == "done"
            assert await made.call("echo", text="alive") == "alive"
        assert made.status().state == "connected"


@pytest.mark.usefixtures("brisk")
async def test_a_server_that_stops_reading_fails_calls_by_their_timeouts_and_can_be_closed() -> None:
    async with running_servers(config(), config(name="other")) as made:
        assert await made.call("deaf") == "from now on"
        with anyio.fail_after(3):
            for _ in range(3):
                with anyio.move_on_after(0.1) as scope:
                    await made.call("echo", text="x" * 500_000)
                assert scope.cancelled_caught
        with anyio.fail_after(8):  # 0.5 s for what is to be written, and 4 s by the documented limits
            await made.servers.remove(["odd"])
        assert await made.call("echo", text="alive") == "alive"


@pytest.mark.clause("C105")
async def test_a_cancelled_call_is_cancelled_at_the_server_and_the_next_one_works(tmp_path: Path) -> None:
    events = tmp_path / "events"
    async with running_servers(config(events=events)) as made:
        with anyio.move_on_after(0.2):
            await made.call("hold")
        assert await made.call("echo", text="next") == "next"
        await until(lambda: "cancelled True" in lines(events))


async def test_a_large_message_arrives_complete_although_its_sender_is_cancelled() -> None:
    async with running_servers(config()) as made:
        big = "x" * 3_000_000
        with anyio.move_on_after(0.001):
            await made.call("echo", text=big)
        assert await made.call("echo", text=big) == big[: 1_000_000 - len(" [cut]")] + " [cut]"


@pytest.mark.usefixtures("brisk")
async def test_a_server_that_closes_its_input_is_lost_rather_than_unheard() -> None:
    async with running_servers(config()) as made:
        async with anyio.create_task_group() as group:
            group.start_soon(made.failure, "close_stdin")
            await anyio.sleep(0.3)
            failure = await made.failure("echo", text="x" * 200_000)
        assert "server 'odd' closed its input" in str(failure)


@pytest.mark.clause("C100")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"command": "/no/such/program"},
            "FileNotFoundError: [Errno 2] No such file or directory: '/no/such/program'",
        ),
        ({"command": "python server.py"}, "'python server.py'; put the arguments of a command into 'args'"),
        ({"command": sys.executable, "cwd": "/no/such"}, "'/no/such'; 'cwd' is not a folder"),
        ({"command": str(SCRIPT)}, "PermissionError"),
    ],
)
async def test_a_program_that_cannot_be_started_is_reported_with_the_reason(
    options: dict[str, Any], said: str
) -> None:
    async with running_servers(MCPServerConfig(**options)) as made:
        error = made.status().error
        assert error is not None
        assert error.startswith("could not be started: ")
        assert said in error


@pytest.mark.clause("C100")
async def test_env_and_cwd_reach_the_server_and_the_rest_of_the_environment_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVATE_KEY_OF_THE_APPLICATION", "secret")
    (tmp_path / "here.py").write_text(
        f"import os, sys; sys.argv[1:] = []; assert 'PRIVATE_KEY_OF_THE_APPLICATION' not in os.environ\n"
        f"assert os.environ['GIVEN'] == 'yes'; sys.path.insert(0, {str(SCRIPT.parent)!r})\n"
        "import stdio_server; stdio_server.main()\n"
    )
    here = MCPServerConfig(command=sys.executable, args=["here.py"], cwd=tmp_path, env={"GIVEN": "yes"})
    async with running_servers(here) as made:
        assert made.status().error is None
        assert await made.call("echo", text="x") == "x"


async def test_a_silent_server_is_given_up_after_its_timeout() -> None:
    with anyio.fail_after(10):
        async with running_servers(config("silent", timeout=0.5)) as made:
            assert made.status().error == "did not answer within 0.5 s"


@pytest.mark.parametrize("way", ["ignores_unknown", "dies_of_the_probe"])
async def test_odd_servers_of_the_older_era_are_connected_without_much_delay(way: str) -> None:
    async with running_servers() as made:
        with anyio.fail_after(9):
            await made.servers.add([config(way, timeout=4.0)])
        assert await made.call("echo", text="x") == "x"
        assert made.status().protocol == "2025-11-25"


async def test_closing_ends_a_stubborn_server_and_all_its_descendants(tmp_path: Path) -> None:
    events = tmp_path / "events"
    async with running_servers(config("stubborn", "family", events=events)) as made:
        await until(lambda: len(lines(events)) == 3)
        with anyio.fail_after(8):  # 4 s by the documented limits
            await made.servers.close()
    pids = [int(line.split()[1]) for line in lines(events) if line.split()[0] in {"started", "child"}]
    assert len(pids) == 3
    assert [pid for pid in pids if not gone(pid)] == []


async def test_closing_ends_children_that_a_well_behaved_server_leaves_behind(tmp_path: Path) -> None:
    events = tmp_path / "events"
    async with running_servers(config("family", events=events)):
        await until(lambda: len(lines(events)) == 3)
    pids = [int(line.split()[1]) for line in lines(events) if line.split()[0] in {"started", "child"}]
    assert "exits" in lines(events)
    assert [pid for pid in pids if not gone(pid)] == []


@pytest.mark.usefixtures("brisk")
@pytest.mark.parametrize("connected", [True, False])
async def test_a_cancelled_client_leaves_no_process(connected: bool, tmp_path: Path) -> None:
    events = tmp_path / "events"
    ways = ("stubborn", "family") if connected else ("stubborn", "family", "silent")
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:

            async def use() -> None:
                async with running_servers(config(*ways, events=events)) as made:
                    await made.call("hold")

            group.start_soon(use)
            await until(lambda: len(lines(events)) == (4 if connected else 3))
            scope.cancel()
    pids = [int(line.split()[1]) for line in lines(events) if line.split()[0] in {"started", "child"}]
    assert [pid for pid in pids if not gone(pid)] == []


@pytest.mark.clause("C103")
@pytest.mark.case("K3")
async def test_processes_are_closed_in_any_order_from_any_task() -> None:
    async with running_servers(config(name="a"), config(name="b"), config(name="c")) as made:

        async def remove(name: str) -> None:
            await made.servers.remove([name])

        async with anyio.create_task_group() as group:
            group.start_soon(remove, "a")
        assert await working(made, "b")
        async with anyio.create_task_group() as group:
            group.start_soon(remove, "c")
            group.start_soon(remove, "b")
        assert made.names() == []


async def working(made: RunningServers, name: str) -> bool:
    tool = next(tool for tool in made.tools_of(name) if tool.name == "echo")
    return bool(await tool.call({"text": "x"}) == "x")


async def test_nothing_stays_open_after_a_server_has_been_connected_lost_and_closed() -> None:
    async with running_servers(config()) as made:
        before = open_files()
        await made.servers.add([config(name="second")])
        await made.tools_of("second")[0].call({})
        with pytest.raises(ToolFailure):
            await next(tool for tool in made.tools_of("second") if tool.name == "exit").call({})
        await made.servers.remove(["second"])
        assert open_files() == before
