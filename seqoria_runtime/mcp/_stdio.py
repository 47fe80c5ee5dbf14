"""Owns a server's process and its pipes: lines in, lines out, and word of how it ended.

What the SDK's own transport keeps to itself is known here: the exit code, and the last words on
standard error. Knows nothing of what the messages mean.
"""

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import anyio
from anyio.abc import Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from seqoria_runtime._redaction import bounded, redact

from ._link import Link
from ._processes import end_process_tree, wait_until

Messages: TypeAlias = MemoryObjectReceiveStream[SessionMessage | Exception]
Outbox: TypeAlias = MemoryObjectSendStream[SessionMessage]

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
    log: logging.Logger | logging.LoggerAdapter[logging.Logger],
) -> AsyncGenerator[tuple[Messages, Outbox], None]:
    """Run a server and talk to it; leaving ends its whole process tree, also when cancelled.

    Raises `OSError` if the program cannot be started.
    """
    process = await anyio.open_process(
        argv, env={**get_default_environment(), **(env or {})}, cwd=cwd, start_new_session=True
    )
    server = _StdioServer(process, link, log)
    async with anyio.create_task_group() as group:
        for task in (server.read_messages, server.write_messages, server.read_errors):
            group.start_soon(task)
        try:
            yield server.messages, server.outbox
        finally:
            with anyio.CancelScope(shield=True):
                await server.end()
            group.cancel_scope.cancel("the server was ended")


class _StdioServer:
    def __init__(
        self, process: Process, link: Link, log: logging.Logger | logging.LoggerAdapter[logging.Logger]
    ) -> None:
        self._process = process
        self._link = link
        self._log = log
        self._last_words = b""
        self._inbox, self.messages = anyio.create_memory_object_stream[SessionMessage | Exception](_BUFFERED)
        self.outbox, self._to_write = anyio.create_memory_object_stream[SessionMessage](0)
        self._written = anyio.Event()

    async def read_messages(self) -> None:
        """Read the server's output, line by line, until it ends."""
        assert self._process.stdout is not None
        buffer = bytearray()
        with suppress(*_BROKEN):
            while len(buffer) <= _MAX_LINE:
                start = len(buffer)
                buffer += await self._process.stdout.receive()
                if buffer.find(b"\n", start) >= 0:
                    *lines, rest = bytes(buffer).split(b"\n")
                    buffer = bytearray(rest)
                    await self._deliver(lines)
        self._link.end(await self._how_it_ended(too_long=len(buffer) > _MAX_LINE))
        self._inbox.close()
        await self._drain()

    async def _deliver(self, lines: list[bytes]) -> None:
        for line in lines:
            if not line.strip():
                continue
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                shown = bounded(redact(line.decode(errors="replace")), _MAX_SHOWN)
                self._log.debug("printed a line that is no message: %s", shown)
                continue
            await self._inbox.send(SessionMessage(message))

    async def _how_it_ended(self, *, too_long: bool) -> str:
        if too_long:
            return "printed a line without an end"
        await wait_until(lambda: self._process.returncode is not None, _EXIT_CODE_SECONDS)
        code = self._process.returncode
        if code is None:
            return "closed its output"
        return f"exited with code {code}" if code >= 0 else f"was killed by signal {-code}"

    async def _drain(self) -> None:
        # A server that flushes its output at exit must not hang on a full pipe.
        assert self._process.stdout is not None
        with suppress(*_BROKEN):
            while True:
                await self._process.stdout.receive()

    async def write_messages(self) -> None:
        """Write what is sent, whole lines only, whoever is cancelled meanwhile."""
        assert self._process.stdin is not None
        try:
            with self._to_write:
                async for message in self._to_write:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await self._process.stdin.send(f"{text}\n".encode())
        except _BROKEN:
            # It may live on, and would never hear of anything again.
            self._link.end(await self._how_it_ended(too_long=False))
            self._inbox.close()
        finally:
            self._written.set()

    async def read_errors(self) -> None:
        """Read standard error to its end, and keep its last words."""
        assert self._process.stderr is not None
        with suppress(*_BROKEN):
            while True:
                self._last_words += await self._process.stderr.receive()
                self._last_words = self._last_words[-_MAX_LAST_WORDS:]

    async def end(self) -> None:
        """Flush what was accepted, and end the process and all that it started."""
        self.messages.close()
        self.outbox.close()
        with anyio.move_on_after(_FLUSH_SECONDS):
            await self._written.wait()
        await end_process_tree(self._process)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                await pipe.aclose()
        if self._last_words and self._process.returncode:
            words = redact(self._last_words.decode(errors="replace").strip())
            self._log.info("said before it ended: %s", words)
        self._release()

    def _release(self) -> None:
        """Close what would otherwise be closed, with a warning, by the garbage collector."""
        for stream in (self._inbox, self.messages, self.outbox, self._to_write):
            stream.close()
        # asyncio's own object closes only once every copy of the pipes is closed, and a process that
        # got away may hold one.
        transport = getattr(getattr(self._process, "_process", None), "_transport", None)
        if transport is not None:
            with suppress(ProcessLookupError, PermissionError):
                transport.close()
