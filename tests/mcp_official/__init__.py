"""The official servers and the official conformance suite; run in the nox session `mcp_official` only."""
