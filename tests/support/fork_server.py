"""A process that has loaded the SDK and forks the tests' servers, which saves a second of imports each.

A server ends with its stand-in (see `forked`), and all servers end when this process's input ends.
"""

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from .processes import ROOT, SUPPORT

MODULES = ("sdk_server", "oauth_server")

Command: TypeAlias = Callable[..., list[str]]


@contextmanager
def fork_server() -> Generator[Command]:
    """Run one; yields a function that makes the command of a server from its module and arguments."""
    pipe = subprocess.PIPE
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "forks")
        program = [sys.executable, "-m", "tests.support.fork_server", path]

        def command(name: str, *arguments: str) -> list[str]:
            return [sys.executable, "-I", "-S", str(SUPPORT / "forked.py"), path, name, *arguments]

        with subprocess.Popen(program, cwd=ROOT, stdin=pipe, stdout=pipe) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield command


class Forks:
    """The running servers by process id, each with the connection to its stand-in."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._lines: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes)
        self._selector.register(listener, selectors.EVENT_READ, self._fork)
        self._selector.register(woken, selectors.EVENT_READ, lambda: self._reap(woken))
        self._selector.register(0, selectors.EVENT_READ, self._end)

    def run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                key.data()

    def _fork(self) -> None:
        line, _ = self._listener.accept()
        message, ends, _, _ = socket.recv_fds(line, 65_536, 3)
        pid = os.fork()
        if pid == 0:
            self._become(json.loads(message), ends)
        for end in ends:
            os.close(end)
        self._lines[pid] = line
        self._selector.register(line, selectors.EVENT_READ, lambda: self._kill(pid))

    def _become(self, arguments: list[str], ends: list[int]) -> None:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for place, end in enumerate(ends):
                os.dup2(end, place)
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            name, *rest = arguments
            import_module(f"tests.support.{name}").main(*rest)
            code = 0
        finally:
            sys.stdout.flush()
            os._exit(code)

    def _kill(self, pid: int) -> None:
        self._selector.unregister(self._lines[pid])
        os.kill(pid, signal.SIGKILL)

    def _reap(self, woken: int) -> None:
        os.read(woken, 4096)
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                line = self._lines.pop(ended[0])
                with suppress(KeyError):
                    self._selector.unregister(line)
                with suppress(OSError):
                    line.send(str(os.waitstatus_to_exitcode(ended[1]) & 0xFF).encode())
                line.close()

    def _end(self) -> None:
        for pid in self._lines:
            os.kill(pid, signal.SIGKILL)
        sys.exit()


def main(path: str) -> None:
    warnings.simplefilter("ignore")
    for name in ("uvicorn", "hypercorn.trio", *(f"tests.support.{name}" for name in MODULES)):
        import_module(name)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        os.write(1, b"ready\n")
        Forks(listener).run()


if __name__ == "__main__":
    main(sys.argv[1])
