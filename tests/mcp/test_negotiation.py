"""Agreeing on a version with servers of both eras, and of neither, in virtual time."""

from typing import Any

import anyio
import pytest

from seqoria_runtime.mcp import MCPServerConfig
from seqoria_runtime.mcp._connection.negotiation import PROBE_SECONDS
from tests.support.mcp_fakes import FakeServer, Json
from tests.support.server_sets import running_servers

NEWEST = "2026-07-28"
OLDER = "2025-11-25"
UNSUPPORTED = -32022


def config(server: FakeServer, **options: Any) -> MCPServerConfig:
    return MCPServerConfig(server=server, **options)


@pytest.mark.parametrize(
    ("modern", "protocol", "agreed"),
    [
        (True, "auto", NEWEST),
        (True, NEWEST, NEWEST),
        (True, "legacy", OLDER),
        (False, "auto", OLDER),
        (False, "legacy", OLDER),
    ],
)
async def test_both_eras_are_spoken(modern: bool, protocol: str, agreed: str) -> None:
    server = FakeServer(modern=modern)
    server.tool("a")
    async with running_servers(config(server, protocol=protocol)) as made:
        assert made.status().protocol == agreed
        assert await made.call("a") == "a"


async def test_a_server_of_the_older_era_is_refused_where_the_newer_one_is_demanded() -> None:
    async with running_servers(config(FakeServer(), protocol=NEWEST)) as made:
        assert made.status().error == "refused the handshake: no server/discover"


async def test_a_server_that_is_silent_to_what_it_does_not_know_costs_two_seconds() -> None:
    server = FakeServer()
    server.silent_to = {"server/discover"}
    server.tool("a")
    before = anyio.current_time()
    async with running_servers(config(server)) as made:
        assert anyio.current_time() - before == PROBE_SECONDS
        assert await made.call("a") == "a"


async def test_the_probe_leaves_time_for_the_handshake_of_a_short_timeout() -> None:
    server = FakeServer()
    server.silent_to = {"server/discover"}
    async with running_servers(config(server, timeout=1.0)) as made:
        assert made.status().state == "connected"


def unsupported(*versions: str) -> Json:
    data = {"supported": list(versions), "requested": NEWEST}
    return {"error": {"code": UNSUPPORTED, "message": "unsupported", "data": data}}


async def test_a_server_that_shares_no_version_is_refused() -> None:
    server = FakeServer(modern=True)
    server.first["server/discover"] = [unsupported("2099-01-01")]
    async with running_servers(config(server)) as made:
        assert made.status().error == "refused the handshake: unsupported"
        assert "initialize" not in server.methods()


async def test_a_server_that_names_older_versions_is_initialized() -> None:
    server = FakeServer()
    server.first["server/discover"] = [unsupported(OLDER)]
    async with running_servers(config(server)) as made:
        assert made.status().protocol == OLDER


async def test_a_server_that_names_a_version_of_the_newer_era_is_asked_in_it() -> None:
    server = FakeServer(modern=True)
    server.first["server/discover"] = [unsupported(NEWEST)]
    async with running_servers(config(server)) as made:
        assert made.status().protocol == NEWEST


OLDER_ONLY = {
    "resultType": "complete",
    "supportedVersions": [OLDER],
    "capabilities": {},
    "ttlMs": 0,
    "cacheScope": "public",
}


@pytest.mark.parametrize("found", [{"nonsense": 1}, OLDER_ONLY])
async def test_an_answer_that_does_not_speak_for_the_newer_era_is_none(found: Json) -> None:
    server = FakeServer()
    server.first["server/discover"] = [{"result": found}]
    async with running_servers(config(server)) as made:
        assert made.status().protocol == OLDER


async def test_a_slow_server_that_took_the_probe_for_its_first_word_is_spoken_to_in_the_newer_era() -> None:
    server = FakeServer(modern=True)
    server.first["initialize"] = [unsupported(NEWEST)]
    server.delays["server/discover"] = [PROBE_SECONDS + 1]
    async with running_servers(config(server)) as made:
        assert made.status().protocol == NEWEST


async def test_a_refused_handshake_is_reported_in_the_servers_words() -> None:
    server = FakeServer()
    refusal = {"error": {"code": -32000, "message": "licence expired, token=abc"}}
    server.first["initialize"] = [refusal]
    async with running_servers(config(server)) as made:
        assert made.status().error == "refused the handshake: licence expired, token=[REDACTED]"
