"""Opens the transport that a configuration asks for, as a pair of message streams."""

import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import anyio
import httpx2
from anyio.lowlevel import cancel_shielded_checkpoint
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.memory import create_client_server_memory_streams

from seqoria_runtime.mcp._config.endpoint import HTTPEndpoint, InProcess, StdioCommand
from seqoria_runtime.mcp._config.server_config import MCPServerConfig

from .connection_end import ConnectionEnd, Log
from .http import HTTPClient, http_options
from .sse import sse_transport
from .stdio import stdio_transport

Streams: TypeAlias = tuple[Any, Any]

_MAX_EVENT = 64 * 1024 * 1024
_ROUNDS_OF_THE_LOOP = 16


def open_transport(
    config: MCPServerConfig,
    *,
    headers: Mapping[str, str] | None,
    auth: httpx2.Auth | None,
    end: ConnectionEnd,
    log: Log,
) -> AbstractAsyncContextManager[Streams]:
    """Return the transport of a configuration, to be entered and left by one task.

    `headers` and `auth` go with every HTTP request.
    """
    match config.target:
        case StdioCommand(argv):
            return _process(config, argv, end, log)
        case InProcess(server):
            return _in_process(server, end)
        case HTTPEndpoint(transport, url):
            options = http_options(dict(headers or {}), auth, config.timeout)
            if transport == "sse":
                return sse_transport(url, options=options, end=end, log=log)
            return _streamable_http(url, options, end)


def _process(
    config: MCPServerConfig, argv: tuple[str, ...], end: ConnectionEnd, log: Log
) -> AbstractAsyncContextManager[Streams]:
    if sys.platform == "win32":
        # The SDK ends a process tree there; `end_process_tree` knows POSIX only.
        env = dict(config.env) if config.env is not None else None
        command, *args = argv
        return stdio_client(StdioServerParameters(command=command, args=args, env=env, cwd=config.cwd))
    return stdio_transport(argv, env=config.env, cwd=config.cwd, end=end, log=log)


@asynccontextmanager
async def _streamable_http(url: str, options: dict[str, Any], end: ConnectionEnd) -> AsyncGenerator[Streams]:
    async with (
        HTTPClient(end, **options) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=_MAX_EVENT) as streams,
    ):
        try:
            yield streams
        finally:
            # The SDK abandons the generators of an answer. asyncio finishes them in new tasks, which need a
            # few rounds of the loop, or they would outlive the connection.
            for _ in range(_ROUNDS_OF_THE_LOOP):
                await cancel_shielded_checkpoint()


@asynccontextmanager
async def _in_process(server: Any, end: ConnectionEnd) -> AsyncGenerator[Streams]:
    # The SDK has no public way to run a high-level server on given streams.
    lowlevel = getattr(server, "_lowlevel_server", server)

    async def serve(read_stream: Any, write_stream: Any) -> None:
        await lowlevel.run(read_stream, write_stream, lowlevel.create_initialization_options())
        end.report("ended")

    async with (
        create_client_server_memory_streams() as (client_streams, server_streams),
        anyio.create_task_group() as group,
    ):
        group.start_soon(serve, *server_streams)
        try:
            yield client_streams
        finally:
            group.cancel_scope.cancel("the connection is closed")
