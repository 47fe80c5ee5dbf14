"""A server made with the SDK, to run as a process: over stdio, or over HTTP with uvicorn or hypercorn.

Arguments: stdio, http or sse; asyncio (uvicorn) or trio (hypercorn); and a port.
"""

import os
from typing import Any

import anyio
from mcp.server.mcpserver import Context, MCPServer

from seqoria_runtime.mcp import DEPENDS_ON_META_KEY

server = MCPServer("sdk", version="1.0", log_level="ERROR")


@server.tool(meta={DEPENDS_ON_META_KEY: ["add"]})
async def echo(text: str) -> str:
    """Echo text."""
    return text


@server.tool()
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@server.tool()
async def fail() -> str:
    raise ValueError("kaboom")


@server.tool()
async def slow(seconds: float, ctx: Context) -> str:
    """Take a while, and report progress."""
    for step in range(4):
        await ctx.report_progress(step + 1, 4, f"step {step + 1}")
        await anyio.sleep(seconds / 4)
    return "slept"


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    """Offer one more tool, and notify the client as the protocol version says."""

    async def grown() -> str:
        return name

    server.add_tool(grown, name=name)
    await ctx.notify_tools_changed()
    if ctx.protocol_version and ctx.protocol_version < "2026":
        await ctx.session.send_tool_list_changed()
    return "grown"


@server.tool()
async def die() -> str:
    os._exit(3)


@server.resource("notes://{name}")
async def note(name: str) -> str:
    return f"note {name}"


@server.prompt()
def greet(name: str) -> str:
    return f"Greet {name}."


async def serve(transport: str, backend: str, port: int) -> None:
    if transport == "stdio":
        await server.run_stdio_async()
        return
    app: Any = server.streamable_http_app() if transport == "http" else server.sse_app()
    if backend == "trio":
        from hypercorn.config import Config
        from hypercorn.trio import serve as serve_on_trio

        config = Config()
        config.bind = [f"127.0.0.1:{port}"]
        config.graceful_timeout = 1
        config.loglevel = "CRITICAL"
        await serve_on_trio(app, config)
        return
    import uvicorn

    settings = uvicorn.Config(
        app, host="127.0.0.1", port=port, log_level="critical", timeout_graceful_shutdown=1
    )
    await uvicorn.Server(settings).serve()


def main(transport: str, backend: str, port: str) -> None:
    anyio.run(serve, transport, backend, int(port), backend=backend)
