"""Owns the way from a configuration to a pair of message streams, whatever lies between."""

import logging
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

from seqoria_runtime.mcp._config.endpoint import Command, Endpoint, InProcess
from seqoria_runtime.mcp._config.server_config import MCPServerConfig

from .connection_end import Link
from .http import HTTPClient, http_options
from .sse import sse_transport
from .stdio import stdio_transport

Log: TypeAlias = logging.Logger | logging.LoggerAdapter[logging.Logger]
Streams: TypeAlias = tuple[Any, Any]

_MAX_EVENT = 64 * 1024 * 1024
_ROUNDS_OF_THE_LOOP = 16


def open_transport(
    config: MCPServerConfig,
    *,
    headers: Mapping[str, str] | None,
    auth: httpx2.Auth | None,
    link: Link,
    log: Log,
) -> AbstractAsyncContextManager[Streams]:
    """The transport of a configuration, to be entered and left by one task.

    `headers` and `auth` go with every HTTP request.
    """
    match config.target:
        case Command(argv):
            return _process(config, argv, link, log)
        case InProcess(server):
            return _in_process(server, link)
        case Endpoint(transport, url):
            options = http_options(dict(headers or {}), auth, config.timeout)
            if transport == "sse":
                return sse_transport(url, options=options, link=link, log=log)
            return _streamable_http(url, options, link)


def _process(
    config: MCPServerConfig, argv: tuple[str, ...], link: Link, log: Log
) -> AbstractAsyncContextManager[Streams]:
    if sys.platform == "win32":
        # The SDK knows how to end a process tree there.
        env = dict(config.env) if config.env is not None else None
        command, *args = argv
        return stdio_client(StdioServerParameters(command=command, args=args, env=env, cwd=config.cwd))
    return stdio_transport(argv, env=config.env, cwd=config.cwd, link=link, log=log)


@asynccontextmanager
async def _streamable_http(url: str, options: dict[str, Any], link: Link) -> AsyncGenerator[Streams]:
    async with (
        HTTPClient(link, **options) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=_MAX_EVENT) as streams,
    ):
        try:
            yield streams
        finally:
            # The SDK drops the generators of an answer unfinished, which asyncio ends in tasks of their own.
            for _ in range(_ROUNDS_OF_THE_LOOP):
                await cancel_shielded_checkpoint()


@asynccontextmanager
async def _in_process(server: Any, link: Link) -> AsyncGenerator[Streams]:
    # The SDK has no other way to run a server of its high-level kind on given streams.
    lowlevel = getattr(server, "_lowlevel_server", server)

    async def serve(read_stream: Any, write_stream: Any) -> None:
        await lowlevel.run(read_stream, write_stream, lowlevel.create_initialization_options())
        link.end("ended")

    async with (
        create_client_server_memory_streams() as (client_streams, server_streams),
        anyio.create_task_group() as group,
    ):
        group.start_soon(serve, *server_streams)
        try:
            yield client_streams
        finally:
            group.cancel_scope.cancel("the connection is closed")
