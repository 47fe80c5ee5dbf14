"""Ctrl-C in a real program: each test sends a signal once the program has written a certain line."""

import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from tests.support.chat_server import Answer, ChatServer, serve

LIMIT = 30.0

TOOLS = """
import sys
import threading

import anyio

from seqoria_runtime import LocalToolbox

tools = LocalToolbox()

def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

@tools.tool
async def quick() -> str:
    return "quick is done"

@tools.tool
async def endless() -> str:
    tell("endless has begun")
    try:
        await anyio.sleep_forever()
    finally:
        tell("endless has ended")

@tools.tool
async def stubborn() -> str:
    tell("stubborn has begun")
    with anyio.CancelScope(shield=True):
        await anyio.sleep_forever()

@tools.tool
def blocking() -> str:
    tell("blocking has begun")
    threading.Event().wait()
    return "never"
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGINT for a single process")


@dataclass
class Program:
    """A running `seqoria-runtime chat`; its output is read as it comes."""

    process: subprocess.Popen[str]
    stdin: IO[str]
    lines: "queue.Queue[str | None]" = field(default_factory=queue.Queue)
    seen: list[str] = field(default_factory=list)

    def wait_for(self, *texts: str) -> None:
        """Wait until each of these words has come in a new line of output, in any order."""
        missing = set(texts)
        while missing:
            line = self.lines.get(timeout=LIMIT)
            assert line is not None, f"the program ended without {missing}: {self.seen}"
            self.seen.append(line)
            missing -= {text for text in missing if text in line}

    def say(self, line: str) -> None:
        self.stdin.write(f"{line}\n")
        self.stdin.flush()

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def ended(self) -> int:
        """Wait for the end, read the rest of the output, and return the exit code."""
        code = self.process.wait(LIMIT)
        while (line := self.lines.get(timeout=LIMIT)) is not None:
            self.seen.append(line)
        return code


@contextmanager
def program(
    answers: Sequence[Answer], folder: Path, backend: str, *more: str
) -> Generator[tuple[Program, ChatServer], None, None]:
    (folder / "chat_tools.py").write_text(TOOLS)
    command = [sys.executable, "-W", "error", "-m", "seqoria_runtime", "chat", "--model", "m"]
    options = ["--backend", backend, "--toolbox", "chat_tools:tools", "--system", "", *more]
    with (
        serve(answers) as server,
        subprocess.Popen(
            [*command, "--base-url", server.url, *options],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        running = Program(process, process.stdin)
        reader = threading.Thread(target=_read, args=(process.stdout, running.lines))
        reader.start()
        try:
            yield running, server
        finally:
            process.kill()
            reader.join()


def _read(output: IO[str], lines: "queue.Queue[str | None]") -> None:
    for line in output:
        lines.put(line)
    lines.put(None)


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.clause("C18", "C31")
@pytest.mark.case("B1", "B3")
def test_ctrl_c_stops_the_running_tools_and_the_conversation_goes_on(tmp_path: Path, backend: str) -> None:
    answers = [Answer(calls=[("quick", {}), ("endless", {})]), Answer(text=["Still here."])]
    with program(answers, tmp_path, backend) as (chat, server):
        chat.say("work")
        chat.wait_for("quick is done", "endless has begun")
        chat.interrupt()
        chat.wait_for("Stopping")
        chat.wait_for("endless has ended")
        chat.say("and now?")
        chat.wait_for("Still here.")
        chat.stdin.close()
        assert chat.ended() == 0
    assert server.roles(1) == ["user", "assistant", "tool", "tool", "user"]
    quick, endless = (message["content"] for message in server.requests[1]["messages"][2:4])
    assert quick == "quick is done"
    assert endless == "Tool 'endless' was cancelled while running; it may have taken effect"


@pytest.mark.clause("C19")
def test_ctrl_c_stops_a_streaming_answer_whose_text_stays_in_the_conversation(
    tmp_path: Path, backend: str
) -> None:
    with program([Answer(text=["So far\n"], hold=True), Answer(text=["Next."])], tmp_path, backend) as (
        chat,
        server,
    ):
        chat.say("talk")
        chat.wait_for("So far")
        chat.interrupt()
        chat.wait_for("Stopping")
        chat.say("and now?")
        chat.wait_for("Next.")
        chat.stdin.close()
        assert chat.ended() == 0
    contents = [message["content"] for message in server.requests[1]["messages"]]
    assert contents == ["talk", "So far\n", "and now?"]


def test_ctrl_c_at_the_prompt_ends_the_program_though_its_input_stays_open(
    tmp_path: Path, backend: str
) -> None:
    with program([Answer(text=["Hello."], usage=(3, 4))], tmp_path, backend) as (chat, _):
        chat.say("hi")
        chat.wait_for("this turn: 3 prompt + 4 completion tokens")
        chat.interrupt()
        assert chat.ended() == 130
    assert chat.seen[-1] == "in all: 3 prompt + 4 completion tokens\n"
    assert not any("Traceback" in line for line in chat.seen)


def test_a_second_ctrl_c_leaves_at_once_though_a_tool_ignores_the_first(tmp_path: Path, backend: str) -> None:
    with program([Answer(calls=[("stubborn", {})])], tmp_path, backend) as (chat, _):
        chat.say("work")
        chat.wait_for("stubborn has begun")
        chat.interrupt()
        chat.wait_for("Stopping")
        chat.interrupt()
        assert chat.ended() == 130
    assert not any("Traceback" in line for line in chat.seen)


@pytest.mark.clause("C51")
def test_ctrl_c_does_not_wait_for_a_blocking_tool(tmp_path: Path, backend: str) -> None:
    with program([Answer(calls=[("blocking", {})]), Answer(text=["Next."])], tmp_path, backend) as (
        chat,
        server,
    ):
        chat.say("work")
        chat.wait_for("blocking has begun")
        chat.interrupt()
        chat.wait_for("Stopping")
        chat.say("and now?")
        chat.wait_for("Next.")
    assert server.roles(1) == ["user", "assistant", "tool", "user"]


def test_a_single_question_that_is_interrupted_ends_with_the_exit_code_of_sigint(
    tmp_path: Path, backend: str
) -> None:
    with program([Answer(text=["So far\n"], hold=True)], tmp_path, backend, "--once", "talk") as (chat, _):
        chat.wait_for("So far")
        chat.interrupt()
        assert chat.ended() == 130


def test_ctrl_c_ends_the_demo_in_the_middle(backend: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "seqoria_runtime", "demo", "--plain", "--backend", backend],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while "flights   running" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 130
        assert process.stderr.read() == ""
