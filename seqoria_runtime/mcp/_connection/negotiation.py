"""Owns the first words with a server: which of the protocol's two eras both sides speak.

Up to 2025-11-25 a connection begins with `initialize`; from 2026-07-28 on there is no handshake,
and `server/discover` tells what the server is. Knows nothing of transports.
"""

import anyio
from mcp import ClientSession, MCPError
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION, DiscoverResult, UnsupportedProtocolVersionErrorData
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from seqoria_runtime.mcp._login.paused_deadlines import timed
from seqoria_runtime.mcp._transport.failures import RequestFailed

PROBE_SECONDS = 2.0
"""How long a server may be silent to the probe before it is taken for one of the older era."""


async def negotiate(session: ClientSession, protocol: str, timeout: float) -> None:
    """Agree on a version; `timeout` is what the whole handshake may take, in seconds.

    Raises `MCPError` for a server that refuses, and `RequestFailed` where it cannot be asked.
    """
    if protocol == "legacy":
        await session.initialize()
    elif protocol == "auto":
        await _negotiate_either(session, min(PROBE_SECONDS, timeout / 4))
    else:
        await session.discover()


async def _negotiate_either(session: ClientSession, patience: float) -> None:
    found = await _probe(session, LATEST_MODERN_VERSION, patience)
    if isinstance(found, MCPError) and (version := _mutual(found)) is not None:
        found = await _probe(session, version, patience)
    if isinstance(found, MCPError) and _is_modern_only(found):
        raise found
    if isinstance(found, DiscoverResult):
        session.adopt(found)
        return
    try:
        await session.initialize()
    except MCPError as refusal:
        # A server that was slow to start took the probe for the first word after all, and is modern.
        version = _mutual(refusal)
        if version is None:
            raise
        session.adopt(DiscoverResult.model_validate(await session.send_discover(version)))


async def _probe(session: ClientSession, version: str, patience: float) -> DiscoverResult | MCPError | None:
    """What the server says to the modern era's first word; `None` if nothing that can be understood.

    An HTTP status is no more than a refusal here; a broken connection is raised.
    """
    with anyio.move_on_after(patience) as scope, timed(scope):
        try:
            found = DiscoverResult.model_validate(await session.send_discover(version))
        except RequestFailed as failure:
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
    """The newest modern version that both sides speak, by a refusal that names those of the server."""
    supported = _supported(refusal)
    return next((known for known in reversed(MODERN_PROTOCOL_VERSIONS) if known in supported), None)


def _is_modern_only(refusal: MCPError) -> bool:
    supported = _supported(refusal)
    return bool(supported) and not any(known in HANDSHAKE_PROTOCOL_VERSIONS for known in supported)
