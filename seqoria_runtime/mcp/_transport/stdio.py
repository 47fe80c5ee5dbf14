"""Owns a server's process and its pipes: lines in, lines out, and word of how it ended.

What the SDK's own transport keeps to itself is known here: the exit code, and the last words on
standard error. Knows nothing of what the messages mean.
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

from seqoria_runtime._base.redaction import bounded, redact

from .connection_end import Link
from .failures import RequestFailed, describe
from .messages import messages_in
from .pipes import Child
from .processes import end_process_tree, wait_until

Log: TypeAlias = logging.Logger | logging.LoggerAdapter[logging.Logger]
Inbox: TypeAlias = MemoryObjectSendStream[SessionMessage | Exception]
Outbox: TypeAlias = MemoryObjectReceiveStream[SessionMessage]
Streams: TypeAlias = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]

_BUFFERED = 16
_MAX_LINE = 64 * 1024 * 1024
_MAX_LAST_WORDS = 2_000
_MAX_SHOWN = 300
_FLUSH_SECONDS = 0.5
# How long the exit code may take to be known after the end of the output.
_EXIT_CODE_SECONDS = 0.05

_BROKEN = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


@asynccontextmanager
async def stdio_transport(
    argv: tuple[str, ...],
    *,
    env: Mapping[str, str] | None,
    cwd: str | Path | None,
    link: Link,
    log: Log,
) -> AsyncGenerator[Streams, None]:
    """Run a server and talk to it; leaving ends its whole process tree, also when cancelled.

    Raises `RequestFailed` if the program cannot be started.
    """
    whole = {**get_default_environment(), **(env or {})}
    try:
        started = Child(argv, env=whole, cwd=cwd)
    except OSError as exc:
        raise _not_started(exc, argv[0], cwd) from exc
    with started as child:
        async with _talk(_StdioServer(child, link, log)) as streams:
            yield streams


def _not_started(exc: OSError, program: str, cwd: str | Path | None) -> RequestFailed:
    """What is wrong with a command, as far as that can be told."""
    advice = ""
    if cwd is not None and not Path(cwd).is_dir():
        advice = "; 'cwd' is no folder"
    elif isinstance(exc, FileNotFoundError) and any(map(str.isspace, program)):
        advice = "; the arguments of a command go into 'args'"
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
    link: Link
    log: Log
    last_words: bytes = b""
    writing: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    async def read_messages(self, inbox: Inbox) -> None:
        """Read the server's output, line by line, until it ends."""
        buffer = bytearray()
        with suppress(*_BROKEN):
            while len(buffer) <= _MAX_LINE:
                start = len(buffer)
                buffer += await self.child.stdout.receive()
                if buffer.find(b"\n", start) >= 0:
                    *lines, rest = bytes(buffer).split(b"\n")
                    buffer = bytearray(rest)
                    await self._deliver(lines, inbox)
        self.link.end(await self._how_it_ended(too_long=len(buffer) > _MAX_LINE))
        inbox.close()
        # A server that flushes its output at exit must not hang on a full pipe.
        with suppress(*_BROKEN):
            while True:
                await self.child.stdout.receive()

    async def _deliver(self, lines: list[bytes], inbox: Inbox) -> None:
        for line in lines:
            if not line.strip():
                continue
            messages = messages_in(line)
            if not messages:
                shown = bounded(redact(line.decode(errors="replace")), _MAX_SHOWN)
                self.log.debug("printed a line that is no message: %s", shown)
            for message in messages:
                await inbox.send(SessionMessage(message))

    async def _how_it_ended(self, *, too_long: bool = False) -> str:
        if too_long:
            return "printed a line without an end"
        await wait_until(lambda: self.child.exit_code is not None, _EXIT_CODE_SECONDS)
        code = self.child.exit_code
        if code is None:
            return "closed its output"
        return f"exited with code {code}" if code >= 0 else f"was killed by signal {-code}"

    async def write_messages(self, to_write: Outbox, inbox: Inbox, written: Event) -> None:
        """Write what is sent, whole lines only, whoever is cancelled meanwhile."""
        try:
            with self.writing:
                async for message in to_write:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await self.child.stdin.send(f"{text}\n".encode())
        except OSError:
            # It may live on, and would never hear of anything again.
            cause = await self._how_it_ended()
            self.link.end("closed its input" if self.child.exit_code is None else cause)
            inbox.close()
        finally:
            to_write.close()
            written.set()

    async def read_errors(self) -> None:
        """Read standard error to its end, and keep its last words."""
        with suppress(*_BROKEN):
            while True:
                self.last_words = (self.last_words + await self.child.stderr.receive())[-_MAX_LAST_WORDS:]

    async def end(self, written: Event) -> None:
        """Flush what was accepted, and end the process and all that it started."""
        with anyio.move_on_after(_FLUSH_SECONDS):
            await written.wait()
        # Nobody may wait for the pipe when it is closed.
        self.writing.cancel("the server reads no more")
        await written.wait()
        crashed = bool(self.child.exit_code)
        await end_process_tree(self.child)
        if self.last_words and self.child.exit_code:
            words = redact(self.last_words.decode(errors="replace").strip())
            self.log.log(logging.WARNING if crashed else logging.INFO, "said before it ended: %s", words)
