"""A child process with pipes that behave alike under every event loop.

The loops' own subprocesses do not: under uvloop a child inherits copies of its pipes, so the parent never
sees it close them.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import anyio

_CHUNK = 65_536


class Child:
    """A process that leads a new session and process group. Leaving it closes the pipes and does not end it.

    Raises `OSError` if the program cannot be started.
    """

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: str | Path | None) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            argv, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=cwd, start_new_session=True
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self.stdin = Pipe(self._process.stdin)
        self.stdout = Pipe(self._process.stdout)
        self.stderr = Pipe(self._process.stderr)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Return the exit code, negative for a signal; `None` while the process lives."""
        return self._process.poll()

    def kill(self) -> None:
        self._process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for pipe in (self.stdin, self.stdout, self.stderr):
            pipe.close()


class Pipe:
    """This process's end of a pipe. No task may be waiting on it when it is closed."""

    def __init__(self, end: IO[bytes]) -> None:
        self._end = end
        os.set_blocking(end.fileno(), False)

    def close(self) -> None:
        self._end.close()

    async def receive(self) -> bytes:
        """Read at least one byte; a cancelled caller has read nothing.

        Raises `EndOfStream` when the other end is closed.
        """
        while True:
            await anyio.wait_readable(self._end)
            try:
                data = os.read(self._end.fileno(), _CHUNK)
            except BlockingIOError:
                continue
            if not data:
                raise anyio.EndOfStream
            return data

    async def send(self, data: bytes) -> None:
        """Write everything; a cancelled caller may have sent a part of it.

        Raises `OSError` when the other end is closed.
        """
        rest = memoryview(data)
        while rest:
            await anyio.wait_writable(self._end)
            try:
                rest = rest[os.write(self._end.fileno(), rest) :]
            except BlockingIOError:
                continue
