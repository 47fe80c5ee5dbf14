"""The command line: what it refuses before anything runs, and its messages."""

import subprocess
import sys

import pytest

from seqoria_runtime.cli import main
from seqoria_runtime.cli._main import COMMANDS

CHAT = ["chat", "--base-url", "http://127.0.0.1:9/v1", "--model", "m"]
CHECK = ["check", "application:tools"]
BENCH = ["bench", "limits", "--synthetic", "constant,mean=10ms"]


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The last line of a refused command, which otherwise wrote only its usage."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()[-1]


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_without_rich_a_command_names_the_extra_in_one_line(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    assert main({"chat": CHAT, "check": CHECK, "bench": BENCH}.get(command, [command])) == 2
    expected = (
        f"seqoria-runtime {command}: error: rich is not installed: pip install 'seqoria-runtime[cli]'\n"
    )
    assert capsys.readouterr().err == expected


def test_the_command_line_is_read_without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import sys; sys.modules['rich'] = None; from seqoria_runtime.cli import main; main(['--help'])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_without_trio_the_backend_names_the_extra(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "trio", None)
    line = refused(["demo", "--backend", "trio"], capsys)
    assert line == "seqoria-runtime demo: error: trio is not installed: pip install 'seqoria-runtime[trio]'"


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    output = capsys.readouterr().out
    assert all(command.name in output and command.summary.split()[0] in output for command in COMMANDS)


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    import seqoria_runtime

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"seqoria-runtime {seqoria_runtime.__version__}\n"


def test_no_command_is_a_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert "required: command" in refused([], capsys)


@pytest.mark.parametrize("speed", ["0", "-1", "nan", "inf", "fast"])
def test_a_speed_has_to_be_a_positive_number(speed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"--speed: must be a positive number, not {speed!r}" in refused(
        ["demo", f"--speed={speed}"], capsys
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--max-turns", "0"], "--max-turns: must be a positive integer, not '0'"),
        (["--max-turns", "two"], "--max-turns: must be a positive integer, not 'two'"),
        (["--context", "user_id"], "--context: must be NAME=VALUE, not 'user_id'"),
        (["--api-key-env", "NO_SUCH_KEY"], "--api-key-env: the environment variable NO_SUCH_KEY is not set"),
        (["--profile", "abacus"], "--profile must be one of"),
        (["--base-url", "nonsense"], "error: --base-url must be a URL such as 'https://host/v1', not"),
        (["--base-url", "https://example.org/v1"], "No API key: give --api-key-env or set OPENAI_API_KEY"),
        (["--model", ""], "error: --model is required"),
        (["--once", " "], "--once: must not be empty"),
        (["--tool-choice", "fly"], "--tool-choice: must be auto, required, none or a tool's name, not 'fly'"),
        (["--tool-choice", "required"], "tools: none, as no --toolbox has any"),
    ],
)
def test_chat_refuses_what_cannot_work(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert words in refused([*CHAT, *arguments], capsys)


@pytest.mark.parametrize(("command", "option"), [(["demo"], "--speed"), (CHAT, "--base-url")])
def test_an_unknown_option_shows_the_usage_of_its_command(
    command: list[str], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--no-such-option"]) == 2
    written = capsys.readouterr().err
    assert written.startswith(f"usage: seqoria-runtime {command[0]} [-h]")
    assert option in written
    assert written.endswith("error: unrecognized arguments: --no-such-option\n")
