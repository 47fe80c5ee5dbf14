"""Agrees with a server on a protocol version, of either era of the protocol.

Up to 2025-11-25 a connection starts with `initialize`. From 2026-07-28 on there is no handshake;
`server/discover` describes the server.
"""

import anyio
from mcp import ClientSession, MCPError
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION, DiscoverResult, UnsupportedProtocolVersionErrorData
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from seqoria_runtime.mcp._login.paused_deadlines import timed
from seqoria_runtime.mcp._transport.failures import RequestFailed

PROBE_SECONDS = 2.0
"""How long to wait for the answer to the probe before a server counts as one of the older era."""


async def negotiate(session: ClientSession, protocol: str, timeout: float) -> None:
    """Agree on a version; `timeout` bounds the whole handshake, in seconds.

    Raises `MCPError` for a server that refuses, and `RequestFailed` if it cannot be asked.
    """
    if protocol == "legacy":
        await session.initialize()
    elif protocol == "auto":
        await _negotiate_either(session, min(PROBE_SECONDS, timeout / 4))
    else:
        await session.discover()


async def _negotiate_either(session: ClientSession, seconds: float) -> None:
    found = await _probe(session, LATEST_MODERN_VERSION, seconds)
    if isinstance(found, MCPError) and (version := _mutual(found)) is not None:
        found = await _probe(session, version, seconds)
    if isinstance(found, MCPError) and _is_modern_only(found):
        raise found
    if isinstance(found, DiscoverResult):
        session.adopt(found)
        return
    try:
        await session.initialize()
    except MCPError as refusal:
        # A modern server that starts slowly misses the probe's time limit and refuses `initialize`. Its
        # refusal names its versions, so it still gets connected.
        version = _mutual(refusal)
        if version is None:
            raise
        session.adopt(DiscoverResult.model_validate(await session.send_discover(version)))


async def _probe(session: ClientSession, version: str, seconds: float) -> DiscoverResult | MCPError | None:
    """Return the answer to `server/discover`; `None` for silence or an answer that is not understood.

    Raises `RequestFailed` for a broken connection.
    """
    with anyio.move_on_after(seconds) as scope, timed(scope):
        try:
            found = DiscoverResult.model_validate(await session.send_discover(version))
        except RequestFailed as failure:
            # Servers of the older era answer 400 or 404 to a first request that is not `initialize`: an HTTP
            # status is a refusal here, and must not end the attempt to connect.
            if failure.status is None:
                raise
            return failure
        except MCPError as refusal:
            return refusal
        except ValidationError:
            return None
        modern = any(known in MODERN_PROTOCOL_VERSIONS for known in found.supported_versions)
        return found if modern else None
    return None


def _supported(refusal: MCPError) -> list[str]:
    if refusal.code != UNSUPPORTED_PROTOCOL_VERSION:
        return []
    try:
        return UnsupportedProtocolVersionErrorData.model_validate(refusal.data).supported
    except ValidationError:
        return []


def _mutual(refusal: MCPError) -> str | None:
    """Return the newest modern version that both sides speak, from a refusal that lists the server's."""
    supported = _supported(refusal)
    return next((known for known in reversed(MODERN_PROTOCOL_VERSIONS) if known in supported), None)


def _is_modern_only(refusal: MCPError) -> bool:
    supported = _supported(refusal)
    return bool(supported) and not any(known in HANDSHAKE_PROTOCOL_VERSIONS for known in supported)
