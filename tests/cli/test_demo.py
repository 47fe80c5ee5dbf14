"""The demo, in virtual time: it shows what happened, to the hundredth of a second."""

import io
import re
import subprocess
import sys

import anyio
import pytest
from anyio import from_thread
from rich.console import Console

from seqoria_runtime.cli._demo.play import Pace, play
from seqoria_runtime.testing import wait_for_abandoned_threads

EVENTS = """
   0.00 s  flights   running
   0.00 s  hotels    running
   0.00 s  profile   running
   0.00 s  rates     running
   0.40 s  profile   done       {"topic": "travel", "seat": "aisle"}
   0.40 s  weather   running
   0.60 s  budget    skipped    Skipped because dependency failure: rates
   0.60 s  rates     failed     the EUR/USD service closed the connection
   0.60 s  seats     running
   0.80 s  hotels    done       {"hotel": "Casa do Largo", "city": "Lisbon", "eur": 178}
   0.90 s  weather   done       Lisbon: 18 degrees, showers on Sunday
   1.10 s  flights   done       {"flight": "TP 531", "to": "Lisbon", "day": "Friday", "leaves": "17…
   1.10 s  plan      running    after flights, hotels, profile
   1.50 s  seats     timed out  after 0.9s; it may have taken effect
   1.80 s  plan      done       {"city": "Lisbon", "flight": "TP 531", "hotel": "Casa do Largo", "e…
   2.60 s  seats     thread     has ended; its slot is free again
"""

PICTURE = """
weather  ░░░░░░░░██████████                                     done 0.50 s
flights  ██████████████████████                                 done 1.10 s
hotels   ████████████████                                       done 0.80 s
profile  ████████                                               done 0.40 s
rates    ████████████                                           failed 0.60 s
seats    ░░░░░░░░░░░░███████████████████▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒  timed out 0.90 s
budget   ············                                           skipped
plan     ······················███████████████                  done 0.70 s
         |0        |0.5      |1         |1.5      |2
█ ran   · waited for calls   ░ waited for a slot   ▒ thread ran on
"""


async def played(*, width: int, animated: bool = False, encoding: str = "utf-8", speed: float = 1.0) -> str:
    """Return what the demo writes. Its blocking tool blocks in virtual time, and its thread ends first."""
    written = io.BytesIO()
    file = io.TextIOWrapper(written, encoding=encoding, errors="replace")
    console = Console(
        file=file, width=width, height=40, force_terminal=animated, color_system=None, highlight=False
    )
    over = anyio.Event()

    async def sleep_on(seconds: float) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(seconds)
        over.set()

    async def hold_time_for_the_thread() -> None:
        await over.wait()
        await wait_for_abandoned_threads()

    async with anyio.create_task_group() as group:
        group.start_soon(hold_time_for_the_thread)
        assert (
            await play(
                console, Pace(speed, block=lambda seconds: from_thread.run(sleep_on, seconds)), animated
            )
            == 0
        )
    file.flush()
    return written.getvalue().decode(encoding)


async def test_the_lines_tell_each_call_from_its_start_to_its_outcome() -> None:
    events = [line for line in (await played(width=100)).splitlines() if re.match(r"   \d\.\d\d s ", line)]
    assert sorted(events) == sorted(EVENTS.strip("\n").splitlines())
    assert [line[:11] for line in events] == sorted(line[:11] for line in events)


async def test_the_lines_of_a_batch_stand_together() -> None:
    paragraphs = (await played(width=100)).split("\n\n")
    calls = [paragraph for paragraph in paragraphs if "running" in paragraph]
    assert len(calls) == 1
    assert len(calls[0].splitlines()) == 15


async def test_a_call_is_told_to_start_after_the_outcome_that_it_waited_for() -> None:
    output = await played(width=100)
    assert output.index("flights   done") < output.index("plan      running")


async def test_the_picture_shows_who_waited_for_what_and_who_ran() -> None:
    assert PICTURE in await played(width=80)


async def test_the_picture_is_the_same_at_another_speed() -> None:
    def bars(output: str) -> list[str]:
        return re.findall(r"[█░·▒]{3,}.*(?=  )", output)

    assert bars(await played(width=80, speed=4)) == bars(await played(width=80))


@pytest.mark.clause("C70")
async def test_the_hidden_parameter_is_in_the_call_and_not_in_what_the_model_sees() -> None:
    output = await played(width=80)
    assert "model sees profile(topic)\n" in output
    assert "tool gets  profile(topic='travel', user_id='u-1041')\n" in output


async def test_the_history_has_an_answer_to_every_call() -> None:
    output = await played(width=80)
    assert "8 calls with 8 answers: 5 done, 1 failed, 1 timed out, 1 skipped" in output
    assert "19 messages" in output


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("animated", [True, False])
async def test_no_line_is_wider_than_the_terminal(width: int, animated: bool) -> None:
    output = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", await played(width=width, animated=animated))
    assert max(len(line) for line in re.split(r"[\r\n]", output)) <= width


async def test_an_animation_ends_with_every_call_settled_and_the_cursor_back() -> None:
    output = await played(width=80, animated=True)
    assert output.count("\x1b[?25l") == output.count("\x1b[?25h") == 3
    table = output[output.rindex("what came of it") :]
    for name, state in {
        "flights": "done",
        "rates": "failed",
        "seats": "timed out",
        "budget": "skipped",
    }.items():
        assert re.search(rf"^{name} .*{state}", table, re.MULTILINE)
    assert not re.search(r"^\w+ .*(waiting|running)", table, re.MULTILINE)


async def test_an_animation_leaves_the_whole_answer_on_the_screen() -> None:
    output = await played(width=80, animated=True)
    last_frame = re.split(r"\x1b\[2K", output[: output.rindex("\x1b[?25h")])[-1]
    assert "assistant  TP 531" in last_frame
    assert last_frame.rstrip().endswith("check these yourself.")


async def test_an_animation_shows_calls_while_they_wait_and_run() -> None:
    output = await played(width=80, animated=True)
    assert re.search(r"plan +flights, hotels, profile +waiting", output)
    assert re.search(r"weather +a slot +waiting", output)
    assert re.search(r"plan +flights, hotels, profile +running", output)


async def test_a_terminal_without_unicode_gets_a_picture_of_ascii() -> None:
    output = await played(width=80, encoding="ascii")
    assert "seats    ------------###################======================  timed out 0.90 s" in output


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1", "TERM": "dumb"}])
def test_the_command_plays_it_without_a_terminal(backend: str, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-m",
            "seqoria_runtime",
            "demo",
            "--speed",
            "20",
            "--backend",
            backend,
        ],
        env={"PYTHONIOENCODING": "utf-8", **environment},
        capture_output=True,
        encoding="utf-8",
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert "5 done, 1 failed, 1 timed out, 1 skipped" in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pipe that breaks as POSIX has it")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_reader_that_has_gone_ends_the_demo_in_silence(backend: str) -> None:
    command = [sys.executable, "-W", "error", "-m", "seqoria_runtime", "demo", "--speed", "5"]
    with subprocess.Popen(
        [*command, "--backend", backend], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 141
