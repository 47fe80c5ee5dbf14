"""Finds the official servers, which .ci/mcp-servers installs into a folder of its own."""

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("MCP_OFFICIAL", "/nowhere"))

collect_ignore_glob = [] if "MCP_OFFICIAL" in os.environ else ["test_*.py"]


@pytest.fixture(scope="session")
def node() -> Path:
    """Where the programs from npm are."""
    return FOLDER / "node_modules" / ".bin"
