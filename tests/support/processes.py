"""Servers that tests run as processes."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

SUPPORT = Path(__file__).parent
ROOT = SUPPORT.parents[1]
START_SECONDS = 60.0


def wait_for_port(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Wait until a port of this machine accepts connections."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < deadline, f"{process.args!r} does not listen"
            assert not ended_within(0.05, process), f"{process.args!r} has ended with {process.returncode}"


def ended_within(seconds: float, process: "subprocess.Popen[bytes]") -> bool:
    """Return whether a process ends within this time."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


@contextmanager
def listening(command: Sequence[str], port: int, **env: str) -> Generator["subprocess.Popen[bytes]"]:
    """Run a server while the context is open; the body starts once it listens on the port."""
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **env}, stdin=nowhere, stdout=nowhere
    ) as process:
        try:
            wait_for_port(port, process)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def module(name: str, *arguments: str) -> list[str]:
    """The command that runs a module of the tests' support."""
    return [sys.executable, "-m", f"tests.support.{name}", *arguments]
