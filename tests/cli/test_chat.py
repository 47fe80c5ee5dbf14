"""Chat with a model server on this machine, over a real socket and a real pipe."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from seqoria_runtime.cli import main
from tests.support.chat_server import Answer, ChatServer, serve

TOOLS = """
from typing import Annotated

from seqoria_runtime import HIDDEN, LocalToolbox

tools = LocalToolbox()

@tools.tool
async def weather(city: str) -> str:
    return f"{city} is fine"

@tools.tool
def account(user_id: Annotated[str, HIDDEN]) -> str:
    return f"account of {user_id}"

@tools.tool
async def broken() -> str:
    raise ValueError("no luck")
"""


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def toolbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "chat_tools.py").write_text(TOOLS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.delitem(sys.modules, "chat_tools", raising=False)
    return "chat_tools:tools"


def once(server: ChatServer, question: str, backend: str, *more: str) -> int:
    return main([*_server(server), "--backend", backend, "--once", question, *more])


def conversation(
    server: ChatServer, lines: str, backend: str, monkeypatch: pytest.MonkeyPatch, *more: str
) -> int:
    """Run a conversation with these lines on a pipe that has ended as its input."""
    read, write = os.pipe()
    os.write(write, lines.encode())
    os.close(write)
    with os.fdopen(read) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        return main([*_server(server), "--backend", backend, *more])


def _server(server: ChatServer) -> list[str]:
    return ["chat", "--base-url", server.url, "--model", "m", "--profile", "llama.cpp"]


def test_an_answer_is_all_that_goes_to_the_standard_output(
    backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve([Answer(text=["Hel", "lo\tyou"], reasoning="Hm.", usage=(12, 5))]) as server:
        assert once(server, "Hi", backend) == 0
    out, err = capsys.readouterr()
    assert out == "Hello\tyou\n"
    assert err == "Hm.\nthis turn: 12 prompt + 5 completion tokens\n"
    assert server.requests[0]["stream"] is True
    assert server.requests[0]["messages"][-1] == {"role": "user", "content": "Hi"}


def test_tools_run_and_their_outcomes_are_told_as_they_come(
    backend: str, toolbox: str, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = [("weather", {"city": "Rome"}), ("account", {}), ("broken", {})]
    with serve([Answer(text=["I look."], calls=calls), Answer(text=["Done."])]) as server:
        assert once(server, "?", backend, "--toolbox", toolbox, "--context", "user_id=u-7") == 0
    out, err = capsys.readouterr()
    assert out == "I look.\nDone.\n"
    assert "weather(city='Rome'): Rome is fine\n" in err
    assert "account(): account of u-7\n" in err
    assert "broken(): Tool 'broken' failed: no luck\n" in err
    assert err.endswith("this turn: 14 prompt + 6 completion tokens\n")
    offered = {tool["function"]["name"]: tool["function"] for tool in server.requests[0]["tools"]}
    assert list(offered) == ["weather", "account", "broken"]
    assert "user_id" not in str(offered["account"]["parameters"])


def test_the_options_reach_the_server(backend: str, toolbox: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serve([Answer(calls=[("broken", {})]), Answer(calls=[("broken", {})])]) as server:
        options = [
            "--toolbox",
            toolbox,
            "--tool-choice",
            "required",
            "--system",
            "Be brief.",
            "--max-turns",
            "2",
        ]
        assert once(server, "?", backend, *options) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("[Turn limit reached]\n")
    assert [request.get("tool_choice", "auto") for request in server.requests] == ["required", "auto"]
    assert server.requests[0]["messages"][0] == {"role": "system", "content": "Be brief."}


def test_a_failure_is_told_and_is_the_exit_code_of_a_single_question(
    backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve([Answer(status=429, error="slow down")]) as server:
        assert once(server, "?", backend) == 1
    out, err = capsys.readouterr()
    assert (out, err) == ("", "RateLimitError: slow down\n")


def test_a_conversation_goes_on_after_a_failure_and_ends_with_its_input(
    backend: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [Answer(text=["One."]), Answer(status=500, error="oops"), Answer(text=["Three."])]
    with serve(answers) as server:
        assert conversation(server, "a\n\n  \nb\nc", backend, monkeypatch, "--system", "") == 0
    out, err = capsys.readouterr()
    assert out == "One.\nThree.\n"
    assert err.startswith("m, 0 tools.")
    assert "ServerError: oops\n" in err
    assert err.endswith("in all: 14 prompt + 6 completion tokens\n")
    assert server.roles(1) == ["user", "assistant", "user"]
    assert [message["content"] for message in server.requests[2]["messages"]] == ["a", "One.", "c"]


def test_an_empty_input_ends_the_program_with_success(
    backend: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve([]) as server:
        assert conversation(server, "", backend, monkeypatch) == 0
    assert server.requests == []


def test_a_model_cannot_send_control_sequences_to_the_terminal(
    backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve([Answer(text=["a\x1b]0;title\x07b\x9b31mc\r\nd"], reasoning="\x1b[2J")]) as server:
        assert once(server, "?", backend) == 0
    out, err = capsys.readouterr()
    assert out == "a]0;titleb31mc\nd\n"
    assert "\x1b" not in err


def test_an_answer_that_the_terminal_cannot_encode_is_still_shown(
    backend: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = tmp_path / "out.txt"
    with place.open("w", encoding="ascii") as stdout, serve([Answer(text=["für 5 €"])]) as server:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert once(server, "?", backend) == 0
    assert place.read_text(encoding="ascii") == "f?r 5 ?\n"


def test_one_tool_is_counted_as_one(
    backend: str, toolbox: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("one_tool.py").write_text(TOOLS.partition("@tools.tool\ndef")[0])
    monkeypatch.delitem(sys.modules, "one_tool", raising=False)
    with serve([]) as server:
        assert conversation(server, "", backend, monkeypatch, "--toolbox", "one_tool:tools") == 0
    assert capsys.readouterr().err.startswith("m, 1 tool. ")


def test_a_long_note_is_one_line_where_no_terminal_reads_it(
    backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = " ".join(["slow"] * 100)
    with serve([Answer(status=429, error=words)]) as server:
        assert once(server, "?", backend) == 1
    assert capsys.readouterr().err == f"RateLimitError: {words}\n"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pipe that breaks as POSIX has it")
def test_an_answer_whose_reader_has_gone_ends_in_silence(backend: str) -> None:
    command = [sys.executable, "-W", "error", "-m", "seqoria_runtime"]
    with serve([Answer(text=["x" * 100_000, "y"] * 50)]) as server:
        arguments = [*_server(server), "--backend", backend, "--once", "?"]
        with subprocess.Popen(
            [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.read(20) == b"x" * 20
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait(30) == 141
