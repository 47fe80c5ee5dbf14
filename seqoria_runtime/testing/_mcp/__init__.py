"""What the MCP servers of the kit are made of."""
