"""`seqoria-runtime bench limits`: its report, its files, its exit codes and its error messages."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from seqoria_runtime.cli import main

pytestmark = pytest.mark.clause("C121")

MODULE = """
import anyio
from seqoria_runtime import LocalToolbox

tools = LocalToolbox()
number = 3
pool = anyio.Semaphore(3)


@tools.tool()
async def fetch(seconds: float = 1.0) -> None:
    async with pool:
        await anyio.sleep(seconds)


@tools.tool()
async def connect() -> None:
    await anyio.Event().wait()


@tools.tool()
async def leave() -> None:
    raise SystemExit(3)


@tools.tool()
async def interrupt() -> None:
    raise KeyboardInterrupt
"""

SYNTHETIC = ["bench", "limits", "--synthetic", "constant,value=1s", "--resource", "queueing,3", "--virtual"]
SMALL = ["--count", "40", "--limits", "1,2,4,8", "--repetitions", "1"]


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"benched_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    (tmp_path / "calls.jsonl").write_text("\ufeff" + '{"name": "fetch", "repeat": 20}\n[{"name": "fetch"}]\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    return name


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_synthetic_sweep_recommends_the_capacity(
    backend: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--json", str(tmp_path / "r.json"), "--plot", str(tmp_path / "r.svg"), "--adaptive"]
    assert main([*SYNTHETIC, *SMALL, *files, "--backend", backend]) == 0
    shown = capsys.readouterr()
    assert "Recommended limit: 3" in shown.out
    assert "Denning and Buzen" in shown.out
    assert "An adaptive limit on the same calls" in shown.out
    assert "[1/4] limit 1, repetition 1: 40 calls in 40 s, 1 results a second" in shown.err
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["recommended"], report["saturated"]) == (3, True)
    assert [row["limit"] for row in report["limits"]][:3] == [1, 2, 3]
    assert report["adaptive"][0] == {"time": 0.0, "limit": 1}
    assert (tmp_path / "r.svg").read_text().startswith("<svg ")


def test_a_sweep_is_the_same_for_the_same_seed(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for seed in ("1", "1", "2"):
        sweep = ["bench", "limits", "--synthetic", "exponential,mean=1s", "--virtual", "--seed", seed]
        assert main([*sweep, *SMALL]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert outputs[0] != outputs[2]


def test_an_applications_toolbox_is_measured(application: str, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = ["bench", "limits", "--toolbox", f"{application}:tools", "--calls", "calls.jsonl", "--virtual"]
    assert main([*sweep, "--limits", "1,2,4,8", "--repetitions", "1"]) == 0
    assert "Recommended limit: 3" in capsys.readouterr().out


def test_failures_have_columns_where_there_are_any(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SYNTHETIC, *SMALL, "--timeout", "1.5"]) == 0
    timed = capsys.readouterr()
    assert "timeouts failed" in timed.out
    assert "without a result" in timed.err
    assert main([*SYNTHETIC, *SMALL]) == 0
    assert "timeouts" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "either --toolbox with --calls or --synthetic is required"),
        (["--toolbox", "x:y", "--synthetic", "constant,value=1s"], "either --toolbox with --calls"),
        (["--toolbox", "{}:tools"], "--toolbox needs --calls"),
        (["--toolbox", "{}:tools", "--calls", "calls.jsonl", "--count", "3"], "--count goes with"),
        (["--synthetic", "constant,value=1s", "--calls", "calls.jsonl"], "--calls goes with --toolbox only"),
        (["--toolbox", "nowhere:tools", "--calls", "calls.jsonl"], "--toolbox: cannot import 'nowhere'"),
        (["--toolbox", "{}:nobody", "--calls", "calls.jsonl"], "has no 'nobody'"),
        (["--toolbox", "{}:number", "--calls", "calls.jsonl"], "must be a LocalToolbox, not int"),
        (["--toolbox", "{}:tools", "--calls", "none.jsonl"], "--calls: cannot read none.jsonl: No such file"),
        (["--toolbox", "{}:tools", "--calls", "bad.jsonl"], "--calls: bad.jsonl: line 1: there is no tool"),
        (["--synthetic", "magic"], "--synthetic: there is no distribution 'magic'"),
        (["--synthetic", "constant,value=1s", "--resource", "magic,3"], "--resource: must be one of sharing"),
        (["--synthetic", "constant,value=1s", "--resource", "sharing,0"], "--resource: must be one of"),
        (["--synthetic", "constant,value=1s", "--plot", "r.png"], "--plot: r.png must end in .svg"),
        (["--synthetic", "constant,value=1s", "--plot", "no/r.svg"], "--plot: there is no folder no"),
        (["--synthetic", "constant,value=1s", "--json", "no/r.json"], "--json: there is no folder no"),
        (["--synthetic", "constant,value=1s", "--json", "."], "--json: . is a folder"),
        (["--synthetic", "constant,value=1s", "--json", "r.svg", "--plot", "r.svg"], "both name r.svg"),
        (["--toolbox", "leaves:tools", "--calls", "calls.jsonl"], "cannot import 'leaves': SystemExit: 3"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_before_anything_runs(
    arguments: list[str], words: str, application: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.jsonl").write_text('{"name": "x"}\n')
    Path("leaves.py").write_text("raise SystemExit(3)")
    assert main(["bench", "limits", *(argument.format(application) for argument in arguments)]) == 2
    shown = capsys.readouterr()
    assert words in shown.err
    assert "limit 1, repetition" not in shown.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--limits", "1,0"], "must be positive integers, such as 1,2,4,8, not '1,0'"),
        (["--limits", "many"], "must be positive integers"),
        (["--limits", ""], "must be positive integers"),
        (["--repetitions", "0"], "must be a positive integer, not '0'"),
        (["--timeout", "-1"], "must be a positive number of seconds, not '-1'"),
        (["--timeout", "nan"], "must be a positive number of seconds, not 'nan'"),
    ],
)
def test_a_bad_number_is_told(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SYNTHETIC, *arguments]) == 2
    assert words in capsys.readouterr().err


def test_virtual_time_with_tools_that_wait_for_the_world_is_told(
    application: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("calls.jsonl").write_text('{"name": "connect"}\n')
    sweep = ["bench", "limits", "--toolbox", f"{application}:tools", "--calls", "calls.jsonl", "--virtual"]
    assert main([*sweep, "--limits", "1"]) == 2
    assert (
        "--virtual: the tools wait for something that virtual time does not wait for"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("virtual", [[], ["--virtual"]])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    ("tool", "code", "words"),
    [("leave", 2, "a tool raised SystemExit"), ("interrupt", 130, "Interrupted before the first run")],
)
def test_a_tool_that_ends_the_program_is_told_without_a_traceback(
    tool: str,
    code: int,
    words: str,
    backend: str,
    virtual: list[str],
    application: str,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    Path("calls.jsonl").write_text(f'{{"name": "{tool}"}}\n')
    sweep = ["bench", "limits", "--toolbox", f"{application}:tools", "--calls", "calls.jsonl", *virtual]
    assert main([*sweep, "--backend", backend]) == code
    shown = capsys.readouterr().err
    assert words in shown
    assert "Traceback" not in shown + caplog.text  # asyncio writes its own to the log


def test_the_files_are_written_although_the_reader_of_the_output_has_gone(tmp_path: Path) -> None:
    report, gone = tmp_path / "report.json", tmp_path / "report.svg"
    program = [sys.executable, "-m", "seqoria_runtime", *SYNTHETIC, *SMALL]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*program, "--json", str(report), "--plot", str(gone)],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert done.returncode == 141
    assert b"Traceback" not in done.stderr
    assert json.loads(report.read_text())["recommended"] == 3
    assert gone.read_text().startswith("<svg ")


@pytest.mark.skipif(sys.platform == "win32", reason="a program's output cannot be closed there")
def test_a_closed_output_is_no_failure() -> None:
    program = [sys.executable, "-m", "seqoria_runtime", *SYNTHETIC, *SMALL]
    shell = ["sh", "-c", '"$@" >&-', "sh", *program]
    done = subprocess.run(shell, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_terminal_gets_fewer_columns_and_whole_numbers(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main([*SYNTHETIC, *SMALL, "--timeout", "1.5"]) == 0
    table = capsys.readouterr().out.split("Recommended")[0]
    assert "…" not in table
    assert max(len(line.rstrip()) for line in table.splitlines()) <= width
    assert table.startswith("limit results/s")
    assert ("p95" in table) == (width == 80)


def test_a_terminal_without_unicode_gets_ascii(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "seqoria_runtime", *SYNTHETIC, *SMALL, "--adaptive"]
    encoding = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = subprocess.run([*program], env=encoding, stdout=subprocess.PIPE, check=True).stdout.decode(
        "ascii"
    )
    assert "?" not in shown
    assert "########" in shown
    assert "X_max * R_0" in shown


@pytest.mark.parametrize("virtual", [[], ["--virtual"]])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT to send")
def test_an_interrupted_sweep_shows_what_it_has(backend: str, virtual: list[str], tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    sweep = ["bench", "limits", "--synthetic", "constant,value=20ms", "--limits", "1,2", "--count", "10"]
    program = [sys.executable, "-m", "seqoria_runtime", *sweep, "--repetitions", "100000"]
    process = subprocess.Popen(
        [*program, "--backend", backend, "--json", str(report), *virtual],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("[3/"):
            break
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Interrupted: this is what was measured until then." in output
    assert "Recommended limit:" in output
    assert json.loads(report.read_text())["limits"][0]["limit"] == 1
