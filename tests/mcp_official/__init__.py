"""The official servers and the official conformance suite; run by .ci/mcp-servers only."""
