"""The stdio transport: runs a server's process, and reads and writes one message a line.

Unlike the SDK's, it reports the exit code and the end of standard error.
"""

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import anyio
from anyio import Event
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from seqoria_runtime._base.redaction import redact

from .connection_end import ConnectionEnd, Log
from .failures import RequestFailed, describe
from .messages import Inbox, deliver
from .pipes import Child
from .processes import end_process_tree, wait_until

Outbox: TypeAlias = MemoryObjectReceiveStream[SessionMessage]
Streams: TypeAlias = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]

_BUFFERED = 16
_MAX_LINE = 64 * 1024 * 1024
_MAX_ERRORS_KEPT = 2_000
_FLUSH_SECONDS = 0.5
# A process closes its output a moment before the system knows its exit code.
_EXIT_CODE_SECONDS = 0.05

_BROKEN = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


@asynccontextmanager
async def stdio_transport(
    argv: tuple[str, ...],
    *,
    env: Mapping[str, str] | None,
    cwd: str | Path | None,
    end: ConnectionEnd,
    log: Log,
) -> AsyncGenerator[Streams, None]:
    """Run a server and talk to it; leaving ends its whole process tree, also for a cancelled caller.

    Raises `RequestFailed` if the program cannot be started.
    """
    environment = {**get_default_environment(), **(env or {})}
    try:
        started = Child(argv, env=environment, cwd=cwd)
    except OSError as exc:
        raise _not_started(exc, argv[0], cwd) from exc
    with started as child:
        async with _talk(_StdioServer(child, end, log)) as streams:
            yield streams


def _not_started(exc: OSError, program: str, cwd: str | Path | None) -> RequestFailed:
    """Return what is wrong with a command, as far as can be known."""
    advice = ""
    if cwd is not None and not Path(cwd).is_dir():
        advice = "; 'cwd' is not a folder"
    elif isinstance(exc, FileNotFoundError) and any(map(str.isspace, program)):
        advice = "; put the arguments of a command into 'args'"
    return RequestFailed(f"could not be started: {describe(exc)}{advice}", ran=False)


@asynccontextmanager
async def _talk(server: "_StdioServer") -> AsyncGenerator[Streams, None]:
    inbox, messages = anyio.create_memory_object_stream[SessionMessage | Exception](_BUFFERED)
    outbox, to_write = anyio.create_memory_object_stream[SessionMessage](0)
    async with inbox, messages, outbox, to_write, anyio.create_task_group() as group:
        written = Event()
        group.start_soon(server.read_messages, inbox)
        group.start_soon(server.write_messages, to_write, inbox, written)
        group.start_soon(server.read_errors)
        try:
            yield messages, outbox
        finally:
            with anyio.CancelScope(shield=True):
                messages.close()
                outbox.close()
                await server.end(written)
            group.cancel_scope.cancel("the server was ended")


@dataclass
class _StdioServer:
    child: Child
    connection_end: ConnectionEnd
    log: Log
    last_errors: bytes = b""
    writing: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    async def read_messages(self, inbox: Inbox) -> None:
        """Read the server's output, line by line, until it ends, and then end the connection."""
        buffer = bytearray()
        with suppress(*_BROKEN):
            while len(buffer) <= _MAX_LINE:
                start = len(buffer)
                buffer += await self.child.stdout.receive()
                if buffer.find(b"\n", start) >= 0:
                    *lines, rest = bytes(buffer).split(b"\n")
                    buffer = bytearray(rest)
                    await self._deliver(lines, inbox)
        self.connection_end.report(await self._how_it_ended(too_long=len(buffer) > _MAX_LINE))
        inbox.close()
        # A server that flushes its output at exit would otherwise block on a full pipe and have to be killed.
        with suppress(*_BROKEN):
            while True:
                await self.child.stdout.receive()

    async def _deliver(self, lines: list[bytes], inbox: Inbox) -> None:
        for line in lines:
            if line.strip():
                await deliver(line, inbox, self.log, "printed a line")

    async def _how_it_ended(self, *, too_long: bool = False) -> str:
        if too_long:
            return "printed a line without an end"
        await wait_until(lambda: self.child.exit_code is not None, _EXIT_CODE_SECONDS)
        code = self.child.exit_code
        if code is None:
            return "closed its output"
        return f"exited with code {code}" if code >= 0 else f"was killed by signal {-code}"

    async def write_messages(self, to_write: Outbox, inbox: Inbox, written: Event) -> None:
        """Write messages in a separate task, so that a cancelled sender never leaves half a line."""
        try:
            with self.writing:
                async for message in to_write:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await self.child.stdin.send(f"{text}\n".encode())
        except OSError:
            # The process may still run, but it can no longer be asked anything: end the connection.
            cause = await self._how_it_ended()
            self.connection_end.report("closed its input" if self.child.exit_code is None else cause)
            inbox.close()
        finally:
            to_write.close()
            written.set()

    async def read_errors(self) -> None:
        """Read standard error to its end, and keep the last part."""
        with suppress(*_BROKEN):
            while True:
                self.last_errors = (self.last_errors + await self.child.stderr.receive())[-_MAX_ERRORS_KEPT:]

    async def end(self, written: Event) -> None:
        """Write what was accepted, and end the process and everything that it started."""
        with anyio.move_on_after(_FLUSH_SECONDS):
            await written.wait()
        # A task that waits for a descriptor when it is closed may wait for ever: stop the writer first.
        self.writing.cancel("the server no longer reads")
        await written.wait()
        crashed = bool(self.child.exit_code)
        await end_process_tree(self.child)
        if self.last_errors and self.child.exit_code:
            text = redact(self.last_errors.decode(errors="replace").strip())
            self.log.log(logging.WARNING if crashed else logging.INFO, "said before it ended: %s", text)
